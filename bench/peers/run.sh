#!/bin/sh
# Builds what is measured (wolfSSL by script, the rest by cargo) and measures it.
#
#   usage: run.sh [--record NAME [--only RE]] [options of gabion-peers]
#
# Without --record a table is printed. With it the run also goes to
# bench/results/peers-NAME.ndjson, one JSON object a line, and peers-NAME.meta.json says when, from
# which commit, with which command and compilers. An interrupted run leaves the old files.
# With --only, operations whose ALGORITHM:OPERATION:KEY matches RE are measured, in all libraries. Their
# rows replace those of the same operations in the file, and the others stay. Each row says in `run`
# when its run began, and peers-NAME.TIME.meta.json tells of the run that came later.
#
#   bench/peers/run.sh --record epyc-zen4 --seconds 1
#   bench/peers/run.sh --record epyc-zen4 --only 'MLKEM|X-Wing' --seconds 1
#   bench/peers/run.sh --filter 'ML-DSA-65:verify' --seconds 0.3
#
# Every OpenSSL bundle in the cache is measured (`gabion bundle build --openssl 4.0.3`);
# GABION_OPENSSL_PREFIX names others, with colons between them.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
results="$here/../results"
say() { printf '%s\n' "peers: $*" >&2; }

record=
only=
case "${1:-}" in
    --record)
        record="${2:-}"
        case "$record" in
            '' | *[!a-z0-9-]*)
                say "error: --record needs a name of a-z, 0-9 and -, such as epyc-zen4"
                exit 2
                ;;
        esac
        shift 2
        ;;
    -h | --help)
        sed -n '2,20s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
esac
if [ "${1:-}" = --only ]; then
    only="${2:-}"
    if [ -z "$record" ] || [ -z "$only" ]; then
        say "error: --only needs --record NAME before it and a regular expression after it"
        exit 2
    fi
    shift 2
    for word in "$@"; do
        case "$word" in
            --peer | --peer=* | --filter | --filter=*)
                say "error: --only measures all libraries, and is a filter: leave $word out"
                exit 2
                ;;
        esac
    done
    if [ ! -f "$results/peers-$record.ndjson" ]; then
        say "error: no bench/results/peers-$record.ndjson to put rows into; record a whole run first"
        exit 2
    fi
fi

"$here/build-wolfssl.sh"
"$here/build-wolfssl.sh" --hbs
"$here/build-liboqs.sh"

# The best flags for libcrux, the fastest of the peers in Rust (README.md, "libcrux"); all have them.
RUSTFLAGS="${PEERS_RUSTFLAGS:--C target-cpu=native -C no-vectorize-slp}"
export RUSTFLAGS
cd "$here"
# AWS-LC's C around its assembly is quicker so.
AWS_LC_SYS_CFLAGS="${PEERS_AWS_LC_CFLAGS:--march=native -O3}"
export AWS_LC_SYS_CFLAGS
say "building gabion-peers"
cargo build --release --locked --quiet
program="${CARGO_TARGET_DIR:-$here/target}/release/gabion-peers"

if [ -z "$record" ]; then
    exec "$program" "$@"
fi

mkdir -p "$results"
work=$(mktemp -d "$results/.peers.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# The commit of what measures; files changed since then are said.
commit=$(git -C "$here" rev-parse HEAD 2>/dev/null || echo unknown)
git -C "$here" diff --quiet HEAD -- . ../rows 2>/dev/null || commit="$commit, changed"
load_before=$(cut -d' ' -f1-3 /proc/loadavg)
began=$(date -u +%Y-%m-%dT%H:%M:%SZ)
rows="$results/peers-$record.ndjson"
meta="$results/peers-$record.meta.json"
say "measuring; results go to bench/results/peers-$record.ndjson when all are there"
arguments=$(for word in ${only:+--only "$only"} "$@"; do printf ' %s' "$word" | sed 's/[\\"]/\\&/g'; done)
"$program" --json ${only:+--filter "$only"} "$@" >"$work/measured"
sed "s/}\$/,\"run\":\"$began\"}/" "$work/measured" >"$work/new"
cat >"$work/meta" <<END
{
  "command": "bench/peers/run.sh --record $record$arguments",
  "date": "$began",
  "commit": "$commit",
  "kernel": "$(uname -sr)",
  "rustc": "$(rustc --version)",
  "rustflags": "$RUSTFLAGS",
  "aws_lc_cflags": "$AWS_LC_SYS_CFLAGS",
  "cc": "$(cc --version | head -n 1)",
  "load_before": "$load_before",
  "load_after": "$(cut -d' ' -f1-3 /proc/loadavg)"
}
END
if [ -n "$only" ]; then
    cpu() { sed -n '1s/.*"cpu":"\([^"]*\)".*/\1/p' "$1"; }
    if [ "$(cpu "$rows")" != "$(cpu "$work/new")" ]; then
        say "error: bench/results/peers-$record.ndjson is of $(cpu "$rows"), this is $(cpu "$work/new")"
        exit 1
    fi
    meta="$results/peers-$record.$(printf %s "$began" | tr -d :-).meta.json"
    # A row begins with its algorithm, operation and key.
    awk '{ name = substr($0, 1, index($0, ",\"backend\"")) }
        NR == FNR { measured[name]; next }
        !(name in measured)' "$work/new" "$rows" >"$work/rows"
fi
cat "$work/new" >>"$work/rows"
mv "$work/rows" "$rows"
mv "$work/meta" "$meta"
# What tells of rows that are no longer there goes.
for other in "$results/peers-$record".*.meta.json; do
    [ -f "$other" ] || continue
    date=$(sed -n 's/.*"date": "\([^"]*\)".*/\1/p' "$other")
    grep -qF "\"run\":\"$date\"" "$rows" || rm "$other"
done
say "wrote bench/results/peers-$record.ndjson ($(wc -l <"$work/new") of $(wc -l <"$rows") rows are new)"
