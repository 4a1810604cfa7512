#!/bin/sh
# Whole handshakes of a scripted client with `openssl s_server` and Gabion, in every group with ML-KEM: key
# shares changed before and after a retry, mislabelled, missing, doubled or of another key, extensions
# missing or in another order, records in pieces, and Finished changed. Each outcome has to be the one
# that RFC 8446 names, and what s_server does without Gabion, where it has the group. Prints "N passed,
# N failed" and exits 0 only when none failed.
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
    # Who asked for it is not to take this for a pass.
    [ "${1:-}" != --fetch ]
    exit
}
. tests/servers/common

groups='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024 MLKEM512 MLKEM768 MLKEM1024'
private='SecP256r1MLKEM512 SecP384r1MLKEM768 SecP521r1MLKEM1024'
certificate ML-DSA-65 localhost "$work/server"

# server WHOSE PORT GROUP...  starts s_server, ours or stock
server() {
    server_whose=$1
    server_port=$2
    shift 2
    "$server_whose" openssl s_server -accept "$server_port" -cert "$work/server.crt" -key "$work/server.key" \
        -groups "$(echo "$@" | tr ' ' ':')" -tls1_3 -rev </dev/null >>"$work/server.log" 2>&1 &
    started="$started $!"
    listening "$server_port"
}
port=$(free_port)
# shellcheck disable=SC2086  # one word for each group
GABION_STATS=$work/stats server ours "$port" $groups $private
reference=$(free_port)
# shellcheck disable=SC2086
server stock "$reference" $groups

for group in $groups $private; do
    other=$reference
    case " $private " in *" $group "*) other=- ;; esac
    check "scripted handshakes, $group" \
        "$python" tests/interop/tlslite/script.py "$port" "$other" "$group"
    tail -n 1 "$work/check.log"
done
served() {
    for group in $groups $private; do
        # Of a group of ML-KEM alone it is the KEM that is counted.
        row=$(echo "$group" | sed 's/^MLKEM\([0-9]*\)$/ML-KEM-\1/')
        [ "$(counter "$work/stats" "$row" encaps calls)" -gt 0 ] || {
            echo "$row"
            return 1
        }
    done
    [ "$(counter "$work/stats" ML-DSA-65 sign calls)" -gt 0 ]
}
check "it was Gabion" served
result
