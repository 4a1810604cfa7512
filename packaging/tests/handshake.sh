#!/bin/sh
# A TLS 1.3 handshake with an ML-DSA-65 certificate and X25519MLKEM768. $1 is what openssl is started by.
set -e
cd "$(mktemp -d)"
$1 openssl req -x509 -newkey ML-DSA-65 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost 2>/dev/null
$1 openssl s_server -accept 4433 -key key.pem -cert cert.pem -tls1_3 -www -quiet &
server=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
    if said=$(echo | $1 openssl s_client -connect 127.0.0.1:4433 -CAfile cert.pem -verify_return_error -groups X25519MLKEM768 -brief 2>&1); then break; fi
    sleep 0.3
done
kill "$server" 2>/dev/null || true
echo "$said"
echo "$said" | grep -qi 'X25519MLKEM768'
echo "$said" | grep -qi 'mldsa65'
