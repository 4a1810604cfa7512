#!/bin/sh
# What a new TLS connection costs an nginx worker, with the bundle's OpenSSL alone (stock) and with
# Gabion under the same libssl. Two nginx run side by side, each with one worker on core 0; the load
# comes from core 1 and takes turns between them, so that a change of the clock meets both. Figures
# are medians over the turns: CPU time of the worker (user and system, from the scheduler), divided by
# the connections that were answered, and connections a second.
#
#   bench/servers/nginx.sh [--seconds S] [--turns N] [--sig NAME] [--group NAME] [--threads T]
#                          [--cipher SUITE] [--json]
#
# S seconds a turn (2), N turns each (10), T connections at a time (4). With --json one object a line:
# one for each, and {"ratio": ...} last. Uses the release build and the bundle of GABION_OPENSSL_PREFIX,
# or the usual one, into which it installs the provider of this checkout.

set -eu
cd "$(dirname "$0")/../.."

seconds=2
turns=10
sig=ML-DSA-65
group=X25519MLKEM768
threads=4
cipher=
json=0
while [ $# -gt 0 ]; do
    case $1 in
    --json)
        json=1
        shift
        continue
        ;;
    --seconds | --turns | --sig | --group | --threads | --cipher) ;;
    *)
        echo "error: unknown option \`$1\`; see the head of $0" >&2
        exit 2
        ;;
    esac
    [ $# -ge 2 ] || {
        echo "error: $1 needs a value" >&2
        exit 2
    }
    case $1 in
    --seconds) seconds=$2 ;;
    --turns) turns=$2 ;;
    --sig) sig=$2 ;;
    --group) group=$2 ;;
    --threads) threads=$2 ;;
    --cipher) cipher=$2 ;;
    esac
    shift 2
done
[ "$(nproc)" -ge 2 ] || {
    echo "error: two cores are needed, one for the worker and one for the load" >&2
    exit 3
}

profile=release
. tests/servers/common
"$gabion" bundle build --prefix "$prefix" >/dev/null
nginx=$(distribution nginx /usr/sbin/nginx) || {
    echo "error: $nginx" >&2
    exit 3
}
build_load
host=server.test
certificate "$sig" "$host" "$work/server"

# start WHO  starts an nginx named `stock` or `ours`; sets WHO_port and WHO_worker.
start() {
    port=$(free_port)
    mkdir "$work/$1"
    cat >"$work/$1/nginx.conf" <<END
worker_processes 1;
worker_cpu_affinity 1;
pid $work/$1/nginx.pid;
error_log $work/$1/error.log crit;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path $work/$1/body;
    proxy_temp_path $work/$1/proxy;
    fastcgi_temp_path $work/$1/fastcgi;
    uwsgi_temp_path $work/$1/uwsgi;
    scgi_temp_path $work/$1/scgi;
    server {
        listen 127.0.0.1:$port ssl;
        ssl_certificate $work/server.crt;
        ssl_certificate_key $work/server.key;
        ssl_protocols TLSv1.3;
        ssl_ecdh_curve $group;
        ${cipher:+ssl_conf_command Ciphersuites $cipher;}
        ssl_session_tickets off;
        location / { return 200 "ok\n"; }
    }
}
END
    GABION_STATS=$work/$1/stats "$1" "$nginx" -p "$work/$1/" -c "$work/$1/nginx.conf" \
        -e "$work/$1/error.log"
    listening "$port"
    master=$(cat "$work/$1/nginx.pid")
    started="$started $master"
    worker=$(awk -v m="$master" '$1 == "PPid:" && $2 == m { split(FILENAME, p, "/"); print p[3] }' \
        /proc/[0-9]*/status 2>/dev/null)
    eval "$1_port=$port $1_worker=$worker"
}

# turn WHO SECONDS  one turn of load, as a line of WHO.turns: us a connection, connections a second,
# share of the time that the worker was busy, share that the load was.
turn() {
    eval "port=\$$1_port worker=\$$1_worker"
    before=$(cut -d ' ' -f 1 "/proc/$worker/schedstat")
    ours taskset -c 1 "$work/load" --port "$port" --ca "$work/server.crt" --name "$host" \
        --group "$group" --threads "$threads" --seconds "$2" >"$work/load.json" || {
        echo "error: connections failed" >&2
        tail -n 5 "$work/$1/error.log" >&2
        exit 1
    }
    after=$(cut -d ' ' -f 1 "/proc/$worker/schedstat")
    awk -v ns="$((after - before))" -v n="$(member connections "$work/load.json")" \
        -v s="$(member seconds "$work/load.json")" -v c="$(member client_cpu_s "$work/load.json")" \
        'BEGIN { print ns / 1000 / n, n / s, ns / 1e9 / s, c / s, n }' >>"$work/$1.turns"
}

