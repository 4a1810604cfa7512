#!/bin/sh
# nginx over the bundle's libssl with Gabion, the distribution's and one that was built against the bundle:
# every group with every ML-DSA, that it was Gabion who worked, requests through reloads, workers that were
# forked, and what the pages say about the environment; certificates of other algorithms, two at once, a
# client's, and nginx as a client of another server (proxy_ssl). Prints "N passed, N failed" and exits 0
# only when none failed. `tests/servers/nginx.sh [--fetch] [distribution | built]`: tests/servers/programs.

set -eu
cd "$(dirname "$0")/../.."
. tests/servers/programs
each_program nginx "$@"
. tests/servers/common

nginx=$built
[ "$program" = built ] || nginx=$(distribution nginx /usr/sbin/nginx) || {
    echo "skipped: $nginx"
    echo "0 passed, 0 failed"
    exit 0
}
build_load
ours "$nginx" -V 2>&1 | head -n 3

groups='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024 MLKEM512 MLKEM768 MLKEM1024'
groups="$groups SecP256r1MLKEM512 SecP384r1MLKEM768 SecP521r1MLKEM1024 MLKEM512X25519"
signatures='ML-DSA-44 ML-DSA-65 ML-DSA-87'
# With one group: the first two have no settled codepoint, and TLS has none for composites, which sign
# certificates.
others='SLH-DSA-SHA2-128f Falcon-512 ECDSA-P-256'
composite=MLDSA44-ECDSA-P256-SHA256-draft19
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

