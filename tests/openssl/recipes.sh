#!/bin/sh
# OpenSSL's own test data for ML-KEM, ML-DSA, SLH-DSA and TLS 1.3's key schedule, run by OpenSSL's own
# program evp_test against the provider: `tests/openssl/recipes.sh [MODULE [PREFIX]]`, with the provider's module (default: the
# one that cargo built; paths are those of the checkout) and the OpenSSL to run (default: the bundle).
#
# The program and its data come from a complete source tree, which no Rust package carries.
# `tests/openssl/recipes.sh --fetch` gets one from Debian's source package into ~/.cache/gabion, without
# touching the system's configuration. Where there is none, this says so and passes nothing.
# Ends with "N passed, N failed"; a file of data counts as one.

set -eu
cd "$(dirname "$0")/../.."
cache=${HOME}/.cache/gabion/openssl-tests

fetch() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$cache" "$work/lists/partial" "$work/cache"
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb-src [signed-by=$keys] http://deb.debian.org/debian trixie main" >"$work/s.list"
    cd "$work"
    for words in update "source --download-only --tar-only openssl"; do
        # shellcheck disable=SC2086
        apt-get -o "Dir::Etc::sourcelist=$work/s.list" -o Dir::Etc::sourceparts=- \
            -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" \
            -o APT::Sandbox::User=root $words
    done
    tar -xzf openssl_*.orig.tar.gz -C "$cache"
    echo "there is a source tree in $cache"
}

if [ "${1-}" = --fetch ]; then
    fetch
    exit
fi
module=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug/libgabion_provider.so}")
prefix=${2:-${GABION_OPENSSL_PREFIX:-$HOME/.cache/gabion/openssl/bundle-3.5.5}}
[ -f "$module" ] || { echo "no provider in $module: cargo build -p gabion-provider" >&2 && exit 1; }
tree=$(find "$cache" -maxdepth 1 -name 'openssl-3.5.*' 2>/dev/null | sort -V | tail -n 1)
if [ -z "$tree" ] || [ ! -x "$prefix/bin/openssl" ]; then
    echo "no OpenSSL source tree with tests in $cache (tests/openssl/recipes.sh --fetch), or no" \
        "OpenSSL in $prefix: OpenSSL's recipes were not run"
    echo "0 passed, 0 failed"
    exit 0
fi

# Only the generated headers of the tree are needed: evp_test calls what libcrypto exports.
if [ ! -f "$tree/include/openssl/core_names.h" ]; then
    (cd "$tree" && perl ./Configure linux-x86_64 no-docs && make build_generated) >"$tree/generate.log"
fi
built=$tree/gabion
if [ ! -x "$built/evp_test" ]; then
    mkdir -p "$built/objects"
    for source in "$tree"/test/testutil/*.c "$tree/apps/lib/opt.c"; do
        gcc -O1 -I"$tree/include" -I"$tree/apps/include" -I"$tree" -c "$source" \
            -o "$built/objects/$(basename "$source" .c).o"
    done
    ar rcs "$built/libtestutil.a" "$built"/objects/*.o
    # It is linked against one libcrypto.so.3 and runs with any: LD_LIBRARY_PATH says which.
    gcc -O1 -DNO_LEGACY_MODULE -I"$tree/include" -I"$tree/apps/include" -I"$tree" \
        "$tree/test/evp_test.c" "$built/libtestutil.a" -L"$prefix/lib" -lcrypto -o "$built/evp_test"
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
export GABION_STATS="$work/stats" OPENSSL_CONF=/dev/null OPENSSL_MODULES="$prefix/lib/ossl-modules"
export LD_LIBRARY_PATH="$prefix/lib"

passed=0
failed=0
for data in "$tree"/test/recipes/30-test_evp_data/evppkey_ml_*.txt \
    "$tree"/test/recipes/30-test_evp_data/evppkey_slh_dsa_*.txt \
    "$tree/test/recipes/30-test_evp_data/evpkdf_tls13_kdf.txt"; do
    name=$(basename "$data" .txt)
    if (cd "$tree/test" && "$built/evp_test" -config "$work/gabion.cnf" "$data") >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "$name: $(grep -o 'Completed.*' "$work/log")"
    else
        failed=$((failed + 1))
        echo "$name: FAILED"
        grep -v '^ *ok ' "$work/log" | head -n 40
    fi
done

# Whoever did the work: rows of 64 bytes, a name, an operation and two counters (front/provider/src/stats.rs).
calls=$(od -A n -v -t u8 -w64 -j 64 "$work/stats" | awk '{ sum += $7 } END { print sum + 0 }')
if [ "$calls" -gt 1000 ]; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "the provider was called only $calls times: OpenSSL's own code was tested"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
