#!/bin/sh
# Builds wolfSSL 5.9.4 three times, for measuring only: nothing of it is linked into the product.
#
#   plain    nothing kept between calls: every operation expands matrix A itself
#   cached   matrix A and the key's vectors in the transform domain stay in the key object
#   avx2     plain, with the AVX-512 code left out: the quicker one for some rows on AMD Zen 4
#
# The cached build spends memory and clears it, so the plain one is not slowed by options it does
# not use: they are separate libraries.
#
#   usage: build-wolfssl.sh [--force]
#
# Source: the tree inside the package wolfssl-sys 5.3.0, fetched by cargo and refused unless its
# SHA-256 is the one below. The package's own build turns ML-DSA and SLH-DSA off; this one does not.
# Result: $GABION_CACHE/peers/wolfssl-5.9.4/{plain,cached,avx2}/lib/libwolfssl.so with FLAGS beside
# lib, which says how it was made. GABION_CACHE defaults to ~/.cache/gabion.
set -eu

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

say() { printf '%s\n' "build-wolfssl: $*" >&2; }
die() { say "error: $*"; exit 3; }

prefix="${GABION_CACHE:-$HOME/.cache/gabion}/peers/wolfssl-$VERSION"
force=no
case "${1:-}" in
    '') ;;
    --force) force=yes ;;
    -h | --help) sed -n '2,18s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) say "error: unknown option $1; expected --force or nothing"; exit 2 ;;
esac

# What a finished build is known by: sources, flags and script in one line, compared as a whole.
stamp="$VERSION $PACKAGE_SHA256 $OPTIMISATION $(echo $CONFIGURE) $AVX512 $(echo $CACHED)"
stamp="$stamp $(cc -dumpfullversion 2>/dev/null || echo none) $(uname -m)"
if [ "$force" = no ] && [ -f "$prefix/BUILD" ] && [ "$(cat "$prefix/BUILD")" = "$stamp" ]; then
    say "wolfSSL $VERSION is already built in $prefix"
    exit 0
fi

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
command -v cargo >/dev/null 2>&1 || die "cargo is not in PATH; script/run installs it"

mkdir -p "$prefix"
work=$(mktemp -d "$prefix/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

say "fetching $PACKAGE $PACKAGE_VERSION"
mkdir -p "$work/fetch/src"
: >"$work/fetch/src/lib.rs"
cat >"$work/fetch/Cargo.toml" <<END
[workspace]
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[dependencies]
$PACKAGE = { version = "=$PACKAGE_VERSION", default-features = false }
END
cargo fetch --quiet --manifest-path "$work/fetch/Cargo.toml" ||
    die "cargo could not fetch $PACKAGE $PACKAGE_VERSION"
archive=
for file in "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"$PACKAGE-$PACKAGE_VERSION.crate"; do
    [ -f "$file" ] && archive="$file"
done
[ -n "$archive" ] || die "cargo fetched $PACKAGE but its archive is not in its cache"
found=$(sha256sum "$archive" | cut -d' ' -f1)
[ "$found" = "$PACKAGE_SHA256" ] ||
    die "$archive has SHA-256 $found, expected $PACKAGE_SHA256"
tar -xzf "$archive" -C "$work"
mv "$work/$PACKAGE-$PACKAGE_VERSION/wolfssl-src" "$work/source"
grep -q "\"$VERSION\"" "$work/source/wolfssl/version.h" ||
    die "the package does not hold wolfSSL $VERSION"

cd "$work/source"
say "generating configure"
# The package leaves out the git metadata that autogen.sh looks at; autoreconf is all it runs.
touch config.rpath
mkdir -p build-aux
touch build-aux/config.rpath
autoreconf --install --force >"$work/autoreconf.log" 2>&1 || {
    tail -n 20 "$work/autoreconf.log" >&2
    die "autoreconf failed"
}

for variant in plain cached avx2; do
    case $variant in
        plain) defines="$AVX512" ;;
        cached) defines="$AVX512 $(echo $CACHED)" ;;
        avx2) defines="-DNO_AVX512_SUPPORT" ;;
    esac
    flags="$OPTIMISATION${defines:+ $defines}"
    say "building $variant ($flags)"
    mkdir -p "$work/$variant"
    cd "$work/$variant"
    # shellcheck disable=SC2086 # the list is meant to be split
    if ! { ../source/configure --prefix="$prefix/$variant" $CONFIGURE \
        CFLAGS="$flags" CCASFLAGS="$flags" &&
        make -j"${JOBS:-$(nproc)}" src/libwolfssl.la; } >"$work/$variant.log" 2>&1; then
        tail -n 30 "$work/$variant.log" >&2
        die "the $variant build failed"
    fi
    mkdir -p "$prefix/$variant.new/lib"
    cp -L src/.libs/libwolfssl.so "$prefix/$variant.new/lib/libwolfssl.so"
    printf '%s\n' "$flags" >"$prefix/$variant.new/FLAGS"
done

# Last: a build that was interrupted leaves no BUILD and is made again.
rm -f "$prefix/BUILD"
for variant in plain cached avx2; do
    rm -rf "${prefix:?}/$variant"
    mv "$prefix/$variant.new" "$prefix/$variant"
done
cp "$work/source/COPYING" "$prefix/COPYING"
printf '%s\n' "$stamp" >"$prefix/BUILD"
say "done: $prefix"
