#!/bin/sh
# Builds wolfSSL 5.9.4, for measuring and comparing only: nothing of it is linked into the product. Three times:
#
#   plain    nothing kept between calls: every operation expands matrix A itself
#   cached   matrix A and the key's vectors in the transform domain stay in the key object
#   avx2     plain, with the AVX-512 code left out: the quicker one for some rows on AMD Zen 4
#
# The cached build spends memory and clears it, so the plain one is not slowed by options it does
# not use: they are separate libraries. And with --hbs those of hash-based signatures with a state, twice:
#
#   default        LMS and XMSS with all their sets, otherwise as configure has them
#   large-caches   more of each tree of LMS kept in the key object
#
#   usage: build-wolfssl.sh [--hbs] [--force]
#
# Source: the tree inside the package wolfssl-sys 5.3.0, fetched by cargo and refused unless its
# SHA-256 is the one below. The package's own build turns ML-DSA and SLH-DSA off; this one does not.
# Result: $GABION_CACHE/peers/wolfssl-5.9.4/{plain,cached,avx2}/lib/libwolfssl.so, or
# wolfssl-hbs-5.9.4/{default,large-caches}, with FLAGS beside lib, which says how it was made. GABION_CACHE defaults to
# ~/.cache/gabion.
set -eu

LIBRARY=wolfSSL
variants='plain cached avx2'
if [ "${1:-}" = --hbs ]; then
    shift
    LIBRARY=wolfSSL-hbs
    variants='default large-caches'
fi
PACKAGE=wolfssl-sys
PACKAGE_VERSION=5.3.0
PACKAGE_SHA256=e04fb531435ec8ba1852ee9df66ab351cdb1e3aec1da4013787ae93efa3adac6
VERSION=5.9.4
# The hand-written assembly decides by CPUID at run time; the flags are for the C between it.
OPTIMISATION="${WOLFSSL_CFLAGS:--O3 -march=native}"
# Kept small: only what is measured, and what the library needs to start.
CONFIGURE="--enable-intelasm --enable-mlkem --enable-mldsa --enable-slhdsa=yes,sha2
    --enable-ed25519 --enable-curve25519
    --enable-shared --disable-static --disable-examples --disable-crypttests --disable-benchmark"
# Zen 4 runs a compression straight to memory from microcode. Without VBMI2 the library samples
# ML-KEM's matrix by a compression to a register, a quarter quicker in the whole operation.
# WOLFSSL_DEFINES, even when empty, takes the place of this choice.
AVX512="${WOLFSSL_DEFINES-}"
if [ -z "${WOLFSSL_DEFINES+set}" ] && grep -q AuthenticAMD /proc/cpuinfo &&
    grep -Eq '^cpu family[[:space:]]*: 25$' /proc/cpuinfo; then
    AVX512="-DNO_AVX512_VBMI2_SUPPORT"
fi
CACHED="-DWOLFSSL_MLKEM_CACHE_A -DWC_MLDSA_CACHE_MATRIX_A -DWC_MLDSA_CACHE_PRIV_VECTORS
    -DWC_MLDSA_CACHE_PUB_VECTORS"

if [ "$LIBRARY" = wolfSSL-hbs ]; then
    CONFIGURE="--enable-intelasm --enable-lms=yes,sha256-192,shake256 --enable-xmss --disable-mlkem
        --enable-shared --disable-static --disable-examples --disable-crypttests --disable-benchmark"
    AVX512=
    CACHED=-DWOLFSSL_LMS_LARGE_CACHES
fi

# shellcheck source=bench/peers/build-common.sh
. "$(dirname "$0")/build-common.sh"
# shellcheck disable=SC2116,SC2086 # on one line
begin "$OPTIMISATION $(echo $CONFIGURE) $AVX512 $(echo $CACHED)" cc "$@"

missing=
for tool in autoconf automake libtoolize make cc tar; do
    command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
done
if [ -n "$missing" ]; then
    say "installing autoconf, automake, libtool and a C compiler (missing:$missing)"
    command -v apt-get >/dev/null 2>&1 ||
        die "install$missing with your package manager and run this again"
    root=
    [ "$(id -u)" = 0 ] || root=sudo
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        autoconf automake libtool make gcc libc6-dev >&2 ||
        die "apt-get could not install them; run 'apt-get update' and try again"
fi
needs cargo
fetch
mv "$work/$PACKAGE-$PACKAGE_VERSION/wolfssl-src" "$work/source"
grep -q "\"$VERSION\"" "$work/source/wolfssl/version.h" ||
    die "the package does not hold wolfSSL $VERSION"

cd "$work/source"
say "generating configure"
# The package leaves out the git metadata that autogen.sh looks at; autoreconf is all it runs.
touch config.rpath
mkdir -p build-aux
touch build-aux/config.rpath
run_logged autoreconf autoreconf --install --force

build() {
    # shellcheck disable=SC2086 # the list is meant to be split
    ../source/configure --prefix="$prefix/$variant" $CONFIGURE CFLAGS="$flags" CCASFLAGS="$flags" &&
        make -j"${JOBS:-$(nproc)}" src/libwolfssl.la
}

for variant in $variants; do
    case $variant in
        plain | default) defines="$AVX512" ;;
        cached | large-caches) defines="$AVX512${AVX512:+ }$(echo $CACHED)" ;;
        avx2) defines="-DNO_AVX512_SUPPORT" ;;
    esac
    flags="$OPTIMISATION${defines:+ $defines}"
    say "building $variant ($flags)"
    mkdir -p "$work/$variant"
    cd "$work/$variant"
    run_logged "the $variant build" build
    install_library src/.libs/libwolfssl.so "$prefix/$variant.new" "$flags"
done

rm -f "$prefix/BUILD"
for variant in $variants; do
    rm -rf "${prefix:?}/$variant"
    mv "$prefix/$variant.new" "$prefix/$variant"
done
cp "$work/source/COPYING" "$prefix/COPYING"
finish
