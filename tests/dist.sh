#!/bin/sh
# Uses the parts of dist/ that are not installed by a package manager: the bill of materials, the tarball, the image of the
# key management service, the Go modules, and, under emulation, the packages for arm64. tests/packages.sh installs the
# packages. Needs root for the image. Ends with "N passed, N failed", and exits 0 only when nothing failed.
#
#   tests/dist.sh [PART...]     bom tarball image goproxy arm64

set -eu
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- bom tarball image goproxy arm64
dist=$PWD/dist
machine=$(uname -m)
work=$(mktemp -d)
passed=0
failed=0
# The cache of Go's modules is read-only.
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

[ -e "$dist/SHA256SUMS" ] || { echo "there is nothing in dist/: run make dist" >&2; exit 3; }

# check NAME COMMAND...  one result.
check() {
    name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $part: $name" >&2
        tail -n 15 "$work/log" | sed 's/^/    /' >&2
    fi
}

# finds_nothing COMMAND...  succeeds if a search ran and found nothing.
finds_nothing() {
    code=0
    "$@" || code=$?
    [ "$code" -eq 1 ]
}

# The bill of materials: a licence for each component, and nothing of the building machine.
licences() {
    components=$(grep -c '"purl"' "$1")
    [ "$components" -gt 100 ] && [ "$(grep -c '"expression"' "$1")" -eq $((components + 1)) ]
}
# names FILE WORD...  every word is in the file.
names() {
    names_file=$1
    shift
    for word in "$@"; do
        grep -q "$word" "$names_file" || { echo "$word is not in $names_file"; return 1; }
    done
}
is_free_of_paths() { finds_nothing grep -n -w -F -e "$PWD" -e "$HOME/" -e "$(hostname)" "$@"; }
packages_have_notices() {
    for package in "$dist"/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -t | grep -q 'share/doc/.*/THIRD-PARTY$' || { echo "$package"; return 1; }
    done
}
bom() {
    sbom=$(ls "$dist"/gabion-*-"$machine.cdx.json")
    check "each component has a licence" licences "$sbom"
    check "it names crates and C libraries" names "$sbom" 'pkg:cargo/rustls@' 'pkg:cargo/libsqlite3-sys@' \
        'pkg:generic/openssl@3' 'pkg:generic/sqlite@3' 'pkg:generic/glibc@2'
    check "the notices have texts" names "$dist/THIRD-PARTY" '^openssl 3.*: Apache-2.0' '^sqlite .*: blessing' \
        'Permission is hereby granted' 'May you do good and not evil' 'free and unencumbered software'
    check "neither names a path of this machine" is_free_of_paths "$sbom" "$dist/THIRD-PARTY"
    check "every package has the notices" packages_have_notices
}

