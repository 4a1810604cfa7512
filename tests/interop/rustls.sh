#!/bin/sh
# TLS 1.3 between rustls with Gabion and others: OpenSSL alone, OpenSSL with Gabion, and Go, both ways, in every group
# and with every certificate that both sides have, with retries, client certificates, and each form of the private key.
# Prints "N passed, N failed" and exits 0 only when none failed. Go is skipped where it is missing.

set -eu
cd "$(dirname "$0")/../.."
. tests/servers/common

# script/test has built every example.
[ -n "${GABION_BUILT-}" ] || cargo build --locked --quiet --package gabion-rustls --example peer
rust=${CARGO_TARGET_DIR:-target}/debug/examples/peer
cc -std=gnu11 -O2 -Wall -Wextra -Werror -I "$prefix/include" tests/interop/openssl/peer.c \
    -L "$prefix/lib" -Wl,-rpath,"$prefix/lib" -lssl -lcrypto -o "$work/peer"

settled='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024 MLKEM512 MLKEM768 MLKEM1024 x25519 secp256r1 secp384r1'
private='SecP256r1MLKEM512 p256_mlkem512 MLKEM512X25519 SecP384r1MLKEM768 SecP521r1MLKEM1024'

# leaf SIGNATURE  a root, and below it a leaf for localhost, both with that algorithm.
leaf() {
    [ ! -e "$work/$1.crt" ] || return 0
    certificate "$1" root "$work/$1.root"
    leaf_file=$work/$1
    case $1 in
    RSA-2048) set -- RSA -pkeyopt rsa_keygen_bits:2048 ;;
    ECDSA-P-*) set -- EC -pkeyopt "group:${1#ECDSA-}" ;;
    esac
    ours openssl req -x509 -newkey "$@" -nodes -keyout "$leaf_file.key" -out "$leaf_file.crt" \
        -CA "$leaf_file.root.crt" -CAkey "$leaf_file.root.key" -days 30 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
        -addext keyUsage=critical,digitalSignature 2>"$work/openssl.log" || {
        cat "$work/openssl.log" >&2
        return 1
    }
}

# run_PEER ARGUMENT...  a side of the peer, and of ours.
run_alone() { env OPENSSL_CONF=/dev/null "$work/peer" "$@"; }
run_gabion() { "$gabion" exec -- "$work/peer" "$@"; }
run_go() { "$work/go" "$@"; }

# serve COMMAND...  starts a server on $port. Not in a function of the peer: what is stopped is the server itself.
serve() {
    port=$(free_port)
    case $1 in
    rust) set -- "$rust" server "$port" "$2" "$3" "$4" ${5+"$5"} ;;
    alone) set -- env OPENSSL_CONF=/dev/null "$work/peer" server "$port" "$2" "$3" "$4" ${5+"$5"} ;;
    gabion) set -- "$gabion" exec -- "$work/peer" server "$port" "$2" "$3" "$4" ${5+"$5"} ;;
    go) set -- "$work/go" server "$port" "$2" "$3" "$4" ${5+"$5"} ;;
    esac
    "$@" >"$work/server.log" 2>&1 &
    server=$!
    started="$started $server"
    listening "$port"
}

# answered PATTERN COMMAND...  whether a client ends well and says that.
answered() {
    wanted_answer=$1
    shift
    "$@" >"$work/answer" && cat "$work/answer" && grep -qi -- "$wanted_answer" "$work/answer"
}
refused() { ! "$@" >/dev/null 2>&1; }

# both_ways PEER GROUPS SIGNATURE
both_ways() {
    leaf "$3"
    set -- "$1" "$2" "$3" "$work/$3.crt" "$work/$3.key" "$work/$3.root.crt"
    serve rust "$4" "$5" "$(echo "$2" | tr ' ' ':')"
    for group in $2; do
        check "$1 -> rustls: $group, $3" answered . "run_$1" client "$port" "$6" "$group"
    done
    stop "$server"
    serve "$1" "$4" "$5" "$(echo "$2" | tr ' ' ':')"
    for group in $2; do
        check "rustls -> $1: $group, $3" answered "$(told "$1" "$group")" "$rust" client "$port" "$6" "$group"
    done
    stop "$server"
}

