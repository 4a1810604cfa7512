#!/bin/sh
# Installs packages in roots of Debian 12 and 13, and uses, upgrades and removes them; tries that the host's programs work
# after each of many paths; starts the unit; assembles the image of nginx; installs the RPM packages. Needs root, and
# debootstrap and a mirror of Debian for the first run. Ends with "N passed, N failed", and fails if something did.
#
#   tests/packages.sh [PART...]      parts: packages survival service image rpm; all of them without one
#   tests/packages.sh --short        a dozen paths of the survival matrix
#
#   GABION_DIST_FROM   a folder of cargo (target/debug) whose programs are packaged for the survival matrix, instead of
#                      the packages that script/dist made
#   GABION_TEST_PATH   only paths whose names have this in them

set -eu
cd "$(dirname "$0")/.."
for file in roots build matrix service; do
    # shellcheck source=/dev/null
    . "tests/packages/$file"
done

short=
parts=
only=${GABION_TEST_PATH-}
for argument in "$@"; do
    case $argument in
    --short) short=1 parts=survival ;;
    packages | survival | service | image | rpm) parts="$parts $argument" ;;
    *) echo "error: expected --short or parts (packages survival service image rpm), not \`$argument\`" >&2; exit 2 ;;
    esac
done
parts=${parts:-packages survival service image rpm}
passed=0
failed=0

# result  prints the counts and ends.
result() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

skip() {
    echo "skipped: $1"
    result
}

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

# inside COMMANDS  runs shell commands in the suite's root, with the functions of packaging/tests/functions.sh.
inside() { in_root "$root" sh -ec ". /host/functions.sh; $1"; }

# survives STEP  counts a result for each program of the host.
survives() {
    in_root "$root" sh /host/programs.sh >"$work/said" 2>&1 || true
    works=$(grep -c '^works ' "$work/said") || true
    passed=$((passed + works))
    failed=$((failed + 6 - works))
    [ "$works" -eq 6 ] || { echo "FAILED: $suite: programs after $1" >&2; sed 's/^/    /' "$work/said" >&2; }
}

# from_install_to_handshake PACKAGE PREFIX COMMANDS  prints the seconds from `apt install` to the first handshake.
from_install_to_handshake() {
    begun=$(date +%s%N)
    inside "apt-get -qq install /packages/dist/gabion_*.deb /packages/dist/$1_*.deb; $3; sh /host/handshake.sh '$2'" || return 1
    echo "$suite: from \`apt install\` to the first handshake: $((($(date +%s%N) - begun) / 1000000)) ms" | tee -a "$work/times"
}

# no_leftovers  whether the root has no new file outside of /var/lib/gabion-kms and the folders that dpkg, apt and systemd
# keep for themselves.
no_leftovers() {
    (cd "$work/installation/upper" && find . -type f ! -path './var/lib/gabion-kms/*' ! -path './var/cache/*' ! -path './var/log/*' \
        ! -path './var/lib/dpkg/*' ! -path './var/lib/apt/*' ! -path './var/lib/systemd/*' ! -path './tmp/*') |
        while read -r file; do [ -e "$roots/$suite/$file" ] || echo "$file"; done >"$work/left"
    cat "$work/left"
    [ ! -s "$work/left" ]
}

