#!/bin/sh
# Apache httpd of the distribution over the bundle's libssl with Gabion: every group with ML-DSA-65, clients
# with and without Gabion, that it was Gabion who worked, certificates of other algorithms by name, two at once,
# requests through graceful restarts, and the commands of the page. Prints "N passed, N failed" and exits 0
# only when none failed.

set -eu
cd "$(dirname "$0")/../.."
. tests/servers/common
. tests/servers/one-certificate

apache=$(distribution apache2-bin /usr/sbin/apache2 libapr1 libaprutil1 libexpat1) || {
    echo "skipped: $apache"
    echo "0 passed, 0 failed"
    exit 0
}
# Where it was unpacked, its modules and libraries lie beside it; `gabion exec` keeps what is in the path.
root=${apache%/usr/sbin/apache2}
modules=$root/usr/lib/apache2/modules
LD_LIBRARY_PATH=$(distribution_libraries "$root")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
build_load
"$apache" -v

groups='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024 MLKEM512 MLKEM768 MLKEM1024'
others='ML-DSA-44 ML-DSA-87'
each=5 # handshakes of a group
port=$(free_port)
named_port=$(free_port)
for signature in $others; do certificate "$signature" "$signature.test" "$work/$signature"; done
certificate ML-DSA-65 dual.test "$work/dual-new"
certificate ECDSA-P-256 dual.test "$work/dual-old"
host=server.test
certificate ML-DSA-65 "$host" "$work/server"

# named NAME FILE...  a virtual host with these certificates
named() {
    echo "<VirtualHost 127.0.0.1:$named_port>"
    echo "ServerName $1"
    shift
    echo "SSLEngine on"
    for file in "$@"; do
        echo "SSLCertificateFile $work/$file.crt"
        echo "SSLCertificateKeyFile $work/$file.key"
    done
    echo "</VirtualHost>"
}

mkdir "$work/htdocs"
echo hello >"$work/htdocs/index.html"
{
    for module in mpm_event authz_core dir ssl; do
        echo "LoadModule ${module}_module $modules/mod_$module.so"
    done
    cat <<END
ServerName $host
PidFile $work/httpd.pid
ErrorLog $work/error.log
DefaultRuntimeDir $work
User www-data
Group www-data
StartServers 2
ThreadsPerChild 8
MaxRequestWorkers 32
Listen 127.0.0.1:$port
DocumentRoot $work/htdocs
SSLEngine on
SSLCertificateFile $work/server.crt
SSLCertificateKeyFile $work/server.key
SSLProtocol TLSv1.3
SSLSessionTickets off
SSLHonorCipherOrder on
SSLCipherSuite TLSv1.3 TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384
SSLOpenSSLConfCmd Groups $(echo "$groups" | tr ' ' ':')
Listen 127.0.0.1:$named_port
$(for signature in $others; do named "$signature.test" "$signature"; done)
$(named dual.test dual-new dual-old)
END
} >"$work/httpd.conf"

# run_apache ARGUMENT...  httpd itself, or a signal to it: both read the certificate.
run_apache() { ours "$apache" -d "$work" -f "$work/httpd.conf" "$@"; }

start() {
    run_apache -k start && listening "$port" && master=$(cat "$work/httpd.pid") &&
        started="$started $master"
}

# with_suite GROUP  handshakes, with the suite of the configuration.
with_suite() {
    handshakes "$1" && [ "$(member cipher "$work/load.json")" = TLS_AES_128_GCM_SHA256 ]
}

# asks WITH  s_client by way of WITH (ours or stock): chain and name verified, and one answer.
asks() {
    printf 'GET / HTTP/1.0\r\nHost: %s\r\n\r\n' "$host" |
        "$1" openssl s_client -connect "127.0.0.1:$port" -servername "$host" -brief -quiet \
            -verify_return_error -verify_hostname "$host" -CAfile "$work/server.crt" \
            -groups X25519MLKEM768 >"$work/s_client.out" 2>&1 || true
    cat "$work/s_client.out"
    grep -q '^Negotiated TLS1.3 group: X25519MLKEM768' "$work/s_client.out" &&
        grep -q '^Signature type: mldsa65' "$work/s_client.out" &&
        grep -q '^Verification: OK' "$work/s_client.out" &&
        grep -q '^HTTP/1.1 200' "$work/s_client.out"
}

# shown SCHEME NAME FILE [OPTION...]  what certificate connections by NAME with these options are shown
shown() {
    wanted_scheme=$1
    name=$2
    file=$3
    shift 3
    ours "$work/load" --port "$named_port" --ca "$work/$file.crt" --name "$name" --count "$each" "$@" \
        >"$work/load.json" || return
    cat "$work/load.json"
    [ "$(member signature "$work/load.json")" = "$wanted_scheme" ]
}

# process numbers of the children
children() { sed 's/ /\n/g' "/proc/$master/task/$master/children" | grep . | sort; }

# Five restarts while four threads ask: new children, and not one request lost.
reloads() {
    before=$(children)
    load --threads 4 --seconds 6 &
    load_pid=$!
    for _ in 1 2 3 4 5; do
        sleep 0.9
        run_apache -k graceful || return
    done
    status=0
    wait "$load_pid" || status=$?
    cat "$work/load.json"
    # Old children end when their last connection has.
    after=$(children)
    echo "children before: $before; after: $after"
    [ "$status" -eq 0 ] && [ "$(member failed "$work/load.json")" -eq 0 ] &&
        [ "$(member connections "$work/load.json")" -gt 50 ] &&
        ! echo "$after" | grep -qxF "$before"
}

# The commands of docs/guide/servers.md as they stand there, but for port and paths.
page_works() {
    mkdir -p "$work/page" "$work/bin"
    ln -sf "$gabion" "$work/bin/gabion"
    page_port=$(free_port)
    sed -n '/^<!-- tests\/servers\/apache.sh/,/^The answer/s/^    //p' docs/guide/servers.md |
        sed "s/8443/$page_port/; s|/usr/sbin/apache2|$apache|; s|/usr/lib/apache2|$root/usr/lib/apache2|" \
            >"$work/page/commands"
    chmod 755 "$work/page"
    status=0
    (cd "$work/page" && PATH=$work/bin:$PATH sh -eu commands) >"$work/page/out" 2>&1 || status=$?
    cat "$work/page/commands" "$work/page/out"
    [ ! -e "$work/page/httpd.pid" ] || stop "$(cat "$work/page/httpd.pid")"
    [ "$status" -eq 0 ] && grep -qi '^X-TLS: TLSv1.3 TLS_AES_128_GCM_SHA256' "$work/page/out" &&
        grep -q '^ML-DSA-65 *sign *1 *0' "$work/page/out"
}

GABION_STATS=$work/stats
export GABION_STATS
check "Apache starts" start
unset GABION_STATS
for group in $groups; do
    check "$group with ML-DSA-65" with_suite "$group"
done
check "the provider counted them" counted
check "s_client with Gabion" asks ours
check "s_client of OpenSSL alone" asks stock
for signature in $others; do
    check "X25519MLKEM768 with $signature" shown "$(scheme "$signature")" "$signature.test" "$signature"
done
check "of two certificates ML-DSA for who has it" shown mldsa65 dual.test dual-new
check "and ECDSA for who has not" shown ecdsa_secp256r1_sha256 dual.test dual-old --sigalgs ecdsa_secp256r1_sha256
check "graceful restarts under load lose no request" reloads
check "every request was Gabion's" every_request_was_ours
check "Apache stops" run_apache -k stop
stop "$master"
check "the commands of the page" page_works
result || {
    tail -n 20 "$work/error.log"
    exit 1
}
