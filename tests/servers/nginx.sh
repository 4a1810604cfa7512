#!/bin/sh
# nginx of the distribution over the bundle's libssl with Gabion: every group with every ML-DSA, that
# it was Gabion who worked, requests through reloads, workers that were forked, and what the pages say
# about the environment. Prints "N passed, N failed" and exits 0 only when none failed.

set -eu
cd "$(dirname "$0")/../.."
. tests/servers/common

nginx=$(distribution nginx /usr/sbin/nginx) || {
    echo "skipped: $nginx"
    exit 0
}
build_load
"$nginx" -v 2>&1

groups='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024 MLKEM512 MLKEM768 MLKEM1024'
signatures='ML-DSA-44 ML-DSA-65 ML-DSA-87'
each=5 # handshakes of a group with a signature

# host SIGNATURE  the name that selects its certificate
host() { echo "$1" | tr '[:upper:]' '[:lower:]' | sed 's/$/.test/'; }

# server SIGNATURE  a server block of nginx.conf
server() {
    cat <<END
    server {
        listen 127.0.0.1:$port ssl;
        server_name $(host "$1");
        ssl_certificate $work/$1.crt;
        ssl_certificate_key $work/$1.key;
        location / { return 200 "\$ssl_protocol \$ssl_curves\n"; }
    }
END
}

# configure FILE [LINE]  writes a configuration for two workers; LINE goes before everything.
configure() {
    cat >"$1" <<END
${2:-}
worker_processes 2;
pid $work/nginx.pid;
error_log $work/error.log;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path $work/body;
    proxy_temp_path $work/proxy;
    fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi;
    scgi_temp_path $work/scgi;
    ssl_protocols TLSv1.3;
    ssl_ecdh_curve $(echo "$groups" | tr ' ' ':');
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384;
    ssl_conf_command Options ServerPreference;
    ssl_session_tickets off;
$(for signature in $signatures; do server "$signature"; done)
}
END
}

# run_nginx CONF ARGUMENT...  nginx itself, or a signal to it: both read the certificates.
run_nginx() {
    conf=$1
    shift
    ours "$nginx" -p "$work/" -c "$conf" -e "$work/error.log" "$@"
}

# start CONF  starts nginx as a daemon and waits until it listens.
start() {
    run_nginx "$1" && listening "$port" && master=$(cat "$work/nginx.pid") &&
        started="$started $master"
}

# load SIGNATURE OPTION...  connections with the certificate of SIGNATURE; the object is in load.json.
load() {
    signature=$1
    shift
    ours "$work/load" --port "$port" --ca "$work/$signature.crt" --name "$(host "$signature")" "$@" \
        >"$work/load.json"
}

# handshakes SIGNATURE GROUP  asks for one group, and for what was negotiated to be it.
handshakes() {
    load "$1" --group "$2" --count "$each" || return
    [ "$(member group "$work/load.json")" = "$2" ] &&
        [ "$(member connections "$work/load.json")" -eq "$each" ] &&
        [ "$(member signature "$work/load.json")" = "$(echo "$1" | tr '[:upper:]' '[:lower:]' | tr -d -)" ] &&
        [ "$(member cipher "$work/load.json")" = TLS_AES_128_GCM_SHA256 ]
}

