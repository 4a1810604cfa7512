#!/bin/sh
# Malformed post-quantum key shares, to Gabion's server and to its client: other lengths, coefficients out
# of range, points off their curve, halves swapped, entries doubled and mislabelled. The server has to
# give the alert that OpenSSL's own code gives, or a better one, and to serve the next connection; the
# client has to give the same alerts. The private groups, which OpenSSL lacks, get those of the others.
#
# Malformed Certificate and CertificateVerify messages, by a relay that knows the secrets of each
# connection: every length and every place changed, of a server's to our client and of a client's to our
# server. With ML-DSA the alerts have to be those of OpenSSL's own code, one by one; with Falcon, SLH-DSA
# and composite signatures in the chain, which it lacks, an alert of those that are right.
#
# GABION_MALFORMED_STRIDE=1 takes every length and changes every place; by default it is every seventh, and
# all near the ends.
# Prints "N passed, N failed" and exits 0 only when none failed.

set -eu
cd "$(dirname "$0")/../.."
. tests/servers/common

groups='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024 MLKEM512 MLKEM768 MLKEM1024'
private='SecP256r1MLKEM512 SecP384r1MLKEM768 SecP521r1MLKEM1024 MLKEM512X25519'
list=$(echo "$groups" | tr ' ' ':')
stride=${GABION_MALFORMED_STRIDE:-7}
build_load
cc -std=gnu11 -O2 -Wall -Wextra -Werror -I "$prefix/include" tests/interop/openssl/peer.c \
    -L "$prefix/lib" -Wl,-rpath,"$prefix/lib" -lssl -lcrypto -o "$work/peer"
(cd tests/interop/malformed && go build -o "$work/malformed" .)
# The cheapest to sign: it is not what is tested here.
certificate ECDSA-P-256 localhost "$work/server"

port=$(free_port)
GABION_STATS=$work/stats "$gabion" exec -- "$work/peer" server "$port" "$work/server.crt" \
    "$work/server.key" "$list:$(echo "$private" | tr ' ' ':')" 2>"$work/server.log" &
started=$!
listening "$port"
reference=$(free_port)
OPENSSL_CONF=/dev/null "$work/peer" server "$reference" "$work/server.crt" "$work/server.key" "$list" \
    2>"$work/reference.log" &
started="$started $!"
listening "$reference"

# run NAME COMMAND...  one test, of as many messages as the program says
run() {
    run_name=$1
    shift
    check "$run_name" messages "$@"
    tail -n 1 "$work/out"
}
messages() {
    "$@" >"$work/out" || {
        head -n 20 "$work/out"
        return 1
    }
}

for group in $groups $private; do
    other=$reference
    case " $private " in *" $group "*) other=- ;; esac
    # Words in braces are for the program.
    set -- "$gabion" exec -- "$work/load" --port '{port}' --ca "$work/server.crt" --count '{count}' \
        --group "$group"
    run "to our server, $group" "$work/malformed" server "$port" "$other" "$stride" "$group" "$@"
    run "to our client, $group" "$work/malformed" client "$port" "$work/ours.alerts" "$stride" "$group" "$@"
    # What it answers, without the lengths.
    sed 's/.*: //' "$work/ours.alerts" | sort -u >"$work/ours.answers"
    if [ "$other" = - ]; then
        check "our client gives the alerts of the other groups, $group" \
            cmp "$work/ours.answers" "$work/answers"
        continue
    fi
    mv "$work/ours.answers" "$work/answers"
    shift 3
    run "to OpenSSL's client, $group" env OPENSSL_CONF=/dev/null LD_LIBRARY_PATH="$prefix/lib" \
        "$work/malformed" client "$port" "$work/stock.alerts" "$stride" "$group" "$@"
    check "both clients give the same alerts, $group" cmp "$work/ours.alerts" "$work/stock.alerts"
done
# issue FILE SUBJECT EXTENSION ISSUER ALGORITHM...  makes FILE.key and FILE.crt, signed by ISSUER, or by
# itself where that is "-".
issue() {
    issue_file=$work/$1
    printf '%s\n' "$3" >"$work/extension"
    issue_by="-CA $work/$4.crt -CAkey $work/$4.key"
    [ "$4" != - ] || issue_by="-signkey $issue_file.key"
    issue_subject=$2
    shift 4
    # shellcheck disable=SC2086  # several words
    ours openssl req -new -newkey "$@" -nodes -keyout "$issue_file.key" -out "$work/request" \
        -subj "/CN=$issue_subject" 2>"$work/openssl.log" &&
        ours openssl x509 -req -in "$work/request" $issue_by -days 30 -extfile "$work/extension" \
            -out "$issue_file.crt" 2>>"$work/openssl.log" || {
        cat "$work/openssl.log" >&2
        return 1
    }
}
ca='basicConstraints=critical,CA:TRUE'
leaf='subjectAltName=DNS:localhost'
# Draft codepoints on both sides; of OpenSSL alone it asks nothing.
GABION_TLS_DRAFT_SIGNATURES=1
export GABION_TLS_DRAFT_SIGNATURES

