#!/bin/sh
# Whole handshakes of a scripted client with Gabion's server: hybrid key shares changed before and after
# a retry, mislabelled, missing, doubled or of another key, extensions missing or in another order,
# records in pieces, and Finished changed. Each outcome has to be the one that RFC 8446 names, and what
# OpenSSL's own code does. Prints "N passed, N failed" and exits 0 only when none failed.
#
#   tests/interop/scripted.sh            with tlslite-ng where it is in the cache; else it says so
#   tests/interop/scripted.sh --fetch    gets tlslite-ng from PyPI first, into ~/.cache/gabion

set -eu
cd "$(dirname "$0")/../.."
python=${XDG_CACHE_HOME:-$HOME/.cache}/gabion/interop/tlslite/bin/python
why="is not in ${python%/bin/python}; --fetch gets it"
if [ "${1:-}" = --fetch ] && ! "$python" -c 'import tlslite, kyber_py, dilithium_py' 2>/dev/null; then
    log=$(mktemp)
    {
        python3 -m venv "${python%/bin/python}" &&
            "$python" -m pip install --quiet tlslite-ng==0.9.0b2 kyber-py==1.2.0 dilithium-py==1.5.1
    } >"$log" 2>&1 || {
        cat "$log" >&2
        why="could not be fetched; that takes Python 3 with venv and pip (apt-get install python3-venv)"
    }
    rm -f "$log"
fi
"$python" -c 'import tlslite, kyber_py, dilithium_py' 2>/dev/null || {
    echo "skipped: tlslite-ng $why"
    echo "0 passed, 0 failed"
    exit 0
}
. tests/servers/common

groups='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024'
list=$(echo "$groups" | tr ' ' ':')
cc -std=gnu11 -O2 -Wall -Wextra -Werror -I "$prefix/include" tests/interop/openssl/peer.c \
    -L "$prefix/lib" -Wl,-rpath,"$prefix/lib" -lssl -lcrypto -o "$work/peer"
certificate ML-DSA-65 localhost "$work/server"

# server PORT COMMAND...  starts the peer as a server, by way of COMMAND
server() {
    server_port=$1
    shift
    "$@" "$work/peer" server "$server_port" "$work/server.crt" "$work/server.key" "$list" \
        2>>"$work/server.log" &
    started="$started $!"
    listening "$server_port"
}
port=$(free_port)
server "$port" env GABION_STATS="$work/stats" "$gabion" exec --
reference=$(free_port)
server "$reference" env OPENSSL_CONF=/dev/null

for group in $groups; do
    check "scripted handshakes, $group" \
        "$python" tests/interop/tlslite/script.py "$port" "$reference" "$group"
    tail -n 1 "$work/check.log"
done
served() {
    [ "$(counter "$work/stats" '.*' encaps calls)" -gt 0 ] &&
        [ "$(counter "$work/stats" '.*' sign calls)" -gt 0 ]
}
check "it was Gabion" served
result