# Uses each package on a bare root, and removes it.
try_packages() {
    start_server "$suite"
    overlay installation "$roots/$suite"
    if [ "$suite" = bookworm ]; then
        check "time to a handshake" from_install_to_handshake gabion-openssl 'gabion exec --' :
    else
        check "time to a handshake" from_install_to_handshake gabion-openssl-provider '' 'gabion provider enable'
    fi
    overlay installation "$roots/$suite"
    survives "nothing"
    check "install the command" inside '
        apt-get -qq install /packages/dist/gabion_*.deb; gabion --version
        test "$(dpkg -L gabion | grep -c man1)" -gt 10
    '
    check "install the bundle" inside '
        apt-get -qq install /packages/dist/gabion-openssl_*.deb; test -s /usr/lib/gabion/openssl/ssl/fipsmodule.cnf
    '
    check "a handshake by the bundle" inside 'sh /host/handshake.sh "gabion exec --"'
    check "a handshake by the bundle in FIPS mode" inside '
        GABION_OPENSSL_FIPS_MODE=only gabion exec -- openssl list -providers >/tmp/listed; grep -q fips /tmp/listed
    '
    survives "installing the bundle"
    if [ "$suite" = bookworm ]; then
        check "an older OpenSSL refuses the provider" inside '
            fails apt-get -q -y install /packages/dist/gabion-openssl-provider_*.deb >/tmp/said 2>&1; cat /tmp/said
            grep -q gabion-openssl-is-for /tmp/said; fails dpkg -s gabion-openssl-provider
        '
    else
        check "install the provider" inside 'apt-get -qq install /packages/dist/gabion-openssl-provider_*.deb; is_off'
        check "doctor" inside 'gabion doctor'
        check "enable the provider" inside 'gabion provider enable; is_on'
        survives "enabling the provider"
        check "a handshake by the system's OpenSSL" inside 'sh /host/handshake.sh ""'
        check "a handshake by the system's nginx" inside 'sh /host/nginx.sh'
        check "disable the provider" inside 'gabion provider disable; is_off; is_untouched'
        check "remove an enabled provider" inside '
            gabion provider enable; apt-get -qq remove gabion-openssl-provider; lacks gabion "$config"
        '
    fi
    check "install the library" inside '
        apt-get -qq install /packages/dist/libgabion1_*.deb /packages/dist/libgabion-dev_*.deb
        ldconfig -p | grep -q libgabion.so.1
    '
    # As on a host without systemd, whose programs make the user and the folder.
    [ "$suite" != bookworm ] || check "no systemd" inside 'rm /usr/bin/systemd-sysusers /usr/bin/systemd-tmpfiles'
    check "install the service" inside '
        apt-get -qq install /packages/dist/gabion-kms_*.deb; id gabion-kms
        test "$(stat -c %a /var/lib/gabion-kms)" = 700
    '
    check "a signature by the service" inside 'sh /host/kms.sh'
    check "reinstallation keeps the configuration" inside '
        echo "# mine" >>/etc/gabion/kms.toml; apt-get -qq install --reinstall /packages/dist/gabion-kms_*.deb
        grep -q "# mine" /etc/gabion/kms.toml
    '
    check "remove" inside 'apt-get -qq remove "gabion*" "libgabion*"; absent /usr/bin/gabion; test -e /etc/gabion/kms.toml'
    check "purge leaves keys alone, and says so" inside '
        apt-get -qq purge gabion-kms gabion-openssl >/tmp/said 2>&1; grep -q "/var/lib/gabion-kms" /tmp/said
        absent /etc/gabion /usr/lib/gabion; test -d /var/lib/gabion-kms
    '
    check "nothing else is left" no_leftovers
    survives "purge"
    stop_server
}

[ "$(id -u)" -eq 0 ] || skip "only root may make file systems"
suites='trixie bookworm'
find_nfpm || skip "nfpm $nfpm_version, which makes packages, could not be built"
if [ -z "${GABION_TEST_ISOLATED-}" ]; then
    unshare --mount --net true 2>/dev/null || skip "this system does not let root make namespaces"
    mkdir -p "$roots"
    for suite in $suites; do
        # One run at a time makes it.
        (flock 9 && make_base "$suite") 9>"$roots/lock" || skip "no root of Debian $suite could be made"
    done
    export GABION_TEST_ISOLATED=1
    isolate "$0" "$@"
fi

work=$(mktemp -d "$roots/work.XXXXXX")
trap 'rmdir "$work" 2>/dev/null || true' EXIT
mount -t tmpfs tmpfs "$work"
trap 'stop_server; umount -R -l "$work" 2>/dev/null || true; rmdir "$work" 2>/dev/null || true' EXIT
host=$work/host
package_folder=$work/packages
mkdir -p "$host" "$package_folder/dist"
if [ -n "${GABION_DIST_FROM-}" ]; then
    lay_out_build "$GABION_DIST_FROM" || skip "nothing was built in $GABION_DIST_FROM"
    make_versions gabion gabion-openssl-provider
else
    stage=$PWD/target/dist/stage
    { [ -d "$stage/deb" ] && ls dist/gabion_*.deb; } >/dev/null 2>&1 || skip "there are no packages in dist/: run make dist"
    cp dist/*.deb dist/*.rpm "$package_folder/dist/"
    make_versions gabion gabion-openssl-provider gabion-kms
fi
in_root "$roots/trixie" ip link set lo up
make_host trixie
for part in $parts; do
    case $part in
    packages) for suite in $suites; do try_packages; done ;;
    survival) for suite in $suites; do run_matrix "$suite"; done ;;
    service) for suite in $suites; do try_service; done ;;
    image) suite=trixie && try_image ;;
    rpm) suite=rpm && try_rpm ;;
    esac
done
[ ! -e "$work/times" ] || cat "$work/times"
result
