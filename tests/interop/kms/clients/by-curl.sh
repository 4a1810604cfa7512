#!/bin/sh
# Calls the service by curl. Prints a line for each call: its name, a tab, and `ok`, `refused` (the service says `unsupported`) or
# `failed`.
#
#   by-curl.sh
#
# VAULT_ADDR, VAULT_TOKEN and VAULT_CACERT say where. Exits 1 if a call failed.

set -u
failures=0
input=bWVzc2FnZQ== # message
other=YW5vdGhlcg== # another

# ask METHOD PATH [BODY]  makes a request and prints the answer.
ask() {
    curl --silent --show-error --cacert "$VAULT_CACERT" --header "X-Vault-Token: $VAULT_TOKEN" --request "$1" \
        ${3:+--data "$3"} "$VAULT_ADDR/v1/$2"
}
# text FIELD  the text of a field of the answer on standard input.
text() { sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p'; }
# row NAME COMMAND...  runs a call and prints its line.
row() {
    row_name=$1
    shift
    if row_said=$("$@" 2>&1); then
        printf '%s\tok\n' "$row_name"
        return
    fi
    case $row_said in
    *unsupported*) printf '%s\trefused\n' "$row_name" ;;
    *)
        printf '%s\tfailed\n' "$row_name"
        failures=1
        ;;
    esac
    echo "$row_name: $row_said" >&2
}
# has TEXT COMMAND...  whether what a command prints has the text.
has() {
    has_text=$1
    shift
    has_said=$("$@")
    echo "$has_said"
    case $has_said in *"$has_text"*) ;; *) return 1 ;; esac
}

create() {
    has aes256-gcm96 ask POST transit/keys/curl-aes &&
        for type in ed25519 ecdsa-p256 ecdsa-p384 ecdsa-p521 rsa-2048 hmac; do
            has '"latest_version":1' ask POST "transit/keys/curl-$type" "{\"type\": \"$type\"}" || return
        done &&
        has '"ml-dsa"' ask POST transit/keys/curl-ml-dsa '{"type": "ml-dsa", "parameter_set": "65"}'
}
list() {
    has curl-aes ask LIST transit/keys && has curl-aes ask LIST transit/keys/ && has curl-aes ask GET 'transit/keys?list=true'
}
crypt() {
    sealed=$(ask POST transit/encrypt/curl-aes "{\"plaintext\": \"$input\"$1}" | text ciphertext)
    has "$input" ask POST transit/decrypt/curl-aes "{\"ciphertext\": \"$sealed\"$1}"
}
batch() { has 'vault:v1:' ask POST transit/encrypt/curl-aes "{\"batch_input\": [{\"plaintext\": \"$input\"}, {\"plaintext\": \"\"}]}"; }
rewrap() {
    sealed=$(ask POST transit/encrypt/curl-aes "{\"plaintext\": \"$input\"}" | text ciphertext)
    has '"latest_version":2' ask POST transit/keys/curl-aes/rotate &&
        has 'vault:v2:' ask POST transit/rewrap/curl-aes "{\"ciphertext\": \"$sealed\"}"
}
# tag KEY/HASH
tag() {
    made=$(ask POST "transit/hmac/$1" "{\"input\": \"$input\"}")
    hmac=$(echo "$made" | text hmac)
    [ -n "$hmac" ] || { echo "$made" && return 1; }
    has '"valid":true' ask POST "transit/verify/$1" "{\"input\": \"$input\", \"hmac\": \"$hmac\"}" &&
        has '"valid":false' ask POST "transit/verify/$1" "{\"input\": \"$other\", \"hmac\": \"$hmac\"}"
}
# sign KEY[/HASH] [FIELDS]
sign() {
    made=$(ask POST "transit/sign/$1" "{\"input\": \"$input\"${2:-}}")
    signature=$(echo "$made" | text signature)
    [ -n "$signature" ] || { echo "$made" && return 1; }
    has '"valid":true' ask POST "transit/verify/$1" "{\"input\": \"$input\", \"signature\": \"$signature\"${2:-}}" &&
        has '"valid":false' ask POST "transit/verify/$1" "{\"input\": \"$other\", \"signature\": \"$signature\"${2:-}}"
}
wrapped() {
    said=$(curl --silent --cacert "$VAULT_CACERT" --header "X-Vault-Token: $VAULT_TOKEN" --header 'X-Vault-Wrap-TTL: 60s' \
        --data '{}' "$VAULT_ADDR/v1/transit/random/16")
    echo "$said"
    case $said in *wrap_info*token*) ;; *) return 1 ;; esac
}
delete() {
    has deletion_allowed ask POST transit/keys/curl-aes/config '{"deletion_allowed": true}' &&
        [ -z "$(ask DELETE transit/keys/curl-aes)" ] && has errors ask GET transit/keys/curl-aes
}

row health has '"sealed":false' ask GET sys/health
row 'create a key' create
row 'list keys' list
row 'read a key' has '"latest_version":1' ask GET transit/keys/curl-aes
row 'read a missing key' has '"errors":[' ask GET transit/keys/curl-missing
row 'encrypt and decrypt' crypt ''
row 'encrypt with associated data' crypt ', "associated_data": "cm93IDc="'
row 'encrypt a batch' batch
row 'rotate and rewrap' rewrap
row 'make a data key' has plaintext ask POST transit/datakey/plaintext/curl-aes '{"bits": 256}'
row 'draw random bytes' has random_bytes ask POST transit/random/32 '{"format": "hex"}'
row 'HMAC by an encryption key' tag curl-aes/sha2-256
row 'HMAC by a signing key' tag curl-ed25519/sha2-512
row 'HMAC with SHA-3' tag curl-rsa-2048/sha3-256
row 'HMAC by a key of the type hmac' tag curl-hmac/sha2-256
# FIPS 202's example of the message `abc`.
row hash has 3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532 ask POST sys/tools/hash/sha3-256 '{"input": "YWJj"}'
row 'sign by Ed25519' sign curl-ed25519
row 'sign by ECDSA' sign curl-ecdsa-p256
row 'sign by ECDSA in JWS form' sign curl-ecdsa-p256 ', "marshaling_algorithm": "jws"'
row 'sign by ECDSA with SHA-3' sign curl-ecdsa-p384/sha3-384
row 'sign by ECDSA with SHA-224' sign curl-ecdsa-p521/sha2-224
row 'sign by RSA-PSS' sign curl-rsa-2048 ', "signature_algorithm": "pss"'
row 'sign by RSA PKCS#1 v1.5 with SHA-3' sign curl-rsa-2048/sha3-512 ', "signature_algorithm": "pkcs1v15"'
row 'sign by ML-DSA' sign curl-ml-dsa
row 'export a public key' has '"keys"' ask GET transit/export/public-key/curl-ed25519/latest
row 'configure a key' has '"min_decryption_version":2' ask POST transit/keys/curl-aes/config '{"min_decryption_version": 2}'
row 'delete a key' delete
row 'make a derived key' has '"derived":true' ask POST transit/keys/curl-derived '{"derived": true}'
row 'back a key up' has '"backup":' ask GET transit/backup/curl-ed25519
row 'look up the token' has ttl ask GET auth/token/lookup-self
row 'renew the token' has lease_duration ask POST auth/token/renew-self '{}'
row 'ask for capabilities' has update ask POST sys/capabilities-self '{"paths": ["transit/encrypt/curl-ed25519"]}'
row 'ask who leads' has is_self ask GET sys/leader
row 'wrap the answer' wrapped
exit "$failures"
