#!/bin/sh
# Malformed post-quantum key shares, to Gabion's server and to its client: every length, coefficients out
# of range, points off their curve, halves swapped, entries doubled and mislabelled. The server has to
# give the alert that OpenSSL's own code gives, or a better one, and to serve the next connection; the
# client has to give the same alerts. Prints "N passed, N failed" and exits 0 only when none failed.

set -eu
cd "$(dirname "$0")/../.."
. tests/servers/common

groups='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024 MLKEM512 MLKEM768 MLKEM1024'
list=$(echo "$groups" | tr ' ' ':')
build_load
cc -std=gnu11 -O2 -Wall -Wextra -Werror -I "$prefix/include" tests/interop/openssl/peer.c \
    -L "$prefix/lib" -Wl,-rpath,"$prefix/lib" -lssl -lcrypto -o "$work/peer"
(cd tests/interop/malformed && go build -o "$work/malformed" .)
# The cheapest to sign: it is not what is tested here.
certificate ECDSA-P-256 localhost "$work/server"

port=$(free_port)
GABION_STATS=$work/stats "$gabion" exec -- "$work/peer" server "$port" "$work/server.crt" \
    "$work/server.key" "$list" 2>"$work/server.log" &
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

for group in $groups; do
    # Words in braces are for the program.
    set -- "$gabion" exec -- "$work/load" --port '{port}' --ca "$work/server.crt" --count '{count}' \
        --group "$group"
    run "to our server, $group" "$work/malformed" server "$port" "$reference" "$group" "$@"
    run "to our client, $group" "$work/malformed" client "$port" "$work/ours.alerts" "$group" "$@"
    shift 3
    run "to OpenSSL's client, $group" env OPENSSL_CONF=/dev/null LD_LIBRARY_PATH="$prefix/lib" \
        "$work/malformed" client "$port" "$work/stock.alerts" "$group" "$@"
    check "both clients give the same alerts, $group" cmp "$work/ours.alerts" "$work/stock.alerts"
done
served() { [ "$(counter "$work/stats" '.*' encaps calls)" -gt 0 ]; }
check "it was Gabion" served
result
