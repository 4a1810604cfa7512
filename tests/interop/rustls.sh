#!/bin/sh
# TLS 1.3 between rustls with Gabion and others, both ways, in every group and with every certificate that both sides
# have, with retries, client certificates, and each form of the private key: OpenSSL alone, OpenSSL with Gabion, and of
# the peers of tls.sh those that rustls itself is not. With `script/test --all`, s_client and Chromium ask the example `axum`.
# "skipped: WHY" for a peer that is not here; tests/interop/tls.sh --fetch gets all of them.
# Prints "N passed, N failed" and exits 0 only when none failed.

set -eu
cd "$(dirname "$0")/../.."
. tests/servers/common
# shellcheck disable=SC2034  # of the file that follows
fetch=0
. tests/interop/peers

# script/test has built every example.
[ -n "${GABION_BUILT-}" ] ||
    cargo build --locked --quiet --package gabion-rustls --example peer
examples=${CARGO_TARGET_DIR:-target}/debug/examples
rust=$examples/peer
cc -std=gnu11 -O2 -Wall -Wextra -Werror -I "$prefix/include" tests/interop/openssl/peer.c \
    -L "$prefix/lib" -Wl,-rpath,"$prefix/lib" -lssl -lcrypto -o "$work/peer"

settled='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024 MLKEM512 MLKEM768 MLKEM1024 x25519 secp256r1 secp384r1'
unsettled='SecP256r1MLKEM512 p256_mlkem512 MLKEM512X25519 SecP384r1MLKEM768 SecP521r1MLKEM1024'

# run_PEER ARGUMENT...  a side of the peer, and of ours.
run_alone() { env OPENSSL_CONF=/dev/null "$work/peer" "$@"; }
run_gabion() { "$gabion" exec -- "$work/peer" "$@"; }

# serve COMMAND...  starts a server on $port. Not in a function of the peer: what is stopped is the server itself.
serve() {
    port=$(free_port)
    case $1 in
    rust) set -- "$rust" server "$port" "$2" "$3" "$4" ${5+"$5"} ;;
    alone) set -- env OPENSSL_CONF=/dev/null "$work/peer" server "$port" "$2" "$3" "$4" ${5+"$5"} ;;
    gabion) set -- "$gabion" exec -- "$work/peer" server "$port" "$2" "$3" "$4" ${5+"$5"} ;;
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
    chain "$3"
    set -- "$1" "$2" "$3" "$work/$3.crt" "$work/$3.key" "$work/$3.root.crt"
    serve rust "$4" "$5" "$(echo "$2" | tr ' ' ':')"
    for group in $2; do
        check "$1 -> rustls: $group, $3" answered . "run_$1" client "$port" "$6" "$group"
    done
    stop "$server"
    serve "$1" "$4" "$5" "$(echo "$2" | tr ' ' ':')"
    for group in $2; do
        check "rustls -> $1: $group, $3" answered "$group " "$rust" client "$port" "$6" "$group"
    done
    stop "$server"
}

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
        check "rustls -> $1: $group after a retry" answered "$group " "$rust" client "$port" \
            "$work/ECDSA-P-256.root.crt" "X25519MLKEM768:$group"
        stop "$server"
    done
}

# proved PEER SIGNATURE  a client's certificate, none, and one of another root.
proved() {
    chain "$2"
    chain "$3"
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

# both LIST LIST  the words of the first that are in the second.
both() {
    for word in $1; do
        case " $2 " in *" $word "*) echo "$word" ;; esac
    done | paste -sd ' '
}

# theirs_serves GROUPS  starts the server of $function, of $signature, on $port.
theirs_serves() {
    port=$(free_port)
    "server_$function" "$port" "$signature" "$1" >"$work/server.log" 2>&1 &
    server=$!
    started="$started $server"
    listening "$port"
}

# against PEER  what rustls and a peer of tests/interop/peers both have. What rustls's server says is what it is told.
against() {
    peer=$1
    function=$(echo "$peer" | tr '.-' '__')
    "have_$function" >"$work/why"
    [ ! -s "$work/why" ] || {
        echo "$peer: skipped: $(cat "$work/why")"
        return 0
    }
    form=${forms%% *}
    form=${form:-both}
    groups=$(both "$groups" "$settled $unsettled")
    for signature in $(both "$signatures $once" "$signed_with"); do
        chain "$signature"
        serve rust "$work/$signature.crt" "$work/$signature.key" "$(joined $groups)"
        for group in $(groups_with "$signature"); do
            check "$peer_name -> rustls: $group, $signature" answered hello "client_$function" "$port" "$group" \
                "$work/$signature.root.crt"
        done
        stop "$server"
        theirs_serves "$(joined $groups)" || {
            failed=$((failed + 1))
            echo "FAILED: $peer_name does not serve $signature"
            continue
        }
        for group in $(groups_with "$signature"); do
            check "rustls -> $peer_name: $group, $signature" answered . "$rust" client "$port" \
                "$work/$signature.root.crt" "$group"
        done
        stop "$server"
    done
}

# The server of the example, which says by two lines where it is and who signs for it.
example_serves() {
    TMPDIR=$work "${CARGO_TARGET_DIR:-target}/debug/axum" >"$work/axum" 2>"$work/server.log" &
    server=$!
    started="$started $server"
    tries=100
    until [ "$(wc -l <"$work/axum")" -ge 2 ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.1
    done
    port=$(sed -n 's,^https://localhost:,,p' "$work/axum")
    roots=$(sed -n 's,^roots: ,,p' "$work/axum")
}

# browsed  the page of the example, in a browser that does not know its roots.
browsed() { client_chromium "$port" | grep X25519MLKEM768; }

signed_with="ECDSA-P-256 $post_quantum $classical"
with alone "$settled" "$signed_with"
with gabion "X25519MLKEM768 $unsettled" 'ECDSA-P-256 ML-DSA-65'
for peer in alone gabion; do proved "$peer" ML-DSA-65 ML-DSA-44; done
for peer in openssl-4.0.3 go go-1.27 node bouncycastle wolfssl; do against "$peer"; done

# With --all, since axum and what it stands on take a minute to build.
if [ -n "${GABION_TEST_ALL-}" ]; then
    cargo build --locked --quiet --package gabion-rustls-examples --bin axum
    example_serves
    for with in ours stock; do
        check "s_client ($with) -> the example axum" asks_for X25519MLKEM768 "$port" localhost "$roots" "$with"
    done
    have_chromium >"$work/why"
    if [ -s "$work/why" ]; then
        echo "chromium: skipped: $(cat "$work/why")"
    else
        check "$peer_name -> the example axum" browsed
    fi
    stop "$server"
else
    echo "skipped: s_client and Chromium with the example axum; script/test --all builds it"
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
