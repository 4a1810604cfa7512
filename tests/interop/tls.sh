#!/bin/sh
# TLS 1.3 between Gabion, under the bundle's libssl, and everybody else's: both directions, every group
# and every signature that both sides have, the private groups and the signatures without a settled
# codepoint among them; with each peer also retries (a HelloRetryRequest), client certificates, and which form
# of ML-DSA's private keys it reads. What was negotiated is read on our side, and the provider's counters say that it
# was Gabion. The peer `gabion` is Gabion itself, for what few others have. A line for each
# combination, "skipped: WHY" for a peer that is not here; any other outcome fails.
# Prints "N passed, N failed" and exits 0 only when none failed.
#
#   tests/interop/tls.sh [PEER ...]       these peers only
#   tests/interop/tls.sh --fetch [PEER ...]
#                                         download and build first what is missing of them, which takes
#                                         half an hour, and fail for what is missing still. Chromium is
#                                         installed, as root by apt-get; Go's toolchain goes into Go's own
#                                         cache, and everything else into ~/.cache/gabion
#
# Without --fetch it takes what is there: other OpenSSLs, Go, and rustls, which cargo builds.

set -eu
cd "$(dirname "$0")/../.."
fetch=0
[ "${1:-}" != --fetch ] || {
    fetch=1
    shift
}
wanted=${*:-stock gabion openssl-3.6.3 openssl-4.0.3 go go-1.27 rustls node bouncycastle wolfssl chromium}
. tests/servers/common
. tests/interop/peers

# Signatures of the small SLH-DSA sets take some peers seconds, on a busy machine many.
PEER_SECONDS=300
export PEER_SECONDS

# ---- The combinations.

# agreed ANSWER GROUP  whether our side says that group, and what the certificate signs with: with RSA the
# hash is the client's choice, and not every client's first is SHA-256
agreed() {
    case $signature in
    RSA-*) echo "$1" | grep -qxE "$2 rsa_pss_rsae_sha(256|384|512)$more" ;;
    *) [ "$1" = "$2 $(scheme "$signature")$more" ] ;;
    esac
}

# we_serve GROUP OFFERED [SIGNATURE]  the peer's client, which offers these groups and proves itself by its
# certificate of SIGNATURE, if there is one, against our server on $port; $more is what our side says beside group and
# signature
we_serve() {
    agreed_group=$1
    offered=$2
    shift 2
    answer=$("client_$function" "$port" "$offered" "$work/$signature.root.crt" "$@" | tail -n 1)
    echo "negotiated: $answer"
    agreed "$answer" "$agreed_group"
}

# we_ask GROUP OFFERED [SIGNATURE]  the same, our client against the peer's server
we_ask() {
    agreed_group=$1
    offered=$2
    shift 2
    answer=$(GABION_STATS=$work/stats our_client "$port" "$offered" "$work/$signature.root.crt" "$@") || return
    echo "negotiated: $answer"
    agreed "$(echo "$answer" | head -n 1)" "$agreed_group" &&
        [ -n "$(echo "$answer" | sed -n 2p)" ]
}
our_client() {
    at=$1 with_groups=$2 trusting=$3
    shift 3
    # shellcheck disable=SC2046  # two words
    ours "$work/peer" client "$at" "$trusting" "$with_groups" $(pair "$@")
}

# draft_switch SIGNATURE...  sets it where one of them needs it
draft_switch() {
    unset GABION_TLS_DRAFT_SIGNATURES
    for drafted; do
        if is_draft "$drafted"; then export GABION_TLS_DRAFT_SIGNATURES=1; fi
    done
}

# our_server GROUPS [CA]  starts our server, of $signature, on $port
our_server() {
    port=$(free_port)
    # Not by a function: the process that is stopped must be the server itself.
    GABION_STATS=$work/stats "$gabion" exec -- "$work/peer" server "$port" "$work/$signature.crt" \
        "$work/$signature.key" "$@" 2>"$work/server.log" &
    server=$!
    started="$started $server"
    listening "$port"
}

# their_server GROUPS [CA]  starts the peer's; a failure to do so counts as one
their_server() {
    port=$(free_port)
    "server_$function" "$port" "$signature" "$@" >"$work/server.log" 2>&1 &
    server=$!
    started="$started $server"
    listening "$port" || {
        failed=$((failed + 1))
        echo "FAILED: $peer_name does not serve $signature"
        tail -n 5 "$work/server.log"
        return 1
    }
    asked=1
}