# proof SIDE NAME WHOSE STRIDE  changes what SIDE proves itself by with the chain NAME, against a client or
# server of ours or of OpenSSL alone; the alerts go to $work/NAME-SIDE-WHOSE.
proof() {
    proof_environment=
    [ "$3" = ours ] || proof_environment="env OPENSSL_CONF=/dev/null LD_LIBRARY_PATH=$prefix/lib"
    proof_port=$(free_port)
    : >"$work/keylog"
    set -- "$1" "$2" "$3" "$4" "$work/$2.crt" "$work/$2.key" X25519
    [ "$1" = server ] || set -- "$@" "$work/$2-root.crt"
    # The side that is under test is WHOSE; the other one is ours, or OpenSSL alone would lack Falcon.
    proof_server="$gabion exec --"
    [ "$1" = server ] || [ "$3" = ours ] || proof_server=$proof_environment
    proof_client="$gabion exec --"
    [ "$1" = client ] || [ "$3" = ours ] || proof_client=$proof_environment
    proof_side=$1 proof_name=$2 proof_whose=$3 proof_stride=$4
    shift 4
    # shellcheck disable=SC2086  # several words
    PEER_KEYLOG=$work/keylog GABION_STATS=$work/proof.stats $proof_server "$work/peer" server \
        "$proof_port" "$@" 2>"$work/proof.log" &
    proof_pid=$!
    started="$started $proof_pid"
    listening "$proof_port"
    set -- "$work/load" --port '{port}' --ca "$work/$proof_name-root.crt" --count '{count}' --group X25519
    [ "$proof_side" = server ] || set -- "$@" --cert "$work/$proof_name.crt" --key "$work/$proof_name.key"
    # shellcheck disable=SC2086  # several words
    run "the $proof_side's proof, $proof_name, to $proof_whose" env GABION_STATS="$work/proof.stats" \
        "$work/malformed" certificates "$proof_side" "$proof_port" "$work/keylog" \
        "$work/$proof_name-$proof_side-$proof_whose" "$proof_stride" $proof_client "$@"
    still() { here "$proof_pid"; }
    check "the server of that is still there" still
    stop "$proof_pid"
}

composite=MLDSA44-ECDSA-P256-SHA256-draft19
issue ml-dsa-root root "$ca" - ML-DSA-44
# Not of the first set: a signature of the right key under the scheme of another set is no answer.
issue ml-dsa localhost "$leaf" ml-dsa-root ML-DSA-65
issue falcon-root root "$ca" - Falcon-512
issue falcon localhost "$leaf" falcon-root Falcon-512
issue slh-dsa-root root "$ca" - ML-DSA-44
issue slh-dsa localhost "$leaf" slh-dsa-root SLH-DSA-SHA2-128f
issue composite-root root "$ca" - "$composite"
issue composite-middle middle "$ca" composite-root "$composite"
issue composite localhost "$leaf" composite-middle EC -pkeyopt group:P-256
cat "$work/composite-middle.crt" >>"$work/composite.crt"

for name in ml-dsa falcon slh-dsa composite; do
    # Signing with SLH-DSA takes ten times as long as a connection of the others.
    step=$stride
    [ "$name" != slh-dsa ] || step=$((stride * 70))
    for side in server client; do
        proof "$side" "$name" ours "$step"
        [ "$name" = ml-dsa ] || continue
        proof "$side" "$name" stock "$step"
        check "OpenSSL alone gives the same alerts to the $side's proof, $name" \
            cmp "$work/$name-$side-ours" "$work/$name-$side-stock"
    done
done
proved() {
    for row in "ML-DSA-65 sign" "ML-DSA-65 verify" "ML-DSA-44 verify" "Falcon-512 sign" "Falcon-512 verify" \
        "SLH-DSA-SHA2-128f verify" "$composite verify"; do
        [ "$(counter "$work/proof.stats" "${row% *}" "${row#* }" calls)" -gt 10 ] || {
            echo "$row"
            return 1
        }
    done
}
check "it was Gabion that signed and verified" proved
served() {
    for group in $groups $private; do
        # Of a group of ML-KEM alone it is the KEM that is counted.
        row=$(echo "$group" | sed 's/^MLKEM\([0-9]*\)$/ML-KEM-\1/')
        [ "$(counter "$work/stats" "$row" encaps calls)" -gt 0 ] || {
            echo "$row"
            return 1
        }
    done
}
check "it was Gabion" served
result