# configure FILE SERVERS  writes a configuration for two workers, with server blocks from the file SERVERS
configure() {
    cat >"$1" <<END
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
    # With a question mark a group may be missing: the FIPS provider has no private ones, and no X25519.
    ssl_ecdh_curve $(echo "$groups" | sed 's/ /:?/g'):?X25519;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384;
    ssl_conf_command Options ServerPreference;
    ssl_session_tickets off;
$(cat "$2")
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
        [ "$(member signature "$work/load.json")" = "$(scheme "$1")" ] &&
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
loaded_once() { "$gabion" doctor --stats "$work/stats" | tee "$work/once" && grep -q 'loaded 1 time$' "$work/once"; }

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

# curl_asks GROUP  HTTPS by somebody else's client, over the same libssl; the server says what was offered.
curl_asks() {
    name=$(host ML-DSA-65)
    ours curl -sS --cacert "$work/ML-DSA-65.crt" --resolve "$name:$port:127.0.0.1" --curves "$1" \
        "https://$name:$port/" | tee "$work/curl.out" &&
        [ "$(cat "$work/curl.out")" = "TLSv1.3 $(codepoint "$1")" ]
}

# s_client_asks GROUP
s_client_asks() {
    asks_for "$1" "$port" "$(host ML-DSA-65)" "$work/ML-DSA-65.crt" &&
        grep -q '^Signature type: mldsa65' "$work/s_client.out"
}

# ---- Other certificates, two of them, a client's, and nginx as a client.

# A leaf of ECDSA that a composite root has signed.
composite_chain() {
    certificate "$composite" root "$work/composite-root" &&
        ours openssl req -x509 -newkey EC -pkeyopt group:P-256 -nodes -keyout "$work/composite.key" \
            -out "$work/composite.crt" -CA "$work/composite-root.crt" -CAkey "$work/composite-root.key" \
            -days 30 -subj /CN=composite.test -addext subjectAltName=DNS:composite.test \
            -addext basicConstraints=critical,CA:FALSE -addext keyUsage=critical,digitalSignature &&
        chmod 644 "$work/composite.key"
}

# other_servers  server blocks: those certificates by name; two at once; one that asks clients for a
# certificate; and, without TLS, one that passes requests on to it, by a location for each group.
other_servers() {
    for signature in $others composite; do server "$signature"; done
    cat <<END
    server {
        listen 127.0.0.1:$dual_port ssl;
        ssl_certificate $work/dual-new.crt;
        ssl_certificate_key $work/dual-new.key;
        ssl_certificate $work/dual-old.crt;
        ssl_certificate_key $work/dual-old.key;
        location / { return 200 "\$ssl_protocol \$ssl_curves\n"; }
    }
    server {
        listen 127.0.0.1:$mutual_port ssl;
        ssl_certificate $work/ML-DSA-65.crt;
        ssl_certificate_key $work/ML-DSA-65.key;
        ssl_verify_client on;
        ssl_client_certificate $work/client.crt;
        location / { return 200 "\$ssl_client_verify \$ssl_client_s_dn \$ssl_curves\n"; }
    }
    server {
        listen 127.0.0.1:$front_port;
        proxy_ssl_protocols TLSv1.3;
        proxy_ssl_session_reuse off;
        proxy_ssl_verify on;
        proxy_ssl_name $(host ML-DSA-65);
        proxy_ssl_server_name on;
        proxy_ssl_trusted_certificate $work/ML-DSA-65.crt;
        proxy_ssl_certificate $work/client.crt;
        proxy_ssl_certificate_key $work/client.key;
$(for group in $groups; do
        echo "        location /$group {"
        echo "            proxy_pass https://127.0.0.1:$mutual_port/;"
        echo "            proxy_ssl_conf_command Groups $group;"
        echo "        }"
    done)
        location /untrusted {
            proxy_pass https://127.0.0.1:$mutual_port/;
            proxy_ssl_trusted_certificate $work/ML-DSA-87.crt;
        }
        location /nobody {
            proxy_pass https://127.0.0.1:$mutual_port/;
            proxy_ssl_certificate $work/stranger.crt;
            proxy_ssl_certificate_key $work/stranger.key;
        }
    }
END
}

# loaded SCHEME PORT NAME CA OPTION...  connections, and that this scheme was negotiated
loaded() {
    wanted_scheme=$1
    set_port=$2
    set_name=$3
    set_ca=$4
    shift 4
    ours "$work/load" --port "$set_port" --name "$set_name" --ca "$set_ca" --count "$each" "$@" \
        >"$work/load.json" || return
    cat "$work/load.json"
    [ "$(member signature "$work/load.json")" = "$wanted_scheme" ]
}

# A client of before: the distribution's curl over its own libssl, by the names of both certificates. Where that
# libssl lacks ML-DSA only the ECDSA one will do.
old_client_asks() {
    cat "$work/dual-new.crt" "$work/dual-old.crt" >"$work/dual.crt"
    env -u LD_LIBRARY_PATH -u OPENSSL_CONF curl -sS --cacert "$work/dual.crt" \
        --resolve "dual.test:$dual_port:127.0.0.1" "https://dual.test:$dual_port/"
}

# mutual OPTION...  connections to the server that asks for a certificate
mutual() { loaded mldsa65 "$mutual_port" "$(host ML-DSA-65)" "$work/ML-DSA-65.crt" "$@"; }

# refused OPTION...  nginx finishes the handshake, and answers that the certificate will not do.
refused() {
    name=$(host ML-DSA-65)
    ours curl -sS --cacert "$work/ML-DSA-65.crt" --resolve "$name:$mutual_port:127.0.0.1" "$@" \
        -o "$work/curl.out" -w '%{http_code}' "https://$name:$mutual_port/" >"$work/curl.code"
    cat "$work/curl.out"
    [ "$(cat "$work/curl.code")" = 400 ]
}

# passed_on GROUP  a request that nginx passes on: the server behind it saw this group alone, and the client.
passed_on() {
    curl -sS "http://127.0.0.1:$front_port/$1" | tee "$work/curl.out"
    [ "$(cat "$work/curl.out")" = "SUCCESS CN=client.test $(codepoint "$1")" ]
}

# answers PATH STATUS  what the front says where the connection behind it must not be
answers() { [ "$(curl -sS -o "$work/curl.out" -w '%{http_code}' "http://127.0.0.1:$front_port$1")" = "$2" ]; }

# Operations that only these have: signatures of the others, and as a client, of which nothing else is in
# these processes, decapsulations and a signature for each connection of the proxy.
others_counted() {
    "$gabion" doctor --stats "$work/stats"
    for signature in SLH-DSA-SHA2-128f Falcon-512; do
        [ "$(counter "$work/stats" "$signature" sign calls)" -ge "$each" ] || return
    done
    [ "$(counter "$work/stats" '.*' decaps calls)" -ge "$(echo "$groups" | wc -w)" ] &&
        [ "$(counter "$work/stats" ML-DSA-44 sign calls)" -ge "$(echo "$groups" | wc -w)" ] &&
        [ "$(counter "$work/stats" '.*' '.*' errors)" -eq 0 ]
}

# The commands of docs/guide/servers.md as they stand there, but for the port.
page_works() {
    mkdir -p "$work/page" "$work/bin"
    ln -sf "$gabion" "$work/bin/gabion"
    page_port=$(free_port)
    sed -n '/^<!-- tests\/servers\/nginx.sh/,/^The answer/s/^    //p' docs/guide/servers.md |
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
for signature in $signatures; do server "$signature"; done >"$work/servers"
configure "$work/nginx.conf" "$work/servers"
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
for group in $groups; do
    check "s_client asks for $group" s_client_asks "$group"
    check "curl asks for $group" curl_asks "$group"
done
check "reloads under load lose no request" reloads
check "every request was Gabion's" every_request_was_ours
check "a worker that is killed is replaced" worker_killed
check "nginx stops" run_nginx "$work/nginx.conf" -s quit
stop "$master"
check "GABION_BACKEND reaches the workers" environment_reaches_workers
check "master and workers are seen in FIPS mode only" seen_in only 0
check "and not in mode off" seen_in off 1
check "the commands of the page" page_works

dual_port=$(free_port)
mutual_port=$(free_port)
front_port=$(free_port)
for signature in $others; do
    certificate "$signature" "$(host "$signature")" "$work/$signature"
done
composite_chain >"$work/openssl.log" 2>&1 || cat "$work/openssl.log"
certificate ML-DSA-65 dual.test "$work/dual-new"
certificate ECDSA-P-256 dual.test "$work/dual-old"
certificate ML-DSA-44 client.test "$work/client"
certificate ML-DSA-44 client.test "$work/stranger"
other_servers >"$work/servers"
configure "$work/others.conf" "$work/servers"
# Both sides have the switch; nginx's workers get it by the provider that the master loaded.
GABION_TLS_DRAFT_SIGNATURES=1
GABION_STATS=$work/stats
export GABION_TLS_DRAFT_SIGNATURES GABION_STATS
rm -f "$work/stats"
check "nginx starts with other certificates" start "$work/others.conf"
unset GABION_STATS
for signature in $others; do
    check "X25519MLKEM768 with $signature" handshakes "$signature" X25519MLKEM768
done
check "ECDSA P-256 below a composite root" \
    loaded ecdsa_secp256r1_sha256 "$port" composite.test "$work/composite-root.crt"
check "of two certificates ML-DSA for who has it" loaded mldsa65 "$dual_port" dual.test "$work/dual-new.crt"
check "and ECDSA for who has not" loaded ecdsa_secp256r1_sha256 "$dual_port" dual.test \
    "$work/dual-old.crt" --sigalgs ecdsa_secp256r1_sha256
check "curl over the distribution's OpenSSL" old_client_asks
check "a client's certificate of ML-DSA" mutual --cert "$work/client.crt" --key "$work/client.key"
check "no certificate is refused" refused
check "a stranger's certificate is refused" refused --cert "$work/stranger.crt" --key "$work/stranger.key"
for group in $groups; do
    check "proxy_ssl with $group" passed_on "$group"
done
check "proxy_ssl trusts no other root" answers /untrusted 502
check "proxy_ssl with a stranger's certificate is refused" answers /nobody 400
check "the provider counted them" others_counted
check "nginx with other certificates stops" run_nginx "$work/others.conf" -s quit
stop "$master"
result || {
    tail -n 20 "$work/error.log"
    exit 1
}
