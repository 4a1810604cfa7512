#!/bin/sh
# Builds wolfSSL 5.9.4's example client and server, for tests/interop/tls.sh only: nothing of it is linked
# into the product. Source: the tree inside the package wolfssl-sys 5.3.0, fetched by cargo and refused
# unless its SHA-256 is the one below. Takes some minutes. Result: the folder named by the argument.
#
#   tests/interop/wolfssl/build.sh FOLDER

set -eu
package=wolfssl-sys-5.3.0
sha256=e04fb531435ec8ba1852ee9df66ab351cdb1e3aec1da4013787ae93efa3adac6
folder=${1:?expected a folder}
for tool in cargo cc make autoconf automake libtoolize openssl sha256sum; do
    command -v "$tool" >/dev/null || {
        echo "error: $tool is missing; script/setup installs all of them but openssl" >&2
        exit 3
    }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src"
: >"$work/src/lib.rs"
cat >"$work/Cargo.toml" <<END
[workspace]
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[dependencies]
wolfssl-sys = { version = "=5.3.0", default-features = false }
END
cargo fetch --quiet --manifest-path "$work/Cargo.toml"
archive=
for file in "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"$package.crate"; do
    [ ! -f "$file" ] || archive=$file
done
echo "$sha256  $archive" | sha256sum -c - >/dev/null || {
    echo "error: the package in cargo's cache is not the one that was reviewed" >&2
    exit 3
}
tar -xzf "$archive" -C "$work"
cd "$work/$package/wolfssl-src"
# The package leaves out what autogen.sh looks at, and the folder in which the programs look for this.
mkdir -p build-aux certs
touch config.rpath build-aux/config.rpath
openssl dhparam -dsaparam -out certs/dh2048.pem 2048 2>/dev/null
autoreconf --install --force
./configure --enable-mlkem --enable-mldsa --enable-tls-mlkem-standalone --enable-pqc-hybrids \
    --enable-curve25519 --enable-ed25519 --enable-experimental --enable-extra-pqc-hybrids \
    --enable-slhdsa=yes,sha2 --enable-falcon --disable-shared --enable-static --disable-crypttests --disable-benchmark \
    CFLAGS=-O1
make -j"$(nproc)" src/libwolfssl.la examples/client/client examples/server/server
mkdir -p "$folder.new/certs"
cp examples/client/client examples/server/server COPYING "$folder.new"
cp certs/dh2048.pem "$folder.new/certs"
rm -rf "$folder"
mv "$folder.new" "$folder"
