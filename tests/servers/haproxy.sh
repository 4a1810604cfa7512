#!/bin/sh
# HAProxy of the distribution, with ssl-mode-async, over the bundle's libssl with Gabion, whose jobs pause:
# every group with ML-DSA-65, the counters, many connections at once, and requests through reloads of its
# workers; certificates of other algorithms. Prints "N passed, N failed" and exits 0 only when none failed.

set -eu
cd "$(dirname "$0")/../.."
. tests/servers/common
. tests/servers/one-certificate

haproxy=$(distribution haproxy /usr/sbin/haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1) || {
    echo "skipped: $haproxy"
    exit 0
}
# Where it was unpacked, its libraries lie beside it; `gabion exec` keeps what is in the path.
LD_LIBRARY_PATH=$(distribution_libraries "${haproxy%/usr/sbin/haproxy}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
build_load
"$haproxy" -v | head -n 1

groups='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024 MLKEM512 MLKEM768 MLKEM1024'
groups="$groups SecP256r1MLKEM512 SecP384r1MLKEM768 SecP521r1MLKEM1024"
# The third and fourth have no settled codepoint and a switch.
others='ML-DSA-44 ML-DSA-87 SLH-DSA-SHA2-128f Falcon-512 ECDSA-P-256'
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

# start CONF PORT  starts HAProxy and waits until it listens
start() {
    GABION_ASYNC_JOBS=1 "$gabion" exec -- "$haproxy" -W -f "$1" -p "$work/haproxy.pid" \
        >"$work/haproxy.log" 2>&1 &
    master=$!
    started="$started $master"
    listening "$2"
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

# ---- Other certificates.

pem() { cat "$1.crt" "$1.key" >"$1.pem"; }
name_of() { echo "$1.test" | tr '[:upper:]' '[:lower:]'; }

# other_configuration  certificates by name
other_configuration() {
    for signature in $others; do certificate "$signature" "$(name_of "$signature")" "$work/$signature"; done
    crts=
    for file in $others; do pem "$work/$file"; done
    for signature in $others; do crts="$crts crt $work/$signature.pem"; done
    cat <<END
global
    nbthread 2
    tune.ssl.cachesize 0
    log stderr local0 err
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
frontend named
    bind 127.0.0.1:$named_port ssl$crts ssl-min-ver TLSv1.3 no-tls-tickets curves X25519MLKEM768
    http-request return status 200 content-type text/plain lf-string "%[ssl_fc_protocol]\n"
END
}

# named SIGNATURE  the certificate that the name chooses
named() {
    ours "$work/load" --port "$named_port" --ca "$work/$1.crt" --name "$(name_of "$1")" --count "$each" \
        >"$work/load.json" && [ "$(member signature "$work/load.json")" = "$(scheme "$1")" ]
}

# Signatures that nothing else makes here.
others_counted() {
    "$gabion" doctor --stats "$work/stats"
    for operation in 'ML-DSA-87 sign' 'SLH-DSA-SHA2-128f sign' 'Falcon-512 sign'; do
        # shellcheck disable=SC2086  # two words
        [ "$(counter "$work/stats" $operation calls)" -gt 0 ] || return
    done
    [ "$(counter "$work/stats" '.*' '.*' errors)" -eq 0 ]
}

GABION_STATS=$work/stats
export GABION_STATS
check "HAProxy takes the configuration" is_async
rm -f "$work/stats" # The check has loaded the provider, too.
check "HAProxy starts" start "$work/haproxy.cfg" "$port"
unset GABION_STATS
for group in $groups; do
    check "$group with ML-DSA-65" handshakes "$group"
done
check "the provider counted them" counted
check "asynchronous jobs paused" paused
check "many connections at once" crowd
check "reloads under load lose no request" reloads
stop "$master"

named_port=$(free_port)
other_configuration >"$work/others.cfg"
GABION_TLS_DRAFT_SIGNATURES=1
GABION_STATS=$work/stats
export GABION_TLS_DRAFT_SIGNATURES GABION_STATS
rm -f "$work/stats"
check "HAProxy starts with other certificates" start "$work/others.cfg" "$named_port"
unset GABION_STATS
for signature in $others; do
    check "X25519MLKEM768 with $signature" named "$signature"
done
check "the provider counted them" others_counted
result || {
    tail -n 40 "$work/haproxy.log"
    exit 1
}
