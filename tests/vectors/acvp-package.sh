#!/bin/sh
# NIST's ACVP files as a published package carries them (the testdata of the Go module circl), through
# `gabion acvp` on every backend: these are there for everybody who can build Gabion.
# Prints "N passed, N failed" and exits 0 only when none failed.

set -eu
cd "$(dirname "$0")/../.."
module=github.com/cloudflare/circl@v1.6.5
sum=h1:O64F26HEqNhznd/hrC5KZXVKYuKM2rx4deZDTc4ihQA=
[ -n "${GABION_BUILT-}" ] || cargo build --locked --quiet --package gabion-cli
gabion=${CARGO_TARGET_DIR:-target}/debug/gabion

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Outside any Go module, so that nothing is written beside the sources.
(cd "$work" && go mod download -json "$module") >"$work/module.json" || {
    echo "acvp: the Go module $module could not be downloaded" >&2
    exit 1
}
field() { sed -n "s/^[[:space:]]*\"$1\": \"\(.*\)\",\{0,1\}\$/\1/p" "$work/module.json"; }
if [ "$(field Sum)" != "$sum" ]; then
    echo "acvp: $module has the hash $(field Sum); expected $sum" >&2
    exit 1
fi

passed=0 failed=0
for folder in "$(field Dir)"/kem/mlkem/testdata/ML-KEM-* "$(field Dir)"/sign/mldsa/testdata/ML-DSA-*; do
    gzip -dc "$folder/prompt.json.gz" >"$work/prompt.json"
    gzip -dc "$folder/expectedResults.json.gz" >"$work/expected.json"
    for backend in auto portable; do
        if GABION_BACKEND=$backend "$gabion" acvp "$work/prompt.json" \
            --check "$work/expected.json" >/dev/null 2>"$work/verdict"; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
        fi
        printf '%s, backend %s: %s\n' "${folder##*/}" "$backend" "$(tail -n 1 "$work/verdict")"
    done
done
[ "$passed" -gt 0 ] || failed=1
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
