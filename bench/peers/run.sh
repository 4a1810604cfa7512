#!/bin/sh
# Builds what is measured (wolfSSL by script, the rest by cargo) and measures it.
#
#   usage: run.sh [--record NAME] [options of gabion-peers]
#
# Without --record a table is printed. With it the run also goes to
# bench/results/peers-NAME.ndjson, one JSON object a line, and peers-NAME.meta.json says when, from
# which commit, with which command and compilers. An interrupted run leaves the old files.
#
#   bench/peers/run.sh --record epyc-zen4 --seconds 1
#   bench/peers/run.sh --filter 'ML-DSA-65:verify' --seconds 0.3
#
# GABION_OPENSSL_PREFIX names another OpenSSL than the newest bundle.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
results="$here/../results"
say() { printf '%s\n' "peers: $*" >&2; }

record=
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
        sed -n '2,14s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
esac

"$here/build-wolfssl.sh"
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
git -C "$here" diff --quiet HEAD -- . ../src 2>/dev/null || commit="$commit, changed"
load_before=$(cut -d' ' -f1-3 /proc/loadavg)
say "measuring; results go to bench/results/peers-$record.ndjson when all are there"
"$program" --json "$@" >"$work/rows"
cat >"$work/meta" <<END
{
  "command": "bench/peers/run.sh --record $record$(for word in "$@"; do printf ' %s' "$word" | sed 's/[\\"]/\\&/g'; done)",
  "date": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
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
mv "$work/rows" "$results/peers-$record.ndjson"
mv "$work/meta" "$results/peers-$record.meta.json"
say "wrote bench/results/peers-$record.ndjson ($(wc -l <"$results/peers-$record.ndjson") rows)"
