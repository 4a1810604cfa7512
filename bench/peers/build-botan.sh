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

LIBRARY=Botan
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

# shellcheck source=bench/peers/build-common.sh
. "$(dirname "$0")/build-common.sh"
begin "$OPTIONS $CXXFLAGS_OF_US" c++ "$@"
needs python3 make c++ tar xz cargo
fetch
tar -xJf "$work/$PACKAGE-$PACKAGE_VERSION/vendor/Botan-$VERSION.tar.xz" -C "$work"

say "building ($OPTIONS, $CXXFLAGS_OF_US)"
build() {
    cd "$work/Botan-$VERSION" &&
        python3 configure.py --minimized-build --enable-modules="$MODULES" --build-targets=shared \
            --disable-static-library --without-documentation --extra-cxxflags="$CXXFLAGS_OF_US" &&
        make -j"${JOBS:-$(nproc)}"
}
run_logged "the build" build
rm -f "$prefix/BUILD"
install_library "$work/Botan-$VERSION/libbotan-3.so" "$prefix" "$OPTIONS $CXXFLAGS_OF_US"
finish