# workers  process numbers of the workers that take connections
workers() {
    for status in /proc/[0-9]*/status; do
        grep -q "^PPid:[[:space:]]$master\$" "$status" 2>/dev/null || continue
        pid=${status#/proc/}
        pid=${pid%/status}
        grep -q 'shutting down' "/proc/$pid/cmdline" 2>/dev/null || echo "$pid"
    done | sort
}

# The counters say what the handshakes above were, and nothing failed in the provider.
counted() {
    "$gabion" doctor --stats "$work/stats"
    expected=$((each * $(echo "$groups" | wc -w)))
    for signature in $signatures; do
        [ "$(counter "$work/stats" "$signature" sign calls)" -eq "$expected" ] || return
    done
    [ "$(counter "$work/stats" '.*' encaps calls)" -eq $((3 * expected)) ] &&
        [ "$(counter "$work/stats" '.*' '.*' errors)" -eq 0 ]
}

# One module in the master, inherited by both workers.
loaded_once() { "$gabion" doctor --stats "$work/stats" | tee "$work/once" && grep -q 'loaded 1 times' "$work/once"; }

# Five reloads while four threads ask: new workers each time, and not one request lost.
reloads() {
    before=$(workers)
    load ML-DSA-65 --threads 4 --seconds 6 &
    load_pid=$!
    for _ in 1 2 3 4 5; do
        sleep 0.9
        run_nginx "$work/nginx.conf" -s reload || return
    done
    status=0
    wait "$load_pid" || status=$?
    cat "$work/load.json"
    after=$(workers)
    echo "workers before: $before; after: $after"
    [ "$status" -eq 0 ] && [ "$(member failed "$work/load.json")" -eq 0 ] &&
        [ "$(member connections "$work/load.json")" -gt 50 ] &&
        [ "$before" != "$after" ] && [ "$(echo "$after" | wc -l)" -eq 2 ]
}

# A killed worker is replaced, and its successor serves.
worker_killed() {
    victim=$(workers | head -n 1)
    kill -KILL "$victim"
    sleep 0.5
    [ "$(workers | wc -l)" -eq 2 ] && ! workers | grep -qx "$victim" &&
        load ML-DSA-87 --count 8
}

# GABION_BACKEND has to reach workers, whose environment nginx empties: a name that no machine has
# makes every handshake fail.
environment_reaches_workers() {
    GABION_BACKEND=none-such start "$work/nginx.conf" || return
    status=0
    load ML-DSA-65 --count 2 || status=$?
    stop "$master"
    echo "status $status"
    [ "$status" -eq 1 ]
}

# seen_in MODE ANSWER  what `preflight --pid` answers of the master and each worker of an nginx that was
# started in MODE: 0 for yes. nginx writes titles over the environments of all of them.
seen_in() {
    GABION_OPENSSL_FIPS_MODE=$1 start "$work/nginx.conf" || return
    wrong=0
    load ML-DSA-65 --count 2 || wrong=1
    for pid in "$master" $(workers); do
        status=0
        "$gabion" preflight --pid "$pid" || status=$?
        [ "$status" -eq "$2" ] || wrong=1
    done
    stop "$master"
    [ "$wrong" -eq 0 ]
}

# HTTPS by somebody else's client, over the same libssl.
curl_asks() {
    name=$(host ML-DSA-65)
    ours curl -sS --cacert "$work/ML-DSA-65.crt" --resolve "$name:$port:127.0.0.1" \
        "https://$name:$port/" | tee "$work/curl.out" && grep -q '^TLSv1.3' "$work/curl.out"
}

s_client_asks() {
    name=$(host ML-DSA-65)
    printf 'GET / HTTP/1.0\r\nHost: %s\r\n\r\n' "$name" |
        ours openssl s_client -connect "127.0.0.1:$port" -servername "$name" -brief -quiet \
            -verify_return_error -verify_hostname "$name" -CAfile "$work/ML-DSA-65.crt" \
            -groups SecP384r1MLKEM1024 >"$work/s_client.out" 2>&1 || true
    cat "$work/s_client.out"
    grep -q '^Negotiated TLS1.3 group: SecP384r1MLKEM1024' "$work/s_client.out" &&
        grep -q '^Signature type: mldsa65' "$work/s_client.out" &&
        grep -q '^HTTP/1.1 200' "$work/s_client.out"
}

# The commands of docs/servers.md as they stand there, but for the port.
page_works() {
    mkdir -p "$work/page" "$work/bin"
    ln -sf "$gabion" "$work/bin/gabion"
    page_port=$(free_port)
    sed -n '/^<!-- tests\/servers\/nginx.sh/,/^The answer/s/^    //p' docs/servers.md |
        sed "s/8443/$page_port/; s|/usr/sbin/nginx|$nginx|" >"$work/page/commands"
    status=0
    (cd "$work/page" && PATH=$work/bin:$PATH sh -eu commands) >"$work/page/out" 2>&1 || status=$?
    cat "$work/page/commands" "$work/page/out"
    [ ! -e "$work/page/nginx.pid" ] || stop "$(cat "$work/page/nginx.pid")"
    [ "$status" -eq 0 ] && grep -q '^TLSv1.3 TLS_AES_128_GCM_SHA256 0x11ec' "$work/page/out" &&
        grep -q '^ML-DSA-65 *sign *1 *0' "$work/page/out"
}

port=$(free_port)
for signature in $signatures; do
    certificate "$signature" "$(host "$signature")" "$work/$signature"
done
configure "$work/nginx.conf"
GABION_STATS=$work/stats
export GABION_STATS
: >"$work/error.log"
# The provider's file exists before nginx starts, so that a client's counters do not mix in.
check "nginx starts" start "$work/nginx.conf"
check "one load for master and workers" loaded_once
unset GABION_STATS
for signature in $signatures; do
    for group in $groups; do
        check "$group with $signature" handshakes "$signature" "$group"
    done
done
check "the provider counted them" counted
check "s_client" s_client_asks
check "curl" curl_asks
check "reloads under load lose no request" reloads
check "every request was Gabion's" every_request_was_ours
check "a worker that is killed is replaced" worker_killed
check "nginx stops" run_nginx "$work/nginx.conf" -s quit
stop "$master"
check "GABION_BACKEND reaches the workers" environment_reaches_workers
check "master and workers are seen in FIPS mode only" seen_in only 0
check "and not in mode off" seen_in off 1
check "the commands of the page" page_works
result || {
    tail -n 20 "$work/error.log"
    exit 1
}