# told PEER GROUP  what a server answers: OpenSSL's programs say the group.
told() { case $1 in go) echo . ;; *) echo "$2 " ;; esac; }

# retried PEER GROUPS  a first share of X25519MLKEM768, and a server with another group.
retried() {
    for group in $2; do
        # A client's first share brings one of x25519 with it, or is the group itself.
        case $group in X25519MLKEM768 | x25519) continue ;; esac
        serve rust "$work/ECDSA-P-256.crt" "$work/ECDSA-P-256.key" "$group"
        check "$1 -> rustls: $group after a retry" answered . "run_$1" client "$port" \
            "$work/ECDSA-P-256.root.crt" "X25519MLKEM768:$group"
        stop "$server"
        serve "$1" "$work/ECDSA-P-256.crt" "$work/ECDSA-P-256.key" "$group"
        check "rustls -> $1: $group after a retry" answered "$(told "$1" "$group")" "$rust" client "$port" \
            "$work/ECDSA-P-256.root.crt" "X25519MLKEM768:$group"
        stop "$server"
    done
}

# proved PEER SIGNATURE  a client's certificate, none, and one of another root.
proved() {
    leaf "$2"
    set -- "$1" "$work/$2" "$work/$3"
    for sides in "rust $1" "$1 rust"; do
        serve "${sides% *}" "$2.crt" "$2.key" X25519MLKEM768 "$2.root.crt"
        asker="run_${sides#* }"
        [ "${sides#* }" != rust ] || asker=$rust
        set -- "$1" "$2" "$3" "$asker" client "$port" "$2.root.crt" X25519MLKEM768
        # The asker and its arguments.
        check "${sides#* } -> ${sides% *}: a client's certificate, ${2##*/}" answered . "$4" "$5" "$6" "$7" "$8" \
            "$2.crt" "$2.key"
        check "${sides#* } -> ${sides% *}: no client's certificate" refused "$4" "$5" "$6" "$7" "$8"
        check "${sides#* } -> ${sides% *}: a client's certificate of another root" refused "$4" "$5" "$6" "$7" "$8" \
            "$3.crt" "$3.key"
        stop "$server"
    done
}

# with PEER GROUPS SIGNATURES  everything with one peer; a signature but the first is tried with one group.
with() {
    all_groups=$2
    for signature in $3; do
        both_ways "$1" "$all_groups" "$signature"
        all_groups=X25519MLKEM768
    done
    retried "$1" "$2"
}

others='ECDSA-P-384 ED25519 RSA-2048'
with alone "$settled" "ECDSA-P-256 ML-DSA-44 ML-DSA-65 ML-DSA-87 $others"
with gabion "X25519MLKEM768 $private" 'ECDSA-P-256 ML-DSA-65'
for peer in alone gabion; do proved "$peer" ML-DSA-65 ML-DSA-44; done
if (cd tests/interop/go && go build -o "$work/go" .) >"$work/go.log" 2>&1; then
    with go 'X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024' "ECDSA-P-256 $others"
else
    echo "skipped: Go: $(head -n 1 "$work/go.log")"
fi

# Each form of ML-DSA's private keys, read by rustls.
for form in seed-only priv-only seed-priv; do
    ours openssl pkey -in "$work/ML-DSA-65.key" -out "$work/$form.key" -provparam "ml-dsa.output_formats=$form"
    serve rust "$work/ML-DSA-65.crt" "$work/$form.key" X25519MLKEM768
    check "rustls reads an ML-DSA-65 key: $form" answered . run_alone client "$port" \
        "$work/ML-DSA-65.root.crt" X25519MLKEM768
    stop "$server"
done
result
