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

LIBRARY=liboqs
PACKAGE=oqs-sys
PACKAGE_VERSION=0.11.0+liboqs-0.13.0
PACKAGE_SHA256=ac6d66ee528a895ce5cc08851698d109c5d7ee5d7a0b3b40d61550eda91e414f
VERSION=0.13.0
OPTIONS="-DOQS_DIST_BUILD=OFF -DOQS_OPT_TARGET=native -DOQS_USE_OPENSSL=OFF"

algorithms="KEM_ml_kem_512;KEM_ml_kem_768;KEM_ml_kem_1024;SIG_ml_dsa_44;SIG_ml_dsa_65;SIG_ml_dsa_87"
algorithms="$algorithms;SIG_falcon_512;SIG_falcon_1024;SIG_falcon_padded_512;SIG_falcon_padded_1024"
for hash in sha2 shake; do
    for set in 128f 128s 192f 192s 256f 256s; do
        algorithms="$algorithms;SIG_sphincs_${hash}_${set}_simple"
    done
done

# shellcheck source=bench/peers/build-common.sh
. "$(dirname "$0")/build-common.sh"
begin "$OPTIONS $algorithms" cc "$@"
needs cmake make cc tar cargo
fetch

say "building ($OPTIONS)"
build() {
    # shellcheck disable=SC2086 # the list is meant to be split
    cmake -S "$work/$PACKAGE-$PACKAGE_VERSION/liboqs" -B "$work/build" $OPTIONS \
        -DOQS_MINIMAL_BUILD="$algorithms" -DBUILD_SHARED_LIBS=ON -DOQS_BUILD_ONLY_LIB=ON \
        -DCMAKE_BUILD_TYPE=Release &&
        make -C "$work/build" -j"${JOBS:-$(nproc)}"
}
run_logged "the build" build
rm -f "$prefix/BUILD"
install_library "$work/build/lib/liboqs.so" "$prefix" "$OPTIONS"
finish