# median FILE COLUMN [SHARE]  a percentile of a column, the 50th by default.
median() {
    awk -v c="$2" '{ print $c }' "$1" | sort -g |
        awk -v s="${3:-0.5}" '{ a[NR] = $1 } END { i = s * (NR - 1); l = int(i);
            h = l + 1 < NR ? l + 1 : l; printf "%.4f", a[l + 1] + (i - l) * (a[h + 1] - a[l + 1]) }'
}

# row WHO  the object of one nginx
row() {
    file=$work/$1.turns
    name=$1
    [ "$1" = stock ] || name=gabion
    printf '{"server":"nginx %s","provider":"%s","group":"%s","sig":"%s","cipher":"%s",' \
        "$version" "$name" "$(member group "$work/load.json")" "$sig" \
        "$(member cipher "$work/load.json")"
    printf '"worker_us_per_connection":%.1f,"p20":%.1f,"p80":%.1f,"connections_per_s":%.0f,' \
        "$(median "$file" 1)" "$(median "$file" 1 0.2)" "$(median "$file" 1 0.8)" \
        "$(median "$file" 2)"
    printf '"worker_busy":%.2f,"load_busy":%.2f,"connections":%d,"turns":%d,' \
        "$(median "$file" 3)" "$(median "$file" 4)" "$(awk '{ n += $5 } END { print n }' "$file")" \
        "$(wc -l <"$file")"
    printf '"openssl":"%s","machine":"%s","load_average":%s,"date":"%s"}\n' \
        "$(ours openssl version | cut -d ' ' -f 1-2)" \
        "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)" \
        "$(cut -d ' ' -f 1 /proc/loadavg)" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}

version=$("$nginx" -v 2>&1 | sed 's/.*nginx\///; s/ .*//')
start stock
start ours
for who in stock ours; do # Caches, self-tests, the worker's first keys.
    turn "$who" 0.5
    rm "$work/$who.turns"
done
i=0
while [ "$i" -lt "$turns" ]; do
    # Forwards and backwards by turns: none is always second.
    order='stock ours'
    [ $((i % 2)) -eq 0 ] || order='ours stock'
    for who in $order; do turn "$who" "$seconds"; done
    i=$((i + 1))
done
# OpenSSL falls back without a word, so what was measured is asked for.
case $sig in
ML-DSA-*)
    signed=$(counter "$work/ours/stats" "$sig" sign calls)
    [ "$signed" -ge "$(awk '{ n += $5 } END { print n }' "$work/ours.turns")" ] || {
        echo "error: Gabion signed $signed times, fewer than there were connections" >&2
        exit 1
    }
    ;;
esac
[ ! -e "$work/stock/stats" ] || {
    echo "error: the stock nginx loaded Gabion" >&2
    exit 1
}

stock_us=$(median "$work/stock.turns" 1)
ours_us=$(median "$work/ours.turns" 1)
ratio=$(awk -v a="$ours_us" -v b="$stock_us" 'BEGIN { printf "%.3f", a / b }')
if [ "$json" -eq 1 ]; then
    row stock
    row ours
    printf '{"ratio":%s}\n' "$ratio"
    exit 0
fi
echo "nginx $version, $group, $sig: one worker on core 0, the load on core 1"
printf '%-8s %22s %14s %12s %10s\n' '' 'worker us/connection' 'connections/s' 'worker busy' 'load busy'
for who in stock ours; do
    file=$work/$who.turns
    name=gabion
    [ "$who" = ours ] || name=stock
    printf '%-8s %22.1f %14.0f %11.0f%% %9.0f%%\n' "$name" "$(median "$file" 1)" "$(median "$file" 2)" \
        "$(awk -v x="$(median "$file" 3)" 'BEGIN { print 100 * x }')" \
        "$(awk -v x="$(median "$file" 4)" 'BEGIN { print 100 * x }')"
done
echo "gabion / stock: $ratio of the worker's CPU time"
