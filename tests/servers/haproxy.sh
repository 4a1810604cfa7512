#!/bin/sh
# HAProxy of the distribution, with ssl-mode-async, over the bundle's libssl with Gabion, whose jobs pause:
# every group with ML-DSA-65, the counters, many connections at once, and requests through reloads of its
# workers. Prints "N passed, N failed" and exits 0 only when none failed.

set -eu
cd "$(dirname "$0")/../.."
. tests/servers/common
. tests/servers/one-certificate

haproxy=$(distribution haproxy /usr/sbin/haproxy) || {
    echo "skipped: $haproxy"
    exit 0
}
build_load
"$haproxy" -v | head -n 1

groups='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024 MLKEM512 MLKEM768 MLKEM1024'
each=5 # handshakes of a group
host=server.test
port=$(free_port)
certificate ML-DSA-65 "$host" "$work/server"
cat "$work/server.crt" "$work/server.key" >"$work/server.pem"
cat >"$work/haproxy.cfg" <<END
global
    ssl-mode-async
    nbthread 2
    tune.ssl.cachesize 0
    log stderr local0 err
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
frontend https
    bind 127.0.0.1:$port ssl crt $work/server.pem ssl-min-ver TLSv1.3 no-tls-tickets curves $(echo "$groups" | tr ' ' ':') ciphersuites TLS_AES_128_GCM_SHA256
    http-request return status 200 content-type text/plain lf-string "%[ssl_fc_protocol] %[ssl_fc_cipher]\n"
END

start() {
    GABION_ASYNC_JOBS=1 "$gabion" exec -- "$haproxy" -W -f "$work/haproxy.cfg" -p "$work/haproxy.pid" \
        >"$work/haproxy.log" 2>&1 &
    master=$!
    started="$started $master"
    listening "$port"
}

# Connections one by one pause now and then, to see whether company has come.
paused() { [ "$(counter "$work/stats" '.*' paused calls)" -gt 0 ]; }

# Many at once, most of which pause; more than one connection has to wait for another's descriptor.
crowd() {
    load --threads 32 --count 2000
    cat "$work/load.json"
    "$gabion" doctor --stats "$work/stats"
    [ "$(member failed "$work/load.json")" -eq 0 ] && [ "$(member connections "$work/load.json")" -eq 2000 ] &&
        [ "$(counter "$work/stats" '.*' '.*' errors)" -eq 0 ]
}

# The option is on: OpenSSL then runs handshakes on the small stacks of its asynchronous jobs.
is_async() { "$gabion" exec -- "$haproxy" -c -f "$work/haproxy.cfg" && grep -q ssl-mode-async "$work/haproxy.cfg"; }

# USR2 makes the master start new workers, which take the listening sockets over.
reloads() {
    load --threads 4 --seconds 5 &
    load_pid=$!
    for _ in 1 2 3; do
        sleep 1
        kill -USR2 "$master"
    done
    status=0
    wait "$load_pid" || status=$?
    cat "$work/load.json"
    [ "$status" -eq 0 ] && [ "$(member failed "$work/load.json")" -eq 0 ] &&
        [ "$(member connections "$work/load.json")" -gt 50 ]
}

GABION_STATS=$work/stats
export GABION_STATS
check "HAProxy takes the configuration" is_async
rm -f "$work/stats" # The check has loaded the provider, too.
check "HAProxy starts" start
unset GABION_STATS
for group in $groups; do
    check "$group with ML-DSA-65" handshakes "$group"
done
check "the provider counted them" counted
check "asynchronous jobs paused" paused
check "many connections at once" crowd
check "reloads under load lose no request" reloads
result || {
    tail -n 20 "$work/haproxy.log"
    exit 1
}
