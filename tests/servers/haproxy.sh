#!/bin/sh
# HAProxy, the distribution's and one that was built against the bundle, with ssl-mode-async, over the
# bundle's libssl with Gabion, whose jobs pause: every group with ML-DSA-65, the counters, many connections at
# once, and requests through reloads of its workers; certificates of other algorithms, two at once, and HAProxy
# as a client of servers (`server ... ssl`) with every group. Prints "N passed, N failed" and exits 0 only when
# none failed. `tests/servers/haproxy.sh [--fetch] [distribution | built]`: tests/servers/programs.

set -eu
cd "$(dirname "$0")/../.."
. tests/servers/programs
each_program haproxy "$@"
. tests/servers/common
. tests/servers/one-certificate

haproxy=$built
libraries='liblua5.3-0 libopentracing-c-wrapper0 libopentracing1'
# shellcheck disable=SC2086  # several words
[ "$program" = built ] || haproxy=$(distribution haproxy /usr/sbin/haproxy $libraries) || {
    echo "skipped: $haproxy"
    echo "0 passed, 0 failed"
    exit 0
}
# Where it was unpacked, its libraries lie beside it; `gabion exec` keeps what is in the path.
[ "$program" = built ] ||
    LD_LIBRARY_PATH=$(distribution_libraries "${haproxy%/usr/sbin/haproxy}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
build_load
ours "$haproxy" -vv | grep -E '^HAProxy version|with OpenSSL|on OpenSSL'

groups='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024 MLKEM512 MLKEM768 MLKEM1024'
groups="$groups SecP256r1MLKEM512 SecP384r1MLKEM768 SecP521r1MLKEM1024 MLKEM512X25519"
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

# Connections one by one pause now and then, to see whether others have come.
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

# ---- Other certificates, two on one line, and HAProxy as a client.

pem() { cat "$1.crt" "$1.key" >"$1.pem"; }
name_of() { echo "$1.test" | tr '[:upper:]' '[:lower:]'; }

# HAProxy before 2.9 has no word for the groups of a server line: they are OpenSSL's, whose default has X25519MLKEM768
# and none of the others. Later ones have `curves`, if they were built with an OpenSSL that has it.
openssl_configuration() {
    cat <<END
.include $prefix/ssl/openssl-gabion.cnf
[gabion_init]
ssl_conf = tls
[tls]
system_default = tls_defaults
[tls_defaults]
Groups = $(echo "$groups" | tr ' ' ':')
END
}

# other_certificates  one of each by its name, two by the same, and a client's
other_certificates() {
    for signature in $others; do certificate "$signature" "$(name_of "$signature")" "$work/$signature"; done
    certificate ML-DSA-65 dual.test "$work/dual-new"
    certificate ECDSA-P-256 dual.test "$work/dual-old"
    certificate ML-DSA-44 client.test "$work/client"
    certificate ML-DSA-44 client.test "$work/stranger"
    for file in $others dual-new dual-old client stranger; do pem "$work/$file"; done
}

# backend NAME GROUP FILES  passes requests on to the server with that group, if the root in FILES signed
# for it
backend() {
    curves=
    [ "$program" = distribution ] || curves=" curves $2"
    cat <<END
backend $1
    server one unix@$work/$2.sock ssl ssl-min-ver TLSv1.3 verify required ca-file $3 sni str($name) verifyhost $name$curves
END
}

# other_configuration  certificates by name; two at once; and, behind a frontend without TLS, servers with one group
# each, which ask for a client's certificate
other_configuration() {
    crts=
    for signature in $others; do crts="$crts crt $work/$signature.pem"; done
    cat <<END
global
    nbthread 2
    tune.ssl.cachesize 0
    log stderr local0 err
defaults
    mode http
    http-reuse never
    retries 0
    timeout connect 5s
    timeout client 20s
    timeout server 20s
frontend named
    bind 127.0.0.1:$named_port ssl$crts ssl-min-ver TLSv1.3 no-tls-tickets curves X25519MLKEM768
    http-request return status 200 content-type text/plain lf-string "%[ssl_fc_protocol]\n"
frontend dual
    bind 127.0.0.1:$dual_port ssl crt $work/dual-new.pem crt $work/dual-old.pem ssl-min-ver TLSv1.3 curves X25519MLKEM768
    http-request return status 200 content-type text/plain lf-string "%[ssl_fc_protocol]\n"
frontend front
    bind 127.0.0.1:$front_port
    use_backend %[path,field(2,/)]
frontend servers
$(for group in $groups; do
        echo "    bind unix@$work/$group.sock ssl crt $work/server.pem ssl-min-ver TLSv1.3 curves $group" \
            "verify required ca-file $work/client.crt"
    done)
    http-request return status 200 content-type text/plain lf-string "%[ssl_fc_protocol] %[ssl_c_s_dn]\n"
END
    for group in $groups; do backend "$group" "$group" "$work/server.crt crt $work/client.pem"; done
    backend nobody X25519MLKEM768 "$work/server.crt"
    backend stranger X25519MLKEM768 "$work/server.crt crt $work/stranger.pem"
    backend untrusted X25519MLKEM768 "$work/dual-new.crt crt $work/client.pem"
}

# named SIGNATURE  the certificate that the name chooses
named() {
    ours "$work/load" --port "$named_port" --ca "$work/$1.crt" --name "$(name_of "$1")" --count "$each" \
        >"$work/load.json" && [ "$(member signature "$work/load.json")" = "$(scheme "$1")" ]
}

# dual SCHEME ROOT [OPTION...]  which of two certificates s_client with these options is shown. It offers TLS 1.2, too:
# HAProxy 2.6 looks for ECDSA among the cipher suites of that version.
dual() {
    dual_scheme=$1
    root=$2
    shift 2
    asks_for X25519MLKEM768 "$dual_port" dual.test "$root" ours "$@" &&
        grep -q "^Signature type: $dual_scheme\$" "$work/s_client.out"
}

# passed_on PATH STATUS  (or a pattern of it) what the frontend without TLS answers
passed_on() {
    passed_status=$(curl -sS -o "$work/curl.out" -w '%{http_code}' "http://127.0.0.1:$front_port/$1")
    # shellcheck disable=SC2254  # a pattern
    case $passed_status in $2) ;; *) echo "status $passed_status" && return 1 ;; esac
    cat "$work/curl.out"
    [ "$2" != 200 ] || [ "$(cat "$work/curl.out")" = "TLSv1.3 /CN=client.test" ]
}