# The tarball, in a folder of its own, with the tools of a bare server.
bare() { env -i PATH="$at/bin:/usr/bin:/bin" HOME="$work/home" GABION_OPENSSL_FIPS_MODE="${mode-}" "$@"; }
refuses() {
    code=0
    "$@" || code=$?
    case $code in 0 | 126 | 127) return 1 ;; esac
}
says() {
    said=$1
    shift
    "$@" 2>&1 | tee "$work/said" | grep -q "$said" || { cat "$work/said"; return 1; }
}
uses_own_libraries() { bare gabion exec -- sh -c 'ldd "$(command -v openssl)"' | grep libcrypto | grep -F "$at/"; }
# is_at_most BYTES FILE
is_at_most() { stat -c '%s bytes' "$2" && [ "$(stat -c %s "$2")" -le "$1" ]; }
compiles_and_runs() {
    # shellcheck disable=SC2046 # several words
    cc -o "$work/program" front/capi/examples-c/kem.c \
        $(PKG_CONFIG_PATH="$at/lib/pkgconfig" pkg-config --cflags --libs gabion) && LD_LIBRARY_PATH="$at/lib" "$work/program"
}
tarball() {
    mkdir -p "$work/home" "$work/opt"
    archive=$(ls "$dist"/gabion-*-"$machine-linux.tar.gz")
    check "unpack" tar -xzf "$archive" -C "$work/opt"
    at=$work/opt/$(basename "$archive" .tar.gz)
    check "the command" bare gabion --version
    check "its pages and completions" ls "$at/share/man/man1/gabion.1.gz" "$at/share/bash-completion/completions/gabion"
    check "doctor says what to do first" says "bundle build --prefix $at/lib/gabion/openssl" bare gabion doctor
    check "FIPS mode refuses an untested module" refuses bare env GABION_OPENSSL_FIPS_MODE=only gabion exec -- openssl version
    for place in opt elsewhere; do
        [ "$place" = opt ] || { mv "$work/opt" "$work/$place" && at=$work/$place/${at##*/}; }
        check "configure it in $place" bare gabion bundle build --prefix "$at/lib/gabion/openssl"
        check "a program loads the provider in $place" says "name: Gabion provider" bare gabion exec -- openssl list -providers
        check "OpenSSL is its own in $place" uses_own_libraries
        mode=only
        check "FIPS mode in $place" says "OpenSSL FIPS Provider" bare gabion exec -- openssl list -providers
        mode=
    done
    check "a C program" compiles_and_runs
    check "libgabion.a has at most 15 MB" is_at_most 15000000 "$at/lib/libgabion.a"
}

# The image: unpacked, run as its user with a read-only root, in 128 MiB.
blobs_have_their_digests() {
    (cd "$dist/oci/blobs/sha256" && for blob in *; do echo "$blob  $blob"; done | sha256sum --check --quiet)
}
layers_have_their_digests() {
    for digest in $layers; do gzip -dc "$dist/oci/blobs/sha256/$digest" | sha256sum | cut -d ' ' -f 1; done >"$work/diffs"
    grep -o '"diff_ids":\[[^]]*' "$config" | grep -o '[0-9a-f]\{64\}' | cmp - "$work/diffs"
}
has_no_shell() { ! find "$root" -name '*sh' | grep .; }
image() {
    oci=$dist/oci
    blobs=$oci/blobs/sha256
    digest_after() { grep -o "\"$1\":[{[]*\"digest\":\"sha256:[0-9a-f]*" "$2" | grep -o '[0-9a-f]\{64\}'; }
    manifest=$blobs/$(digest_after manifests "$oci/index.json")
    config=$blobs/$(digest_after config "$manifest")
    layers=$(grep -o '"layers":.*' "$manifest" | grep -o 'sha256:[0-9a-f]*' | cut -d : -f 2)
    check "every blob has its digest" blobs_have_their_digests
    check "every layer has its digest" layers_have_their_digests
    check "its user, entry point and configuration" names "$config" '"User":"65532:65532"' \
        '"Entrypoint":\["/usr/bin/gabion","kms","serve"\]' '"Cmd":\["--config","/etc/gabion/kms.toml"\]'
    root=$work/image
    mkdir "$root"
    for digest in $layers; do tar -xzpf "$blobs/$digest" --numeric-owner -C "$root"; done
    check "it has no shell" has_no_shell
    check "a signature by uid 65532 with a read-only root in 128 MiB" packaging/tests/image.sh "$root"
    sed -n 's/^memory/    memory/p' "$work/log"
}

# The Go modules, for a program that has no other source of them.
goproxy() {
    (cd front/go/grpc && go mod download)
    mkdir "$work/consumer"
    cat >"$work/consumer/main.go" <<'END'
package main

import (
	"gabion.invalid/fipstls"
	fipsgrpc "gabion.invalid/fipstls/grpc"
)

func main() {
	_ = fipstls.NewClient(&fipstls.Config{})
	_, _ = fipsgrpc.NewClientCredentials(&fipstls.Config{})
}
END
    consumer() {
        (cd "$work/consumer" && env GOPROXY="file://$dist/goproxy,$others" GOMODCACHE="$work/go" GOSUMDB=off GOFLAGS=-mod=mod "$@")
    }
    others=file://$(go env GOMODCACHE)/cache/download,off
    # The module for gRPC names the version of the other one.
    check "a program gets both modules" consumer sh -c 'go mod init example.invalid/consumer && go get gabion.invalid/fipstls/grpc@latest'
    check "and is built" consumer go build -o "$work/consumer/program" .
    check "the modules are verified" consumer go mod verify
}

# The packages for arm64, in one folder. Their programs are run by the loader of the cross compiler's C library: with its
# folder as root (qemu-aarch64 -L), a program that walks from / finds that folder only.
emulated() {
    emulated=$1
    shift
    qemu-aarch64 /usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1 --library-path \
        "$arm/usr/lib/gabion/openssl/lib:$arm/usr/lib/aarch64-linux-gnu:/usr/aarch64-linux-gnu/lib" "$emulated" "$@"
}
arm64_signs() {
    emulated "$arm/usr/bin/gabion" keygen ML-DSA-65 --out "$work/key.pem" --pub "$work/pub.pem" &&
        emulated "$arm/usr/bin/gabion" sign --key "$work/key.pem" --out "$work/sig" "$work/pub.pem" &&
        emulated "$arm/usr/bin/gabion" verify --key "$work/pub.pem" --sig "$work/sig" "$work/pub.pem"
}
arm64_is_only_arm64() {
    find "$arm" -type f -exec sh -c 'for f; do head -c 20 "$f" | od -An -tx1 | tr -d " \n" | grep "^7f454c46.*b700$" >/dev/null ||
        { head -c 4 "$f" | grep -q ELF && echo "$f"; }; done' sh {} + | grep . && return 1
    return 0
}
arm64_program() {
    aarch64-linux-gnu-gcc -o "$work/arm-program" -I "$arm/usr/include" front/capi/examples-c/kem.c \
        "$arm/usr/lib/aarch64-linux-gnu/libgabion.a" -lutil -lrt -lpthread -lm -ldl && emulated "$work/arm-program"
}
arm64() {
    if ! ls "$dist"/arm64/gabion_*_arm64.deb >/dev/null 2>&1; then
        echo "skipped: there are no packages for arm64: GABION_DIST_TARGET=aarch64-unknown-linux-gnu script/dist" >&2
        return
    fi
    arm=$work/arm64
    openssl=$arm/usr/lib/gabion/openssl
    for package in "$dist"/arm64/*_arm64.deb; do
        check "unpack ${package##*/}" dpkg-deb -x "$package" "$arm"
    done
    check "every program is for arm64" arm64_is_only_arm64
    check "the command" says gabion emulated "$arm/usr/bin/gabion" --version
    check "gabion-bench" says gabion emulated "$arm/usr/bin/gabion-bench" --version
    check "a signature" arm64_signs
    check "self-tests of the FIPS module" emulated "$openssl/bin/openssl" fipsinstall -pedantic -quiet \
        -module "$openssl/lib/ossl-modules/fips.so" -out "$work/fipsmodule.cnf"
    check "the provider of the bundle" says "name: Gabion provider" emulated "$openssl/bin/openssl" list -providers \
        -provider-path "$openssl/lib/ossl-modules" -provider gabion
    check "a C program" arm64_program
}

for part in "$@"; do
    case $part in
    bom | tarball | image | goproxy | arm64) "$part" ;;
    *) echo "error: expected bom, tarball, image, goproxy or arm64, not \`$part\`" >&2; exit 2 ;;
    esac
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
