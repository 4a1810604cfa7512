#! /usr/bin/env perl
# Writes a first fipsmodule.cnf: the FIPS module's integrity value (HMAC-SHA256 of the file under
# the key that was compiled into it) and the options the module reads at load.
#
# Part of Gabion, MIT OR Apache-2.0. The packaged OpenSSL source comes without its own generator;
# this one was written from the way the tree's Makefile calls it:
#
#     mk-fipsmodule-cnf.pl -module FILE -section_name NAME -key HEX > fipsmodule.cnf
#
# The bundle replaces the result with that of `openssl fipsinstall`, which runs the module's
# self-tests first.

use strict;
use warnings;

use Digest::SHA qw(hmac_sha256_hex);
use Getopt::Long;

my ($module, $section, $key);
GetOptions('module=s' => \$module, 'section_name=s' => \$section, 'key=s' => \$key)
    or die "mk-fipsmodule-cnf.pl: see the first lines of this file for its options\n";
die "mk-fipsmodule-cnf.pl: -module, -section_name and -key are all needed\n"
    unless defined $module && defined $section && defined $key;
die "mk-fipsmodule-cnf.pl: -key is not an even number of hexadecimal digits\n"
    unless $key =~ /^(?:[0-9a-fA-F]{2})+$/;

open my $file, '<:raw', $module or die "mk-fipsmodule-cnf.pl: cannot read $module: $!\n";
my $bytes = do { local $/; <$file> };
close $file;

my $mac = uc hmac_sha256_hex($bytes, pack 'H*', $key);
my $mac_pairs = join ':', $mac =~ /../g;

print <<"END";
[$section]
activate = 1
install-version = 1
conditional-errors = 1
security-checks = 1
module-mac = $mac_pairs
END
