#!/bin/sh
# Other people's programs and `gabion kms dev`, over TLS on this machine alone: hvac makes every call of Vault's Transit
# that it has, with keys of ML-DSA by its raw adapter; curl and Go's library of Vault make the calls of the matrix in
# docs/guide/kms-clients.md, whose other clients tests/interop/kms-clients.sh runs; SOPS encrypts a file, decrypts it, and does
# so after a rotation; sigstore's signer for Vault makes keys, signs, rotates and verifies; schemathesis asks what openapi.json describes and
# what it forbids. Prints "N passed, N failed" and exits 0 only when none failed.
#
#   tests/interop/kms.sh            with what is in the cache; else it says what was skipped
#   tests/interop/kms.sh --fetch    gets hvac and schemathesis from PyPI, SOPS, sigstore and Vault's library as modules of Go
#                                   first, into ~/.cache/gabion; SOPS takes minutes to compile
#
# KMS_EXAMPLES=N  how many requests schemathesis draws for each operation, beside those that it always makes; usual is 3.

set -eu
cd "$(dirname "$0")/../.."
folder=${XDG_CACHE_HOME:-$HOME/.cache}/gabion/interop/kms
python=$folder/python/bin/python
sops=$folder/bin/sops
sigstore=$folder/bin/sigstore
vaultapi=$folder/bin/vaultapi
. tests/interop/kms/fetch

packages() {
    python3 -m venv "$folder/python" &&
        "$python" -m pip install --quiet hvac==2.4.0 schemathesis==4.32.5
}
if [ "${1:-}" = --fetch ]; then
    mkdir -p "$folder/bin"
    "$python" -c 'import hvac, schemathesis' 2>/dev/null || fetch "hvac and schemathesis" packages
    # Of a folder of its own: a go.mod of here is not for it.
    [ -x "$sops" ] || fetch SOPS env GOBIN="$folder/bin" go install github.com/getsops/sops/v3/cmd/sops@v3.13.3
    for module in sigstore clients/go; do
        (cd "tests/interop/kms/$module" && go mod download) >/dev/null 2>&1 || true
    done
fi
# Compiled each time: the cache of modules is what it takes.
mkdir -p "$folder/bin"
(cd tests/interop/kms/sigstore && GOPROXY=off GOFLAGS=-mod=readonly go build -o "$sigstore" .) >/dev/null 2>&1 ||
    rm -f "$sigstore"
(cd tests/interop/kms/clients/go && GOPROXY=off GOFLAGS=-mod=readonly go build -o "$vaultapi" ./vaultapi) >/dev/null 2>&1 ||
    rm -f "$vaultapi"

# There is no OpenSSL of ours in it.
GABION_OPENSSL_PREFIX=${GABION_OPENSSL_PREFIX:-none}
export GABION_OPENSSL_PREFIX
. tests/servers/common

# skip WHAT  says what is missing; who asked for it is not to take that for a pass.
skip() { echo "skipped: $1 is not in $folder; tests/interop/kms.sh --fetch gets it"; }

. tests/interop/kms/dev

if [ -x "$python" ]; then
    for group in state keys signing mldsa ciphers tags differences; do
        check "hvac, $group" "$python" -B tests/interop/kms/transit.py "$group"
    done
else
    skip hvac
fi

check "curl's calls" tests/interop/kms/clients/by-curl.sh
if [ -x "$vaultapi" ]; then
    check "calls by Go's library of Vault" "$vaultapi"
else
    skip "Go's library of Vault"
fi

# A file through SOPS and back, by the key NAME.
through_sops() {
    "$sops" encrypt --hc-vault-transit "$VAULT_ADDR/v1/transit/keys/sops" "$work/plain.yaml" >"$work/$1.yaml" &&
        grep -q 'vault:v'"$2"':' "$work/$1.yaml" && ! grep -q 'swordfish' "$work/$1.yaml"
}
back_from_sops() { "$sops" decrypt "$work/$1.yaml" | cmp - "$work/plain.yaml"; }
# Rotates what the file's own key is encrypted by.
sops_anew() {
    "$sops" rotate --in-place "$work/first.yaml" && grep -q 'vault:v2:' "$work/first.yaml" && back_from_sops first
}
no_sops_by_another_token() {
    ! VAULT_TOKEN=none "$sops" decrypt "$work/second.yaml"
}
if [ -x "$sops" ]; then
    printf 'user: admin\npassword: swordfish\n' >"$work/plain.yaml"
    check "a key for SOPS" "$gabion" kms key create sops --algorithm aes256-gcm96
    check "SOPS encrypts a file" through_sops first 1
    check "SOPS decrypts it" back_from_sops first
    check "the key is rotated" "$gabion" kms key rotate sops
    check "SOPS decrypts the old file" back_from_sops first
    check "SOPS encrypts by the new version" through_sops second 2
    check "SOPS decrypts that" back_from_sops second
    check "SOPS encrypts the old file anew" sops_anew
    check "SOPS decrypts nothing by another token" no_sops_by_another_token
else
    skip SOPS
fi

if [ -x "$sigstore" ]; then
    check "sigstore's signer" "$sigstore"
else
    skip "sigstore's signer"
fi

# It leaves what it found in the folder where it runs.
described() {
    described_by=$PWD/tests/interop/kms/schemathesis.toml
    # shellcheck disable=SC2086  # nothing, or two words
    (cd "$work" && "$folder/python/bin/schemathesis" --config-file "$described_by" \
        run "$VAULT_ADDR/openapi.json" --tls-verify "$VAULT_CACERT" -H "Authorization: Bearer $VAULT_TOKEN" \
        ${KMS_EXAMPLES:+--max-examples $KMS_EXAMPLES})
}
if [ -x "$python" ]; then
    check "what openapi.json describes, by schemathesis" described
else
    skip schemathesis
fi
still() { here "$server" && "$gabion" kms status; }
check "the server is still there" still
check "no word of a defect" test ! -s "$work/dev.log"
[ "$fetched" -eq 0 ] || failed=$((failed + 1))
result