# Signatures that nothing else makes here, and as a client one decapsulation of each group at least.
others_counted() {
    "$gabion" doctor --stats "$work/stats"
    for operation in 'ML-DSA-87 sign' 'SLH-DSA-SHA2-128f sign' 'Falcon-512 sign' 'ML-DSA-44 sign' 'ML-DSA-65 verify'; do
        # shellcheck disable=SC2086  # two words
        [ "$(counter "$work/stats" $operation calls)" -gt 0 ] || return
    done
    for group in $groups; do
        algorithm=$(echo "$group" | sed 's/^MLKEM\([0-9]*\)$/ML-KEM-\1/')
        [ "$(counter "$work/stats" "$algorithm" decaps calls)" -gt 0 ] || return
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
dual_port=$(free_port)
front_port=$(free_port)
name=$host # The function that makes certificates sets it, too.
other_certificates
other_configuration >"$work/others.cfg"
openssl_configuration >"$work/groups.cnf"
GABION_TLS_DRAFT_SIGNATURES=1
GABION_STATS=$work/stats
export GABION_TLS_DRAFT_SIGNATURES GABION_STATS
[ "$program" = built ] || export GABION_OPENSSL_CONF="$work/groups.cnf"
rm -f "$work/stats"
check "HAProxy starts with other certificates" start "$work/others.cfg" "$named_port"
unset GABION_STATS GABION_OPENSSL_CONF
for signature in $others; do
    check "X25519MLKEM768 with $signature" named "$signature"
done
check "of two certificates ML-DSA for who has no other" dual mldsa65 "$work/dual-new.crt" -sigalgs mldsa65
check "and ECDSA for who has no ML-DSA" dual ecdsa_secp256r1_sha256 "$work/dual-old.crt" \
    -sigalgs ecdsa_secp256r1_sha256
check "and for who has both" dual ecdsa_secp256r1_sha256 "$work/dual-old.crt"
for group in $groups; do
    check "a server behind it with $group" passed_on "$group" 200
done
check "a server of another root is not trusted" passed_on untrusted 503
# The server refuses after the handshake is over for its client: that has sent the request by then, or not.
check "no certificate is refused" passed_on nobody '50[23]'
check "a stranger's certificate is refused" passed_on stranger '50[23]'
check "the provider counted them" others_counted
result || {
    tail -n 40 "$work/haproxy.log"
    exit 1
}