# both_ways  every combination with the peer named $function
both_ways() {
    more=
    form=${forms%% *}
    form=${form:-both}
    for signature in $signatures $once; do
        draft_switch "$signature"
        chain "$signature"
        our_server "$(joined $hybrids $pure $private $draft_groups)"
        for group in $(groups_with "$signature"); do
            check "$peer_name -> Gabion: $group, $signature" we_serve "$group" "$group"
        done
        stop "$server"
        # A browser serves nothing.
        echo "$serves" | grep -qw -- "$signature" || continue
        their_server "$(joined $groups)" || continue
        for group in $(groups_with "$signature"); do
            check "Gabion -> $peer_name: $group, $signature" we_ask "$group" "$group"
        done
        stop "$server"
    done
    signature=ECDSA-P-256
    [ -z "$mutual" ] || signature=ML-DSA-65
    [ -z "$retries" ] || retried
    more=
    [ -z "$mutual" ] || proved
    more=
    [ -z "$forms" ] || read_forms
}

# retried  a client whose key share is of X25519MLKEM768, and a server that takes another group
retried() {
    draft_switch "$signature"
    more=' retried'
    for group in $(all_but "$groups" X25519MLKEM768); do
        our_server "$group"
        check "$peer_name -> Gabion: $group after a retry" we_serve "$group" "X25519MLKEM768:$group"
        stop "$server"
        their_server "$group" || continue
        check "Gabion -> $peer_name: $group after a retry" we_ask "$group" "X25519MLKEM768:$group"
        stop "$server"
    done
}

# refused SIGNATURE...  our client with that certificate, or without one, gets no answer. Without one its handshake
# ends well, since a server of TLS 1.3 looks at its certificate after that.
refused() { ! we_ask X25519MLKEM768 X25519MLKEM768 "$@"; }

# proved  clients with certificates; the other side knows their root
proved() {
    for client in $mutual; do
        draft_switch "$client"
        chain "$client"
        our_server X25519MLKEM768 "$work/$client.root.crt"
        more=" $(scheme "$client")"
        check "$peer_name -> Gabion: a client's $client" we_serve X25519MLKEM768 X25519MLKEM768 "$client"
        stop "$server"
        their_server "$(joined $groups)" "$work/$client.root.crt" || continue
        more=
        check "Gabion -> $peer_name: a client's $client" we_ask X25519MLKEM768 X25519MLKEM768 "$client"
        if [ "$client" = ML-DSA-65 ]; then
            check "Gabion -> $peer_name: no client's certificate" refused
            chain ML-DSA-44
            check "Gabion -> $peer_name: a client's certificate of another root" refused ML-DSA-44
        fi
        stop "$server"
    done
    draft_switch
}

# read_forms  its server with each form of the private key; those that it does not read end it, or the connection
read_forms() {
    for form in both seed expanded; do
        case " $forms " in *" $form "*)
            their_server "$(joined $groups)" || continue
            check "$peer_name reads an ML-DSA-65 key: $form" we_ask X25519MLKEM768 X25519MLKEM768
            stop "$server"
            continue
            ;;
        esac
        port=$(free_port)
        "server_$function" "$port" "$signature" "$(joined $groups)" >"$work/server.log" 2>&1 &
        server=$!
        started="$started $server"
        check "$peer_name does not read an ML-DSA-65 key: $form" no_server
        stop "$server"
    done
}
no_server() {
    tries=100
    while here "$server" && ! we_ask X25519MLKEM768 X25519MLKEM768 && [ "$tries" -gt 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
    ! here "$server" || [ "$tries" -eq 0 ]
}

# Every operation of ours was Gabion's: signatures and encapsulations of our server, key pairs and
# decapsulations of our client, and none failed.
counted() {
    "$gabion" doctor --stats "$work/stats"
    [ "$(counter "$work/stats" '.*' encaps calls)" -gt 0 ] &&
        { [ "$asked" -eq 0 ] || [ "$(counter "$work/stats" '.*' decaps calls)" -gt 0 ]; } &&
        [ "$(counter "$work/stats" '.*' '.*' errors)" -eq 0 ]
}

link_peer "$work/peer" "$prefix/lib"
asked=0 # whether our client asked anybody
for peer in $wanted; do
    function=$(echo "$peer" | tr '.-' '__')
    command -v "have_$function" >/dev/null || {
        echo "error: there is no peer $peer" >&2
        exit 2
    }
    "have_$function" >"$work/why"
    if [ -s "$work/why" ] && [ "$fetch" -eq 1 ]; then
        failed=$((failed + 1))
        echo "FAILED: $peer: $(cat "$work/why")"
    elif [ -s "$work/why" ]; then
        echo "$peer: skipped: $(cat "$work/why")"
    else
        both_ways
    fi
done
[ "$passed" -eq 0 ] || check "the provider counted them" counted
result
