#!/bin/sh
# Tries six programs that use the system's OpenSSL, and prints `works NAME` or `broken NAME` for each: openssl, apt over
# https, sshd with a login, nginx with a reload and a restart, Python and curl with a TLS request. The server that four of
# them ask runs elsewhere, at port 9443 (server.py). Fails if a program is broken.
set -u
# A server of this host, or the command that asks it, never returns if a provider hangs.
limit='timeout --kill-after=2 30'
url=https://localhost:9443
folder=/tmp/programs/${1-}
mkdir -p "$folder"
cd "$folder" || exit 1

try_openssl() {
    openssl version
    echo Gabion | openssl dgst -sha256 -r | grep -q '^[0-9a-f]\{64\} '
    openssl genpkey -algorithm EC -pkeyopt group:P-256 -out p256.pem
    openssl s_client -connect localhost:9443 -CAfile /host/cert.pem -verify_return_error -brief </dev/null
}

# The lists, and a package of the repository, whose hash apt compares.
try_apt() {
    mkdir -p lists/partial archives/partial
    echo "deb [trusted=yes] $url/ ./" >sources.list
    set -- -q -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists" \
        -o Dir::Cache="$folder" -o Acquire::https::CAInfo=/host/cert.pem -o APT::Sandbox::User=root -o Acquire::Retries=0 -o Acquire::Languages=none
    apt-get "$@" -o APT::Update::Error-Mode=any update
    apt-get "$@" download marker
    test -s marker_1_all.deb
}

# Without PAM, which asks for services that a root has not.
try_sshd() {
    mkdir -p /run/sshd
    ssh-keygen -q -t ed25519 -N '' -f login
    ssh-keygen -q -t rsa -N '' -f host
    set -- -o HostKey="$folder/host" -o ListenAddress=127.0.0.1 -o Port=2222 -o PidFile="$folder/sshd.pid" -o UsePAM=no \
        -o AuthorizedKeysFile="$folder/login.pub" -o StrictModes=no -o PermitRootLogin=yes
    /usr/sbin/sshd -t "$@"
    /usr/sbin/sshd -E "$folder/sshd.log" "$@"
    wait_for sshd.pid
    said=$(ssh -i login -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -o BatchMode=yes root@127.0.0.1 echo welcome) ||
        { cat sshd.log; exit 1; }
    test "$said" = welcome
}

try_nginx() {
    cat >nginx.conf <<END
daemon on; pid $folder/nginx.pid; error_log $folder/nginx.log; worker_processes 2;
events { }
http {
    access_log off;
    server { listen 127.0.0.1:8443 ssl; ssl_certificate /host/cert.pem; ssl_certificate_key /host/key.pem;
             location / { return 200 alive; } }
}
END
    nginx -t -c "$folder/nginx.conf"
    nginx -c "$folder/nginx.conf"
    ask_nginx
    nginx -c "$folder/nginx.conf" -s reload
    ask_nginx
    nginx -c "$folder/nginx.conf" -s quit
    for _ in 1 2 3 4 5 6 7 8 9 10; do [ ! -e nginx.pid ] || sleep 0.2; done
    nginx -c "$folder/nginx.conf"
    ask_nginx
}

ask_nginx() {
    wait_for nginx.pid
    printf 'GET / HTTP/1.0\r\n\r\n' |
        openssl s_client -connect localhost:8443 -CAfile /host/cert.pem -verify_return_error -quiet >answer 2>said || true
    grep -q alive answer || { cat said nginx.log; exit 1; }
}

wait_for() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        [ ! -s "$1" ] || return 0
        sleep 0.1
    done
    echo "$1 did not appear"
    exit 1
}

# By a user who may not read what root alone may.
as_nobody='setpriv --reuid nobody --regid nogroup --clear-groups'

try_python() {
    $as_nobody python3 -c "import ssl, urllib.request
context = ssl.create_default_context(cafile='/host/cert.pem')
assert urllib.request.urlopen('$url/alive', context=context).read() == b'alive'"
}

try_curl() {
    test "$($as_nobody curl -sS --cacert /host/cert.pem "$url/alive")" = alive
}

if [ $# -eq 1 ]; then
    set -e
    "try_$1"
    exit
fi
status=0
for program in openssl apt sshd nginx python curl; do
    if $limit sh "$0" $program >$program.log 2>&1; then
        echo "works $program"
    else
        status=1
        echo "broken $program"
        tail -n 12 $program.log | sed 's/^/    /'
    fi
    for pid in $program/*.pid; do [ ! -s "$pid" ] || kill "$(cat "$pid")" 2>/dev/null; done
done
rm -rf "$folder"
exit $status
