#!/bin/sh
# OpenSSL's own tests of ML-KEM, ML-DSA, SLH-DSA and what TLS 1.3 does with them, against the provider:
# `tests/openssl/recipes.sh [--all] [MODULE [PREFIX ...]]`, with the provider's module (default: the one that
# cargo built; paths are those of the checkout) and the OpenSSLs to run (default: the bundle, and of 3.6.3
# and 4.0.3 what front/go/script/openssl has built).
#
# Its programs endecode_test, evp_extra_test and evp_pkey_provided_test have to say the same of each of their tests with the
# provider and without: they are of a newer release than the library may be, which then fails some.
#
# With every OpenSSL its program evp_test runs over its data. With 3.5 its other programs and recipes for
# these algorithms run as well, their command line that of the bundle; --all adds two that take minutes
# (25-test_req, 70-test_sslsigalgs). Each has to pass, and Gabion has to be called in each. What is left out of
# them is named where it is, with the reason. These recipes test what no provider serves, or ask for OpenSSL's:
#
#   03-test_internal_ml_kem     functions inside libcrypto
#   30-test_pairwise_fail, 03-test_fipsinstall, 99-test_fuzz_*    the FIPS module; programs for fuzzing
#   80-test_cms                 sets OPENSSL_TEST_LIBCTX, by which the command makes a library context of its own with
#                               the default provider alone: here its signers sign without that
#   90-test_sslapi              needs libssl's own code of the same day; with Gabion and without it gave the
#                               same, test by test, up to where that of 3.5.7 ends with libssl 3.5.5
#   70-test_tls13groupselection  likewise: three tests are of what 3.5.7 mended
#
# Programs and data come from a complete source tree, which no Rust package carries: that of 3.5 for every
# 3.x, and that of 4.0 for 4.x. `tests/openssl/recipes.sh --fetch` gets both into ~/.cache/gabion, pinned
# by their hashes, from Debian or from OpenSSL's own releases. Where there is none, this says so
# and passes nothing. Ends with "N passed, N failed"; a file of data, a program and a recipe count as one.

set -eu
cd "$(dirname "$0")/../.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gabion/openssl-tests
others=${XDG_CACHE_HOME:-$HOME/.cache}/gabion/openssl

# fetch VERSION SHA256  the release, of which Debian keeps the same file while it has that version.
fetch() {
    [ ! -d "$cache/openssl-$1" ] || return 0
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/new.XXXXXX")
    file=$work/openssl-$1.tar.gz
    for url in "http://deb.debian.org/debian/pool/main/o/openssl/openssl_$1.orig.tar.gz" \
        "https://github.com/openssl/openssl/releases/download/openssl-$1/openssl-$1.tar.gz"; do
        echo "$url"
        curl --fail --location --silent --show-error --retry 2 --output "$file" "$url" || continue
        if echo "$2  $file" | sha256sum --check --quiet; then
            tar -xzf "$file" -C "$work"
            mv "$work/openssl-$1" "$cache"
            rm -r "$work"
            return
        fi
    done
    rm -r "$work"
    echo "error: nobody had the source of OpenSSL $1 whose SHA-256 is $2" >&2
    exit 3
}

if [ "${1-}" = --fetch ]; then
    fetch 3.5.7 a8c0d28a529ca480f9f36cf5792e2cd21984552a3c8e4aa11a24aa31aeac98e8
    fetch 4.0.2 736b467530f916737b7031310ccb21d8218c6229e61e8e160cd1d3458cd543a8
    echo "there are source trees in $cache"
    exit
fi
all=
if [ "${1-}" = --all ]; then
    all='25-test_req 70-test_sslsigalgs'
    shift
fi
module=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug/libgabion_provider.so}")
[ -f "$module" ] || { echo "no provider in $module: cargo build -p gabion-provider" >&2 && exit 1; }
[ $# -eq 0 ] || shift
if [ $# -eq 0 ]; then
    set -- "${GABION_OPENSSL_PREFIX:-$(tests/openssl/newest-bundle)}" "$others/3.6.3" "$others/4.0.3"
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
    [ ! -e "$built/prepared" ] || return 0
    mkdir -p "$built/objects"
    for source in "$1"/test/testutil/*.c "$1/apps/lib/opt.c"; do
        gcc -O1 -I"$1/include" -I"$1/apps/include" -I"$1" -c "$source" \
            -o "$built/objects/$(basename "$source" .c).o"
    done
    ar rcs "$built/libtestutil.a" "$built"/objects/*.o
    # It is linked against one libcrypto and runs with any of that number: LD_LIBRARY_PATH says which.
    gcc -O1 -DNO_LEGACY_MODULE -I"$1/include" -I"$1/apps/include" -I"$1" \
        "$1/test/evp_test.c" "$built/libtestutil.a" -L"$2/lib" -lcrypto -o "$built/evp_test"
    case $1 in
    */openssl-3.5.*) prepare_programs "$1" "$2" ;;
    esac
    : >"$built/prepared"
}

