#!/bin/sh
# OpenSSL's own test data for ML-KEM, ML-DSA, SLH-DSA and TLS 1.3's key schedule, run by OpenSSL's own
# program evp_test against the provider: `tests/openssl/recipes.sh [MODULE [PREFIX ...]]`, with the
# provider's module (default: the one that cargo built; paths are those of the checkout) and the OpenSSLs
# to run (default: the bundle, and of 3.6.3 and 4.0.3 what front/go/script/openssl has built).
#
# The program and its data come from a complete source tree, which no Rust package carries: that of 3.5
# for every 3.x, and that of 4.0 for 4.x. `tests/openssl/recipes.sh --fetch` gets both from Debian's source
# packages into ~/.cache/gabion, without touching the system's configuration. Where there is none, this
# says so and passes nothing. Ends with "N passed, N failed"; a file of data counts as one.

set -eu
cd "$(dirname "$0")/../.."
cache=${HOME}/.cache/gabion/openssl-tests
others=${XDG_CACHE_HOME:-$HOME/.cache}/gabion/openssl

# fetch SUITE PACKAGE
fetch() {
    work=$(mktemp -d)
    mkdir -p "$cache" "$work/lists/partial" "$work/cache"
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb-src [signed-by=$keys] http://deb.debian.org/debian $1 main" >"$work/s.list"
    (
        cd "$work"
        for words in update "source --download-only --tar-only $2"; do
            # shellcheck disable=SC2086
            apt-get -o "Dir::Etc::sourcelist=$work/s.list" -o Dir::Etc::sourceparts=- \
                -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" \
                -o APT::Sandbox::User=root $words
        done
        tar -xzf openssl_*.orig.tar.gz -C "$cache"
    )
    rm -rf "$work"
}

if [ "${1-}" = --fetch ]; then
    fetch trixie openssl
    fetch experimental openssl=4.0.2-1
    echo "there are source trees in $cache"
    exit
fi
module=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug/libgabion_provider.so}")
[ -f "$module" ] || { echo "no provider in $module: cargo build -p gabion-provider" >&2 && exit 1; }
[ $# -eq 0 ] || shift
if [ $# -eq 0 ]; then
    set -- "${GABION_OPENSSL_PREFIX:-$others/bundle-3.5.5}" "$others/3.6.3" "$others/4.0.3"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/gabion.cnf" <<END
openssl_conf = init
config_diagnostics = 1
[init]
providers = providers
alg_section = algorithms
[providers]
gabion = ours
default = stock
[ours]
module = $module
activate = 1
[stock]
activate = 1
[algorithms]
default_properties = ?provider=gabion
END
export GABION_STATS="$work/stats" OPENSSL_CONF=/dev/null
passed=0
failed=0

# prepare TREE PREFIX  compiles evp_test of a tree, once.
prepare() {
    # Only the generated headers of the tree are needed: evp_test calls what libcrypto exports.
    if [ ! -f "$1/include/openssl/core_names.h" ]; then
        (cd "$1" && perl ./Configure linux-x86_64 no-docs && make build_generated) >"$1/generate.log" 2>&1
    fi
    built=$1/gabion
    [ ! -x "$built/evp_test" ] || return 0
    mkdir -p "$built/objects"
    for source in "$1"/test/testutil/*.c "$1/apps/lib/opt.c"; do
        gcc -O1 -I"$1/include" -I"$1/apps/include" -I"$1" -c "$source" \
            -o "$built/objects/$(basename "$source" .c).o"
    done
    ar rcs "$built/libtestutil.a" "$built"/objects/*.o
    # It is linked against one libcrypto and runs with any of that number: LD_LIBRARY_PATH says which.
    gcc -O1 -DNO_LEGACY_MODULE -I"$1/include" -I"$1/apps/include" -I"$1" \
        "$1/test/evp_test.c" "$built/libtestutil.a" -L"$2/lib" -lcrypto -o "$built/evp_test"
}

# recipes PREFIX  every file of data with this OpenSSL.
recipes() {
    number=$(find "$1/lib" -maxdepth 1 -name 'libcrypto.so.*' 2>/dev/null | sed -n 's/.*\.so\.//p')
    case $number in
    3) wanted=3.5 ;;
    *) wanted=$number.0 ;;
    esac
    tree=$(find "$cache" -maxdepth 1 -name "openssl-$wanted.*" 2>/dev/null | sort -V | tail -n 1)
    if [ -z "$number" ] || [ -z "$tree" ]; then
        echo "no OpenSSL in $1, or no source tree for it in $cache (tests/openssl/recipes.sh --fetch):" \
            "its recipes were not run"
        return
    fi
    prepare "$tree" "$1"
    rm -f "$GABION_STATS"
    version=$(grep -a -o -m 1 'OpenSSL [34][.][0-9.]* [0-9]' "$1/lib/libcrypto.so.$number" | cut -d ' ' -f 2 | head -n 1)
    for data in "$tree"/test/recipes/30-test_evp_data/evppkey_ml_*.txt \
        "$tree"/test/recipes/30-test_evp_data/evppkey_slh_dsa_*.txt \
        "$tree/test/recipes/30-test_evp_data/evpkdf_tls13_kdf.txt"; do
        name=$(basename "$data" .txt)
        if (cd "$tree/test" && OPENSSL_MODULES=$1/lib/ossl-modules LD_LIBRARY_PATH=$1/lib \
            "$tree/gabion/evp_test" -config "$work/gabion.cnf" "$data") >"$work/log" 2>&1; then
            passed=$((passed + 1))
            echo "$version $name: $(grep -o 'Completed.*' "$work/log")"
        else
            failed=$((failed + 1))
            echo "$version $name: FAILED"
            grep -v '^ *ok ' "$work/log" | head -n 40
        fi
    done
    # Whoever did the work: rows of 64 bytes, a name, an operation and two counters
    # (front/provider/src/stats.rs).
    calls=$(od -A n -v -t u8 -w64 -j 64 "$GABION_STATS" | awk '{ sum += $7 } END { print sum + 0 }')
    if [ "$calls" -gt 1000 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "the provider was called only $calls times: OpenSSL's own code was tested"
    fi
}

for prefix in "$@"; do
    recipes "$prefix"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
