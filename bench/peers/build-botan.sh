#!/bin/sh
# Builds Botan 3.13.0, for measuring only: its ML-KEM, ML-DSA and SLH-DSA with what they stand on.
#
#   usage: build-botan.sh [--force]
#
# Source: the tarball inside the package botan-src 0.31300.1, fetched by cargo and refused unless the
# package's SHA-256 is the one below.
# Result: $GABION_CACHE/peers/botan-3.13.0/lib/libbotan-3.so with FLAGS beside lib, which says how it was
# made. GABION_CACHE defaults to ~/.cache/gabion.
set -eu

PACKAGE=botan-src
PACKAGE_VERSION=0.31300.1
PACKAGE_SHA256=e19afa24979ebb37fd22894895219e5f6bb6ba3d98f87c4aa147e59f4860efb7
VERSION=3.13.0
MODULES=ml_kem,ml_dsa,slh_dsa_sha2,slh_dsa_shake,ffi,system_rng
# What these use where the processor has it; the others of the list are for other processors.
if [ "$(uname -m)" = x86_64 ]; then
    MODULES=$MODULES,keccak_perm_avx512,keccak_perm_bmi2,sha2_32_x86,sha2_32_avx2,sha2_64_avx2,sha2_64_avx512
fi
OPTIONS="--minimized-build --enable-modules=$MODULES"
CXXFLAGS_OF_US="-O3 -march=native"

say() { printf '%s\n' "build-botan: $*" >&2; }
die() { say "error: $*"; exit 3; }

prefix="${GABION_CACHE:-$HOME/.cache/gabion}/peers/botan-$VERSION"
force=no
case "${1:-}" in
    '') ;;
    --force) force=yes ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) say "error: unknown option $1; expected --force or nothing"; exit 2 ;;
esac

stamp="$VERSION $PACKAGE_SHA256 $OPTIONS $CXXFLAGS_OF_US"
stamp="$stamp $(c++ -dumpfullversion 2>/dev/null || echo none) $(uname -m)"
if [ "$force" = no ] && [ -f "$prefix/BUILD" ] && [ "$(cat "$prefix/BUILD")" = "$stamp" ]; then
    say "Botan $VERSION is already built in $prefix"
    exit 0
fi

for tool in python3 make c++ tar xz cargo; do
    command -v "$tool" >/dev/null 2>&1 || die "$tool is missing"
done

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
tar -xJf "$work/$PACKAGE-$PACKAGE_VERSION/vendor/Botan-$VERSION.tar.xz" -C "$work"

say "building ($OPTIONS, $CXXFLAGS_OF_US)"
if ! { cd "$work/Botan-$VERSION" &&
    python3 configure.py --minimized-build --enable-modules="$MODULES" --build-targets=shared \
        --disable-static-library --without-documentation --extra-cxxflags="$CXXFLAGS_OF_US" &&
    make -j"${JOBS:-$(nproc)}"; } >"$work/log" 2>&1; then
    tail -n 30 "$work/log" >&2
    die "the build failed"
fi
mkdir -p "$prefix/lib"
rm -f "$prefix/BUILD"
cp -L "$work/Botan-$VERSION/libbotan-3.so" "$prefix/lib/libbotan-3.so.new"
mv "$prefix/lib/libbotan-3.so.new" "$prefix/lib/libbotan-3.so"
printf '%s %s\n' "$OPTIONS" "$CXXFLAGS_OF_US" >"$prefix/FLAGS"
# Last: a build that was interrupted leaves no BUILD and is made again.
printf '%s\n' "$stamp" >"$prefix/BUILD"
say "done: $prefix"