# prepare_programs TREE PREFIX  compiles the other programs, and the engine by which recipes of TLS read what
# goes over the wire.
prepare_programs() {
    # ML_DSA_KEY is libcrypto's own.
    program "$1" "$2" ml_dsa_test 'ml_dsa_key_internal_test'
    # Of SLH-DSA we refuse earlier: a private key that does not belong to its public one when it comes in, not
    # in a check of the pair, and a seed of a wrong length when it is set, not when a key is made.
    program "$1" "$2" slh_dsa_test 'slh_dsa_key_validate_failure_test|slh_dsa_keygen_invalid_test'
    # A function inside libcrypto; and a generator of test bytes in the place of the application's, which is
    # not where our randomness comes from (docs/reference/provider-keys.md).
    program "$1" "$2" ml_kem_evp_extra_test \
        'test_mlx_kem_dup_partial_selection|test_non_derandomised_ml_kem'
    # Functions inside libcrypto, which it does not export: they link, and the tests that call them are left out.
    cat >"$built/inside.c" <<'END'
const char ossl_bignum_const_2[64], ossl_bignum_ffdhe2048_p[64];
int ossl_do_PVK_header(void) { return 0; }
int evp_keymgmt_util_export(void) { return 0; }
int evp_pkey_copy_downgraded(void) { return 0; }
int ossl_cipher_generic_get_params(void) { return 0; }
const void *ossl_cipher_generic_gettable_params(void) { return 0; }
int ossl_prov_is_running(void) { return 1; }
END
    # Microsoft's private keys.
    program "$1" "$2" endecode_test 'DSA|RSA' helpers/predefined_dhparams.c "$built/inside.c"
    program "$1" "$2" evp_pkey_provided_test 'test_fromdata_dh_fips186_4|test_fromdata_dh_named_group' \
        "$built/inside.c"
    # Two more end the program in a library before 3.5.7.
    program "$1" "$2" evp_extra_test 'test_EC_keygen_with_enc|test_custom_pmeth|test_evp_cipher_pipeline|'\
'test_evp_mac_poly1305_no_key|test_RSA_verify_recover_rejects_short_buffer' \
        fake_rsaprov.c fake_pipelineprov.c "$built/inside.c"
    program "$1" "$2" ssl_test - helpers/ssl_test_ctx.c helpers/handshake.c helpers/handshake_srp.c
    gcc -O1 -w -shared -fPIC -DOPENSSL_PIC -I"$1/include" -I"$1" "$1/engines/e_ossltest.c" \
        -L"$2/lib" -lcrypto -o "$built/ossltest.so"
}

# program TREE PREFIX NAME LEFT-OUT [SOURCE ...]  compiles a program without the tests that LEFT-OUT, an
# extended regular expression, names.
program() {
    program_tree=$1
    program_name=$3
    sed -E "/ADD_(TEST|ALL_TESTS|TEST_SUITE_[A-Z]+_PVK)\(($4)[,)]/d" "$1/test/$3.c" >"$1/test/$3-gabion.c"
    program_library=$2/lib
    shift 4
    (
        cd "$program_tree/test"
        gcc -O1 -w -DNO_LEGACY_MODULE -I../include -I../apps/include -I.. -I../providers/common/include \
            -I../providers/implementations/include "$program_name-gabion.c" "$@" \
            "$built/libtestutil.a" -L"$program_library" -lssl -lcrypto -o "$built/$program_name"
    )
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
        echo "skipped: no OpenSSL in $1, or no source tree for it in $cache (tests/openssl/recipes.sh --fetch):" \
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
    if [ "$(calls)" -gt 1000 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "the provider was called only $(calls) times: OpenSSL's own code was tested"
    fi
    case $version in
    3.5.*) programs "$1" ;;
    esac
}

# calls  prints how often the provider was called so far. The file has rows of 64 bytes after its header: a
# name, an operation and two counters (front/provider/stats/src/lib.rs). The number of rows is at offset 12.
calls() {
    [ -f "$GABION_STATS" ] || { echo 0 && return; }
    rows=$(od -A n -t u4 -j 12 -N 4 "$GABION_STATS")
    od -A n -v -t u8 -w64 -j 64 -N $((rows * 64)) "$GABION_STATS" | awk '{ sum += $7 } END { print sum + 0 }'
}

