#!/bin/sh
# The Go package: its modules are formatted and vetted, and their tests pass with each libssl that is
# here: the system's, the bundle of GABION_OPENSSL_PREFIX, and what front/go/script/openssl built. The
# last line counts tests. With the race detector for one of them, since it is slow.

set -eu
cd "$(dirname "$0")/../../front/go"

command -v go >/dev/null || {
    echo "error: Go is missing; script/setup installs it" >&2
    exit 3
}
GOFLAGS="-mod=readonly ${GOFLAGS:-}"
export GOFLAGS
if ! version=$(go version 2>&1); then
    echo "error: $version" >&2
    echo "       front/go needs Go $(sed -n 's/^go //p' go.mod) or newer; script/setup says how to get it" >&2
    exit 3
fi
echo "$version"

unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || {
    echo "error: run gofmt -w on: $unformatted" >&2
    exit 1
}

passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# run NAME COMMAND...  counts the tests that `go test -v` reports.
run() {
    name=$1
    shift
    printf '%s ... ' "$name"
    ok=1
    "$@" >"$log" 2>&1 || ok=0
    ran=$(grep -c '^ *--- PASS' "$log" || true)
    lost=$(grep -c '^ *--- FAIL' "$log" || true)
    skipped=$(grep -c '^ *--- SKIP' "$log" || true)
    [ "$ok" -eq 1 ] || [ "$lost" -gt 0 ] || lost=1
    passed=$((passed + ran))
    failed=$((failed + lost))
    echo "$ran passed, $lost failed, $skipped skipped"
    # Why something did not run is part of the result.
    grep -B 1 '^ *--- SKIP' "$log" | grep '_test.go:' | sed 's/^ */    not run: /' | sort -u || true
    [ "$ok" -eq 1 ] || grep -v '^ *--- PASS\|^=== ' "$log" | tail -n 60
}

for module in . grpc bench; do
    [ -e "$module/go.mod" ] || continue
    (cd "$module" && go vet ./...) || failed=$((failed + 1))
done
CGO_ENABLED=0 go vet . || failed=$((failed + 1))
GOOS=windows go build . || failed=$((failed + 1)) # without a way to libssl, as docs/guide/go.md says

# libssl NAME FILE PREFIX  all tests with one library
libssl() {
    run "libssl of $1" env "FIPSTLS_TEST_LIB=$2" "FIPSTLS_TEST_OPENSSL=$3" go test -count=1 -v ./...
    [ ! -e grpc/go.mod ] ||
        run "gRPC with libssl of $1" env "FIPSTLS_TEST_LIB=$2" sh -c 'cd grpc && go test -count=1 -v ./...'
}

libssl "the system" "" ""
prefix=${GABION_OPENSSL_PREFIX:-}
if [ -n "$prefix" ]; then
    libssl "the bundle" "$prefix/lib/libssl.so" "$prefix"
else
    echo "the bundle: GABION_OPENSSL_PREFIX is not set; nothing was run with it"
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gabion/openssl
for version in 1.1.1w 3.6.3 4.0.3; do
    if [ -e "$cache/$version/built" ]; then
        libssl "OpenSSL $version" "$cache/$version/lib/libssl.so" "$prefix"
    else
        echo "OpenSSL $version: not in $cache; front/go/script/openssl $version builds it"
    fi
done
run "race detector" env "FIPSTLS_TEST_OPENSSL=$prefix" go test -count=1 -race -v ./...
# The C files under AddressSanitizer, which reports what they leak when the tests end (LeakSanitizer); that can't
# look into a set-user-ID program.
run "AddressSanitizer" env "FIPSTLS_TEST_OPENSSL=$prefix" \
    go test -count=1 -asan -skip 'SoakConnections|PrivilegedProcess' -v .

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
