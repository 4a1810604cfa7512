#!/bin/sh
# Installs the packages of dist/ on a bare Debian 12 and 13, and uses and removes them. Before and after each step
# the machine has to work as before: openssl, apt, sshd, nginx, Python. Needs root, and debootstrap for the first run.
# Ends with "N passed, N failed", and exits 0 only when nothing failed.
#
#   tests/packages.sh [SUITE...]     bookworm trixie

set -eu
cd "$(dirname "$0")/.."

[ "$(id -u)" -eq 0 ] || { echo "tests/packages.sh needs root: it makes file systems" >&2; exit 3; }
set -- "${@:-bookworm trixie}"
roots=${XDG_CACHE_HOME:-$HOME/.cache}/gabion/roots
dist=$PWD/dist
work=$(mktemp -d)
passed=0
failed=0
trap 'umount -R "$work"/*/root 2>/dev/null || true; rm -rf "$work"' EXIT

ls "$dist"/gabion_*.deb >/dev/null 2>&1 || { echo "there are no packages in dist/: run make dist" >&2; exit 3; }

# check NAME COMMAND...  one result.
check() {
    name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $suite: $name" >&2
        tail -n 15 "$work/log" | sed 's/^/    /' >&2
    fi
}

# make_base SUITE  a bare Debian with the programs that have to survive, kept for later runs.
make_base() {
    base=$roots/$1
    if [ ! -e "$base/.ready" ]; then
        mkdir -p "$roots"
        [ -e "$base/etc/debian_version" ] || debootstrap --variant=minbase "$1" "$base" >"$roots/$1.log"
        cp /etc/resolv.conf "$base/etc/resolv.conf"
        in_root "$base" apt-get update -qq
        in_root "$base" apt-get install -qq --no-install-recommends ca-certificates curl nginx-light openssh-server openssl \
            python3-minimal python3 binutils >/dev/null
        touch "$base/.ready"
    fi
}

# in_root ROOT COMMAND...  runs a command in a root, with processes and mounts of its own.
in_root() {
    in_root=$1
    shift
    unshare --mount --pid --fork --kill-child sh -c '
        root=$1; shift
        mount --bind /dev "$root/dev"; mount -t proc proc "$root/proc"; mount -t tmpfs tmpfs "$root/run"
        exec env -i HOME=/root TERM=dumb LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            chroot "$root" "$@"' sh "$in_root" "$@"
}

# fresh  a copy of the suite's base that this test changes.
fresh() {
    umount -R "$work/$suite/root" 2>/dev/null || true
    rm -rf "$work/$suite"
    mkdir -p "$work/$suite/upper" "$work/$suite/work" "$work/$suite/root"
    mount -t overlay overlay -o "lowerdir=$roots/$suite,upperdir=$work/$suite/upper,workdir=$work/$suite/work" "$work/$suite/root"
    root=$work/$suite/root
    mkdir -p "$root/dist"
    cp "$dist"/*.deb "$root/dist/"
    cp packaging/tests/*.sh "$root/"
}

inside() { in_root "$root" "$@"; }

# survives STEP  the programs of the machine, after a step.
survives() { check "after $1: openssl, apt, sshd, nginx and Python work" inside sh /survives.sh; }

for suite in $*; do
    make_base "$suite"
    fresh
    survives "nothing"
    check "install the command" inside sh -c 'apt-get install -qq /dist/gabion_*.deb && gabion --version && man_pages=$(dpkg -L gabion | grep -c man1) && [ "$man_pages" -gt 10 ]'
    check "install the bundle" inside sh -c 'apt-get install -qq /dist/gabion-openssl_*.deb && test -s /usr/lib/gabion/openssl/ssl/fipsmodule.cnf'
    check "a handshake by the bundle" inside sh /handshake.sh "gabion exec --"
    check "a handshake by the bundle in FIPS mode" inside sh -c 'GABION_OPENSSL_FIPS_MODE=only gabion exec -- openssl list -providers | grep -q fips'
    survives "installing the bundle"
    if [ "$suite" = bookworm ]; then
        check "an older OpenSSL refuses the provider" inside sh -c '! apt-get install -qq /dist/gabion-openssl-provider_*.deb 2>/said && grep -q "gabion-openssl" /said && ! dpkg -s gabion-openssl-provider 2>/dev/null'
    else
        check "install the provider" inside sh -c 'apt-get install -qq /dist/gabion-openssl-provider_*.deb && ! openssl list -providers | grep -q gabion'
        survives "installing the provider"
        check "enable the provider" inside sh -c 'gabion provider enable && openssl list -providers | grep -q gabion'
        survives "enabling the provider"
        check "a handshake by the system's OpenSSL" inside sh /handshake.sh ""
        check "disable the provider" inside sh -c 'gabion provider disable && ! openssl list -providers | grep -q gabion && dpkg -V openssl'
        check "remove an enabled provider" inside sh -c 'gabion provider enable && apt-get remove -qq gabion-openssl-provider && ! grep -q gabion /etc/ssl/openssl.cnf'
        survives "removing an enabled provider"
    fi
    check "install the library" inside sh -c 'apt-get install -qq /dist/libgabion1_*.deb /dist/libgabion-dev_*.deb && ldconfig -p | grep -q libgabion.so.1'
    check "install the service" inside sh -c 'apt-get install -qq /dist/gabion-kms_*.deb && id gabion-kms'
    check "a signature by the service" inside sh /kms.sh
    check "reinstall keeps the configuration" inside sh -c 'echo "# mine" >>/etc/gabion/kms.toml && apt-get install -qq --reinstall /dist/gabion-kms_*.deb && grep -q "# mine" /etc/gabion/kms.toml'
    check "remove" inside sh -c 'apt-get remove -qq "gabion*" "libgabion*" && ! command -v gabion && test -e /etc/gabion/kms.toml'
    survives "removal"
    check "purge leaves only keys" inside sh -c 'apt-get purge -qq gabion-kms gabion-openssl && test ! -e /etc/gabion && test ! -e /usr/lib/gabion && test -d /var/lib/gabion-kms'
    survives "purge"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
