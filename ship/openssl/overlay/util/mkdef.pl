#! /usr/bin/env perl
# Writes the linker version script of a shared library or loadable module of the OpenSSL tree.
#
# Part of Gabion, MIT OR Apache-2.0. The packaged OpenSSL source comes without its own generator;
# this one was written from the way the tree's Makefile calls it:
#
#     mkdef.pl [--version X.Y.Z] --type lib|dso --ordinals FILE.num --name NAME --OS linux
#
# A .num file lists exported symbols, one a line: name, number, version since, and
# EXIST-or-NOEXIST:platforms:FUNCTION-or-VARIABLE:features. The script keeps those that exist on
# this platform with the features that were configured, and prints one version node for each
# version, the oldest first, each inheriting from the one before. The node names are part of the
# ABI (OPENSSL_3.0.0), so programs built against any other OpenSSL 3 find their symbols here too.
# Everything that is not listed is made local.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/perl";
use lib '.';                    # configdata.pm lies in the build folder, where make runs us.
use Getopt::Long;

use OpenSSL::Ordinals;
use configdata;

my ($type, $ordinals, $name, $os, $version);
GetOptions(
    'type=s'     => \$type,
    'ordinals=s' => \$ordinals,
    'name=s'     => \$name,
    'OS=s'       => \$os,
    'version=s'  => \$version,
) or die "mkdef.pl: see the first lines of this file for its options\n";

for (['type', $type], ['ordinals', $ordinals], ['name', $name], ['OS', $os]) {
    die "mkdef.pl: --$_->[0] is missing\n" unless defined $_->[1];
}
die "mkdef.pl: --type is '$type'; expected lib or dso\n" unless $type =~ /^(?:lib|dso)$/;
die "mkdef.pl: writes version scripts for linux only, not for '$os'; "
    . "build from the complete upstream tarball instead\n"
    unless $os eq 'linux';

# What a .num file's platform words mean here; words that are absent are other platforms.
my %this_platform = (UNIX => 1, linux => 1);

# An item lists platforms where it is (FOO) or is not (!FOO); no list means everywhere.
sub on_this_platform {
    my %wanted = @_;
    my @only = grep { $wanted{$_} } keys %wanted;
    my @not  = grep { !$wanted{$_} } keys %wanted;
    return 0 if grep { $this_platform{$_} } @not;
    return 1 unless @only;
    return scalar grep { $this_platform{$_} } @only;
}

# True when no feature the item needs was configured away. Feature words are upper case with
# underscores; %disabled of configdata spells some of them with dashes and some not.
sub features_configured {
    for my $feature (@_) {
        next if $feature eq '';
        if ($feature =~ /^DEPRECATEDIN_/) {
            return 0 if $disabled{deprecated};
            next;
        }
        my $as_is = lc $feature;
        (my $dashed = $as_is) =~ tr/_/-/;
        return 0 if $disabled{$as_is} || $disabled{$dashed};
    }
    return 1;
}

# 3.10.0 comes after 3.9.0: compare number by number, and a letter suffix (1.1.0a) last.
sub version_order {
    my @l = $a =~ /(\d+|[a-z]+)/g;
    my @r = $b =~ /(\d+|[a-z]+)/g;
    while (@l || @r) {
        my ($x, $y) = (shift @l, shift @r);
        return -1 unless defined $x;
        return 1 unless defined $y;
        my $order = ($x =~ /^\d/ && $y =~ /^\d/) ? $x <=> $y : $x cmp $y;
        return $order if $order;
    }
    return 0;
}

my %symbols;    # version => [names]; '*' for modules, whose symbols carry no version
for my $item (OpenSSL::Ordinals->new(from => $ordinals)->items()) {
    next unless defined $item && $item->exists();
    next unless on_this_platform($item->platforms());
    next unless features_configured($item->features());
    push @{ $symbols{ $item->version() } }, $item->name();
}
die "mkdef.pl: $ordinals exports nothing for $name\n" unless %symbols;

my @versions = sort version_order grep { $_ ne '*' } keys %symbols;
if (defined $version) {
    for my $since (@versions) {
        local ($a, $b) = ($since, $version);
        die "mkdef.pl: $ordinals has a symbol since $since, newer than version $version\n"
            if version_order() > 0;
    }
}
die "mkdef.pl: $ordinals mixes versioned symbols and symbols without a version\n"
    if @versions && $symbols{'*'};

sub node {
    my ($label, $names, $hide_rest, $after) = @_;
    print $label eq '' ? "{\n" : "$label {\n", "    global:\n";
    print "        $_;\n" for sort @$names;
    print "    local: *;\n" if $hide_rest;
    print $after eq '' ? "};\n" : "} $after;\n";
}

if ($symbols{'*'}) {
    node('', $symbols{'*'}, 1, '');
} else {
    my $before = '';
    for my $since (@versions) {
        node("OPENSSL_$since", $symbols{$since}, $before eq '', $before);
        $before = "OPENSSL_$since";
    }
}