# programs PREFIX  the programs and recipes that are there for 3.5 alone.
programs() {
    prefix=$1
    for name in ml_dsa_test slh_dsa_test; do
        one "$name" with /dev/null "$tree/gabion/$name" -config "$work/gabion.cnf"
    done
    one ml_kem_evp_extra_test with "$work/gabion.cnf" "$tree/gabion/ml_kem_evp_extra_test"
    one "ssl_test, 20-cert-select" with /dev/null env TEST_CERTS_DIR="$tree/test/certs" \
        "$tree/gabion/ssl_test" "$tree/test/ssl-tests/20-cert-select.cnf" default "$work/gabion.cnf"
    for name in 15-test_ml_dsa_codecs 15-test_ml_kem_codecs 20-test_dgst 30-test_ml_dsa \
        $all; do
        one "$name" recipe "$name"
    done
    # shellcheck disable=SC2016  # the inner shell's
    same endecode_test sh -c '"$0" -rsa certs/ee-key.pem -pss certs/ca-pss-key.pem -context -config "$OPENSSL_CONF" \
        -provider default' "$tree/gabion/endecode_test"
    same evp_extra_test "$tree/gabion/evp_extra_test"
    same evp_pkey_provided_test "$tree/gabion/evp_pkey_provided_test" recipes/30-test_evp_pkey_provided
    # What 80-test_cms signs with, as it does.
    for name in mldsa44:sha512 slhdsa_sha2_128s:sha512 slhdsa_shake_128s:shake128 \
        slhdsa_shake_256s:shake256; do
        one "80-test_cms, ${name%:*}" cms "${name%:*}" "${name#*:}"
    done
}

# with CONF COMMAND...  runs a command in the folder of the tests, with this OpenSSL.
with() {
    with_conf=$1
    shift
    (cd "$tree/test" && OPENSSL_CONF=$with_conf OPENSSL_MODULES=$prefix/lib/ossl-modules \
        LD_LIBRARY_PATH=$prefix/lib "$@")
}

# recipe NAME  runs a recipe as the build tree would, with a command line and programs from elsewhere.
recipe() {
    mkdir -p "$work/results"
    with "$work/gabion.cnf" env SRCTOP="$tree" BLDTOP="$tree" BIN_D="$prefix/bin" TEST_D="$tree/gabion" \
        RESULT_D="$work/results" EXE_SHELL=/usr/bin/env OPENSSL_ENGINES="$tree/gabion" NO_FIPS=1 \
        perl -I ../util/perl "recipes/$1.t"
}

# cms SIGNER DIGEST  signs a message with a key of the tree, and verifies it.
cms() {
    with "$work/gabion.cnf" "$prefix/bin/openssl" cms -sign -in smcont.txt -certfile smime-certs/smroot.pem \
        -signer "smime-certs/sm_$1.pem" -md "$2" -out "$work/message.cms" &&
        with "$work/gabion.cnf" "$prefix/bin/openssl" cms -verify -in "$work/message.cms" \
            -CAfile smime-certs/smroot.pem -content smcont.txt -out /dev/null
}

# one NAME COMMAND...  counts a command that has to pass and to call the provider.
one() {
    one_name=$1
    shift
    before=$(calls)
    if "$@" >"$work/log" 2>&1 && ! grep -q '^1\.\.0' "$work/log" && [ "$(calls)" -gt "$before" ]; then
        passed=$((passed + 1))
        echo "$version $one_name: passed, $(($(calls) - before)) calls"
    else
        failed=$((failed + 1))
        echo "$version $one_name: FAILED, $(($(calls) - before)) calls"
        grep -v '^ *ok ' "$work/log" | head -n 40
    fi
}

# same NAME COMMAND...  counts a command that has to say the same of each test with the provider and without, and to
# call it.
same() {
    same_name=$1
    shift
    before=$(calls)
    sed '/^gabion = ours/d; /^default_properties/d' "$work/gabion.cnf" >"$work/stock.cnf"
    for same_conf in stock gabion; do
        with "$work/$same_conf.cnf" "$@" >"$work/log" 2>&1 || true
        sed -n -E 's/^ *((not )?ok [0-9]+ - [A-Za-z0-9_]+).*/\1/p' "$work/log" >"$work/$same_conf.said"
    done
    if cmp -s "$work/stock.said" "$work/gabion.said" && [ "$(wc -l <"$work/stock.said")" -gt 20 ] &&
        [ "$(calls)" -gt "$before" ]; then
        passed=$((passed + 1))
        echo "$version $same_name: the same, of which $(grep -c '^not' "$work/stock.said") failures," \
            "$(($(calls) - before)) calls"
    else
        failed=$((failed + 1))
        echo "$version $same_name: FAILED, $(($(calls) - before)) calls"
        diff "$work/stock.said" "$work/gabion.said" | head -n 40
    fi
}

for prefix in "$@"; do
    recipes "$prefix"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
