#!/bin/sh
# Starts the system's nginx with packaging/nginx/gabion.conf, and connects to it by X25519MLKEM768 and an ML-DSA-65
# certificate, which the provider has to have served.
set -e
. /host/functions.sh
is_on
mkdir -p /etc/nginx/tls /etc/nginx/conf.d
[ -e /etc/nginx/conf.d/gabion.conf ] || cp /host/gabion.conf /etc/nginx/conf.d/
openssl req -x509 -newkey ML-DSA-65 -nodes -keyout /etc/nginx/tls/key.pem -out /etc/nginx/tls/cert.pem -days 2 \
    -subj /CN=localhost 2>/dev/null
nginx -t
GABION_STATS=/run/stats nginx -g 'daemon off;' &
nginx=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
    if echo | openssl s_client -connect localhost:443 -CAfile /etc/nginx/tls/cert.pem -verify_return_error \
        -groups X25519MLKEM768 -brief >/run/said 2>&1; then break; fi
    sleep 0.3
done
cat /run/said
grep -qi 'X25519MLKEM768' /run/said
grep -qi 'mldsa65' /run/said
gabion doctor --stats /run/stats >/run/counted
cat /run/counted
grep -q '^[A-Z0-9a-z]*MLKEM768 *encaps *1 *0' /run/counted
grep -q '^ML-DSA-65 *sign *1 *0' /run/counted
kill -QUIT "$nginx"
wait "$nginx"
rm -r /etc/nginx/tls /etc/nginx/conf.d/gabion.conf
