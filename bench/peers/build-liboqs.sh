#!/bin/sh
# Builds liboqs 0.13.0, for measuring only: its ML-KEM, ML-DSA, SPHINCS+ and Falcon, tuned for this
# machine. Later releases replaced the AVX2 code of SPHINCS+ by portable code, which is slower: this is
# the bar.
#
#   usage: build-liboqs.sh [--force]
#
# Source: the tree inside the package oqs-sys 0.11.0+liboqs-0.13.0, fetched by cargo and refused
# unless its SHA-256 is the one below.
# Result: $GABION_CACHE/peers/liboqs-0.13.0/lib/liboqs.so with FLAGS beside lib, which says how it was
# made. GABION_CACHE defaults to ~/.cache/gabion.
set -eu

PACKAGE=oqs-sys
PACKAGE_VERSION=0.11.0+liboqs-0.13.0
PACKAGE_SHA256=ac6d66ee528a895ce5cc08851698d109c5d7ee5d7a0b3b40d61550eda91e414f
VERSION=0.13.0
OPTIONS="-DOQS_DIST_BUILD=OFF -DOQS_OPT_TARGET=native -DOQS_USE_OPENSSL=OFF"

say() { printf '%s\n' "build-liboqs: $*" >&2; }
die() { say "error: $*"; exit 3; }

prefix="${GABION_CACHE:-$HOME/.cache/gabion}/peers/liboqs-$VERSION"
force=no
case "${1:-}" in
    '') ;;
    --force) force=yes ;;
    -h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) say "error: unknown option $1; expected --force or nothing"; exit 2 ;;
esac

algorithms="KEM_ml_kem_512;KEM_ml_kem_768;KEM_ml_kem_1024;SIG_ml_dsa_44;SIG_ml_dsa_65;SIG_ml_dsa_87"
algorithms="$algorithms;SIG_falcon_512;SIG_falcon_1024;SIG_falcon_padded_512;SIG_falcon_padded_1024"
for hash in sha2 shake; do
    for set in 128f 128s 192f 192s 256f 256s; do
        algorithms="$algorithms;SIG_sphincs_${hash}_${set}_simple"
    done
done

stamp="$VERSION $PACKAGE_SHA256 $OPTIONS $algorithms"
stamp="$stamp $(cc -dumpfullversion 2>/dev/null || echo none) $(uname -m)"
if [ "$force" = no ] && [ -f "$prefix/BUILD" ] && [ "$(cat "$prefix/BUILD")" = "$stamp" ]; then
    say "liboqs $VERSION is already built in $prefix"
    exit 0
fi

for tool in cmake make cc tar cargo; do
    command -v "$tool" >/dev/null 2>&1 || die "$tool is missing; script/run installs all it needs"
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

say "building ($OPTIONS)"
# shellcheck disable=SC2086 # the list is meant to be split
if ! { cmake -S "$work/$PACKAGE-$PACKAGE_VERSION/liboqs" -B "$work/build" $OPTIONS \
    -DOQS_MINIMAL_BUILD="$algorithms" -DBUILD_SHARED_LIBS=ON -DOQS_BUILD_ONLY_LIB=ON \
    -DCMAKE_BUILD_TYPE=Release &&
    make -C "$work/build" -j"${JOBS:-$(nproc)}"; } >"$work/log" 2>&1; then
    tail -n 30 "$work/log" >&2
    die "the build failed"
fi
mkdir -p "$prefix/lib"
rm -f "$prefix/BUILD"
cp -L "$work/build/lib/liboqs.so" "$prefix/lib/liboqs.so.new"
mv "$prefix/lib/liboqs.so.new" "$prefix/lib/liboqs.so"
printf '%s\n' "$OPTIONS" >"$prefix/FLAGS"
# Last: a build that was interrupted leaves no BUILD and is made again.
printf '%s\n' "$stamp" >"$prefix/BUILD"
say "done: $prefix"
