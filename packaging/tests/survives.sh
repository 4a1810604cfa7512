#!/bin/sh
# Fails if a program that uses the system's OpenSSL does not work.
set -e
folder=$(mktemp -d)
cd "$folder"
openssl version
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
printf 'daemon on; pid %s/nginx.pid; error_log stderr; events {} http { access_log off; server { listen 127.0.0.1:8443 ssl; ssl_certificate %s/cert.pem; ssl_certificate_key %s/key.pem; location / { return 200 alive; } } }\n' \
    "$folder" "$folder" "$folder" >nginx.conf
nginx -t -c "$folder/nginx.conf"
nginx -c "$folder/nginx.conf"
nginx -c "$folder/nginx.conf" -s reload
sleep 0.3
[ "$(curl -sS --cacert cert.pem --resolve localhost:8443:127.0.0.1 https://localhost:8443/)" = alive ]
python3 -c 'import ssl, urllib.request
context = ssl.create_default_context(cafile="cert.pem")
context.check_hostname = True
assert urllib.request.urlopen("https://localhost:8443/", context=context).read() == b"alive"'
# apt by TLS: the method itself, from the server above.
mkdir -p lists
printf 'deb [trusted=yes] https://localhost:8443/ ./\n' >sources.list
apt-get -qq -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists" \
    -o Acquire::https::CAInfo="$folder/cert.pem" update >apt.log 2>&1 || true
if grep -Ei 'certificate|handshake|TLS|gnutls|could not connect|method driver' apt.log; then exit 1; fi
apt-get --version >/dev/null
mkdir -p /run/sshd
ssh-keygen -A >/dev/null
/usr/sbin/sshd -t
/usr/sbin/sshd -p 2222 -o ListenAddress=127.0.0.1 -o PidFile="$folder/sshd.pid"
sleep 0.3
ssh-keyscan -p 2222 127.0.0.1 2>/dev/null | grep -q ssh-ed25519
kill "$(cat sshd.pid)" "$(cat nginx.pid)"
