#!/bin/sh
# Everything that needs a GPU, in one run on a machine that has a driver, and nothing of Rust and no network.
#
#   bench/gpu.sh pack                builds here what runs there, into target/gpu (60 MB at most); needs no GPU
#   bench/gpu.sh [OPTION...]         runs there, from the same folder, with target/gpu carried along
#
#   --out DIR      results [target/gpu-results]: summary.txt, *.ndjson, a log and a stamp for each part
#   --only PART    this part alone; may be given again. Without it: all of them, in this order
#   --seconds N    time of a row of the benchmark [1, short: 0.5]
#   --operations N random operations that are compared [1000000, short: 100000]
#   --batches LIST sizes of batches [all nine, short: 1,1k,64k]
#   --filter RE    rows of the benchmark [all, short: ML-KEM-768 and ML-DSA-65]
#   --short        less of everything: three minutes in all
#   --again        parts with a stamp, too
#   --device N     the GPU [0]; `none` runs what a processor can, to try this script
#
# Parts: build       the kernels that were packed are those of the source; driver and device
#        vectors     all published vectors, and the tests of each family against the portable backend
#        differential  random operations against the processor
#        faults      time-outs, faulting kernels, no memory, a device that begins anew under a batch
#        sanitizer   compute-sanitizer, if there is one: memcheck, racecheck, initcheck
#        bench       the table: kernels alone and end to end
#        profile     what each kernel takes
#        crossover   from how many lanes on a batch is faster than on the processor (not with --short)
#        offload     many threads with one operation each: OpenSSL, the provider, the engine, the GPU
#        tls         a handshake of TLS 1.3 whose ML-KEM ran on the GPU
#
# A part that ends well leaves a stamp, and the next run with the same --out goes on after it. Each takes less than ten minutes. The device's settings
# stay as they are, and it is never reset from outside.

set -eu
cd "$(dirname "$0")/.."
parts='build vectors differential faults sanitizer bench profile tls crossover offload'
packed=target/gpu
archive=$packed/gabion-gpu.tar.xz

fail() {
    echo "gpu: $1" >&2
    exit 2
}

# The test programs of gabion-cuda-emulator that run on a device. The published vectors are in the program `vectors` of gabion-tests.
tests='random device kem dsa slh lms xmss driver'
# What the tests of vectors read.
vectors='acvp/ML-KEM-* acvp/ML-DSA-* acvp/SLH-DSA-* acvp/LMS-* wycheproof/mlkem_* wycheproof/mldsa_* cctv'

# --- pack ---

# programs FOLDER  copies the test programs that cargo's messages on standard input name.
programs() {
    python3 -c '
import json, shutil, sys
names = sys.argv[2:]
for line in sys.stdin:
    message = json.loads(line) if line.startswith("{") else {}
    if message.get("executable") and message["target"]["name"] in names and "test" in message["target"]["kind"]:
        shutil.copy(message["executable"], sys.argv[1] + "/test-" + message["target"]["name"])' "$@"
}

pack() {
    profile=${PROFILE:-release}
    target=${CARGO_TARGET_DIR:-target}
    case $profile in dev) built=$target/debug ;; *) built=$target/$profile ;; esac
    GABION_COMMIT=$(git describe --always --dirty 2>/dev/null || true)
    export GABION_COMMIT
    tree=$packed/tree
    rm -rf "$tree"
    mkdir -p "$tree/bin" "$tree/vectors" "$tree/modules"
    # Without the key management service, which has nothing to do there.
    # shellcheck disable=SC2086 # several words, or none
    cargo build --locked ${CARGO_OPTIONS-} --profile "$profile" --package gabion-cli --package gabion-bench --package gabion-provider \
        --no-default-features --features gabion-provider/default
    cp "$built/gabion" "$built/gabion-bench" "$tree/bin/"
    cp "$built/libgabion_provider.so" "$tree/modules/gabion.so"
    # shellcheck disable=SC2086 # several words
    cargo test --locked ${CARGO_OPTIONS-} --no-run --package gabion-cuda-emulator --message-format json | programs "$tree/bin" $tests
    # shellcheck disable=SC2086 # several words
    cargo test --locked ${CARGO_OPTIONS-} --no-run --package gabion-tests --test vectors --message-format json | programs "$tree/bin" vectors
    [ -x "$tree/bin/test-vectors" ] || fail 'the tests of vectors were not built'
    strip "$tree"/bin/* "$tree/modules/gabion.so"
    from=${GABION_VECTORS:-../shared/vectors}
    if [ -d "$from" ]; then
        for pattern in $vectors; do
            for path in "$from"/$pattern; do
                [ -e "$path" ] || fail "there is no $path"
                into=$tree/vectors/$(dirname "${path#"$from"/}")
                mkdir -p "$into"
                cp -R "$path" "$into/"
            done
        done
        find "$tree/vectors" -name '*.json' -exec xz -9 {} +
    else
        echo "gpu: no $from: the tests of vectors use packages only" >&2
        rmdir "$tree/vectors"
    fi
    bundle=$("$built/gabion" bundle build)
    mkdir -p "$tree/openssl/bin" "$tree/openssl/lib"
    cp "$bundle/bin/openssl" "$tree/openssl/bin/"
    cp "$bundle/lib/libssl.so.3" "$bundle/lib/libcrypto.so.3" "$tree/openssl/lib/"
    if [ -e backend/cuda/kernels.fatbin.xz ]; then
        sha256sum backend/cuda/kernels.fatbin.xz >"$tree/kernels.sha256"
    fi
    echo "$GABION_COMMIT" >"$tree/commit"
    tar -C "$packed" -cf - tree | xz -9 >"$archive.new"
    mv "$archive.new" "$archive"
    rm -rf "$tree"
    size=$(wc -c <"$archive")
    [ "$size" -le 60000000 ] || fail "$archive has $size bytes; expected 60 MB at most"
    echo "$archive: $size bytes"
}

if [ "${1-}" = pack ]; then
    [ $# -eq 1 ] || fail 'pack takes no option; PROFILE=dev builds in less time than a release, and CARGO_OPTIONS are for cargo'
    pack
    exit 0
fi

# --- run ---

out=target/gpu-results only='' seconds='' operations='' batches='' filter='' short='' again='' device=0
while [ $# -gt 0 ]; do
    case $1 in
    --out | --only | --seconds | --operations | --batches | --filter | --device)
        [ $# -ge 2 ] || fail "$1 needs a value"
        case $1 in
        --out) out=$2 ;;
        --only)
            case " $parts " in *" $2 "*) only="$only $2" ;; *) fail "there is no part \`$2\`; expected one of $parts" ;; esac
            ;;
        --seconds) seconds=$2 ;;
        --operations) operations=$2 ;;
        --batches) batches=$2 ;;
        --filter) filter=$2 ;;
        --device) device=$2 ;;
        esac
        shift 2
        ;;
    --short) short=1 && shift ;;
    --again) again=1 && shift ;;
    *) fail "unknown option \`$1\`; see the head of bench/gpu.sh" ;;
    esac
done
if [ -n "$short" ]; then
    : "${seconds:=0.5}" "${operations:=100000}" "${batches:=1,1k,64k}" "${filter:=^(ML-KEM-768|ML-DSA-65|Keccak.*|SHA-256):}"
else
    : "${seconds:=1}" "${operations:=1000000}" "${batches:=1,16,256,1k,4k,16k,64k,256k,1M}" "${filter:=.}"
fi
[ -e "$archive" ] || fail "there is no $archive; make it with bench/gpu.sh pack where Rust is"
mkdir -p "$out"
out=$(cd "$out" && pwd)

# What is unpacked stays for the next run.
tree=$packed/tree
if ! [ "$tree/.unpacked" -nt "$archive" ]; then
    rm -rf "$tree"
    tar -C "$packed" -xJf "$archive" 2>/dev/null ||
        python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])' "$archive" "$packed"
    touch "$tree/.unpacked"
fi
tree=$(cd "$tree" && pwd)
gabion=$tree/bin/gabion
has_device=1
if [ "$device" = none ]; then
    has_device=
    unset GABION_CUDA_DEVICE
else
    export GABION_CUDA_DEVICE="$device"
fi
if [ -d "$tree/vectors" ]; then
    export GABION_VECTORS="$tree/vectors"
fi
skipped=77

# run_test NAME ARGUMENT...  a test program, if it was packed.
run_test() {
    [ -x "$tree/bin/test-$1" ] || { echo "no test-$1 was packed"; return 0; }
    name=$1
    shift
    echo "+ test-$name $*"
    "$tree/bin/test-$name" "$@"
}

part_build() {
    "$gabion" --version
    if [ -e "$tree/kernels.sha256" ]; then
        sha256sum -c "$tree/kernels.sha256"
    else
        echo 'no kernels.fatbin.xz was packed'
    fi
    if command -v nvidia-smi >/dev/null 2>&1; then
        nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit,pcie.link.gen.max,pcie.link.width.max --format=csv
    fi
    [ -z "$has_device" ] || "$gabion" doctor || true
}

part_vectors() {
    skip=
    [ -z "$short" ] || skip='--skip slh'
    # shellcheck disable=SC2086 # several words, or none
    run_test vectors cuda $skip
    for family in kem dsa slh lms xmss; do
        [ -z "$short" ] || [ "$family" = kem ] || [ "$family" = dsa ] || continue
        run_test "$family"
    done
}

part_differential() {
    GABION_RANDOM_OPERATIONS=$operations run_test random --nocapture
}

part_faults() {
    [ -n "$has_device" ] || return $skipped
    # Each in a process of its own: a kernel's wrong address can end CUDA in it.
    for test in timed_out_batch_is_lost_and_the_next_succeeds without_memory_a_batch_is_lost \
        a_context_that_goes_away_under_batches_loses_them invalid_memory_access_loses_the_batch; do
        run_test device "$test" --exact --nocapture
    done
    run_test driver gpu:: --nocapture --test-threads 1
}

part_sanitizer() {
    [ -n "$has_device" ] || return $skipped
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
    [ -n "$sanitizer" ] || { echo 'no compute-sanitizer'; return $skipped; }
    tools='memcheck racecheck initcheck' count=400
    [ -z "$short" ] || { tools=memcheck count=60; }
    export GABION_RANDOM_OPERATIONS=$count GABION_RANDOM_SEED=1
    for tool in $tools; do
        echo "+ $tool"
        "$sanitizer" --tool "$tool" --error-exitcode 9 "$tree/bin/test-random" --nocapture
    done
}

bench() {
    "$gabion" bench engine --backend cuda --device "$device" --seconds "$seconds" --batch "$batches" --filter "$filter" "$@"
}

part_bench() {
    [ -n "$has_device" ] || return $skipped
    bench --json >"$out/bench.ndjson.new"
    mv "$out/bench.ndjson.new" "$out/bench.ndjson"
    wc -l "$out/bench.ndjson"
    python3 - "$out/bench.ndjson" >"$out/bench.txt" <<'PYTHON'
import json, sys
print(f"{'operation':34} {'batch':>8} {'thr':>3} {'memory':8} {'kernels M/s':>12} {'end to end M/s':>14} {'p50 us':>10} {'p99 us':>10}"
      f" {'to+from B':>10} {'cores':>6} {'busy':>5} {'J/1000':>8}")
for line in open(sys.argv[1]):
    row = json.loads(line)
    kernel, end = row["kernel"] or {}, row["end_to_end"] or {}
    number = lambda value, scale, digits: "-" if value is None else f"{value / scale:.{digits}f}"
    us = end.get("batch_us", {})
    name = f"{row['algorithm']}:{row['operation']}:{row.get('returns') or row['key']}".replace(", ", "+")
    total = end and end["bytes_to_device"] + end["bytes_from_device"]
    print(f"{name:34} {row['batch']:>8} {row['threads']:>3} {row['memory']:8} {number(kernel.get('ops_per_s'), 1e6, 4):>12}"
          f" {number(end.get('ops_per_s'), 1e6, 4):>14} {number(us.get('p50'), 1, 1):>10} {number(us.get('p99'), 1, 1):>10}"
          f" {number(total or None, 1, 0):>10} {number(end.get('cpu_cores'), 1, 2):>6} {number(end.get('device_busy'), 1, 2):>5}"
          f" {number(end.get('joules_per_1000'), 1, 4):>8}")
PYTHON
    cat "$out/bench.txt"
}

part_profile() {
    [ -n "$has_device" ] || return $skipped
    batches=${batches##*,}
    [ "$batches" != 1M ] || batches=64k
    bench --profile --pinned-only --json >"$out/profile.ndjson.new"
    mv "$out/profile.ndjson.new" "$out/profile.ndjson"
    python3 - "$out/profile.ndjson" <<'PYTHON'
import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    if "kernel_name" in row:
        print(f"    {row['kernel_name']:36} {row['launches']:>7} launches {row['ms']:>10.3f} ms {row['share'] * 100:>6.1f} %"
              f" {row['ns_per_op']:>10.2f} ns/op")
    else:
        rate = (row["kernel"] or {}).get("ops_per_s", 0)
        print(f"{row['algorithm']}:{row['operation']}:{row['key']} batch {row['batch']}: {rate / 1e6:.4f} M/s")
PYTHON
}

part_tls() {
    openssl=$tree/openssl/bin/openssl
    [ -x "$openssl" ] || { echo 'no openssl was packed'; return $skipped; }
    work=$out/tls
    rm -rf "$work"
    mkdir -p "$work"
    export LD_LIBRARY_PATH="$tree/openssl/lib" OPENSSL_CONF=/dev/null
    [ -z "$has_device" ] || export GABION_BACKEND=cuda
    ours="-provider-path $tree/modules -provider gabion -provider default -propquery ?provider=gabion"
    # shellcheck disable=SC2086 # several words
    (cd "$work" && "$openssl" req $ours -x509 -newkey ML-DSA-65 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem)
    # shellcheck disable=SC2086 # several words
    (cd "$work" && GABION_STATS=$work/server.stats exec "$openssl" s_server $ours -accept 127.0.0.1:0 -www -tls1_3 \
        -groups MLKEM768 -cert cert.pem -key key.pem >server.log 2>&1) &
    server=$!
    address=
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        address=$(sed -n 's/^ACCEPT *//p' "$work/server.log" 2>/dev/null)
        [ -z "$address" ] || break
        sleep 0.5
    done
    said=0
    # shellcheck disable=SC2086 # several words
    GABION_STATS=$work/client.stats "$openssl" s_client $ours -connect "$address" -tls1_3 -groups MLKEM768 -CAfile "$work/cert.pem" \
        </dev/null >"$work/client.log" 2>&1 || said=$?
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    grep -E 'New, |Negotiated|Verif|Peer Temp Key|Server Temp Key' "$work/client.log" || true
    unset LD_LIBRARY_PATH OPENSSL_CONF
    for side in server client; do
        echo "+ counters of the $side"
        "$gabion" doctor --stats "$work/$side.stats" --json >"$out/tls-$side.json" || true
        cat "$out/tls-$side.json"
    done
    [ "$said" -eq 0 ] || { echo "s_client ends with $said"; return 1; }
    grep -q 'Negotiated TLS1.3 group: MLKEM768' "$work/client.log"
    # The proof: each side's ML-KEM ran on the GPU, and no batch of it was lost.
    [ -z "$has_device" ] || for side in server client; do
        python3 - "$out/tls-$side.json" <<'PYTHON'
import json, sys
def rows(value):
    if isinstance(value, dict):
        if value.get("operation") == "gpu" and value.get("algorithm") == "ML-KEM-768":
            yield value
        value = list(value.values())
    for item in value if isinstance(value, list) else []:
        yield from rows(item)
found = list(rows(json.load(open(sys.argv[1]))))
if not any(row["calls"] > 0 and row["errors"] == 0 for row in found):
    sys.exit(f"{sys.argv[1]}: no ML-KEM-768 ran on the GPU: {found}")
print(f"{sys.argv[1]}: {found}")
PYTHON
    done
}

part_crossover() {
    [ -n "$has_device" ] && [ -z "$short" ] || return $skipped
    XDG_CACHE_HOME=$out/cache "$gabion" doctor --measure-gpu
}

part_offload() {
    iters=200192
    [ -z "$short" ] || iters=20032
    # What is not at hand is left out.
    GABION_OPENSSL_MODULES="$tree/modules" "$gabion" bench offload --jobs 64 --iters $iters --prefix "$tree/openssl" --json \
        >"$out/offload.ndjson.new"
    mv "$out/offload.ndjson.new" "$out/offload.ndjson"
    cat "$out/offload.ndjson"
}

failed=0
for part in ${only:-$parts}; do
    stamp=$out/$part${short:+.short}.stamp
    if [ -e "$stamp" ] && [ -z "$again" ]; then
        echo "$part: done before"
        continue
    fi
    printf '%s ...\n' "$part"
    begun=$(date +%s)
    # A shell of its own: a command that fails ends the part, and nothing else.
    set +e
    (set -e; "part_$part") >"$out/$part.log" 2>&1
    status=$?
    set -e
    took=$(($(date +%s) - begun))
    case $status in
    0) verdict=ok ;;
    "$skipped") verdict=skipped ;;
    *) verdict="FAILED ($status)" failed=$((failed + 1)) ;;
    esac
    [ "$status" -ne 0 ] || date -u +%Y-%m-%dT%H:%M:%SZ >"$stamp"
    line="$part: $verdict, $took s${short:+, short}, $(cat "$tree/commit")"
    echo "$line" | tee -a "$out/summary.txt"
    case $verdict in ok) ;; *) tail -n 15 "$out/$part.log" ;; esac
done
[ ! -e "$out/bench.txt" ] || [ -n "$only" ] || cat "$out/bench.txt" >>"$out/summary.txt"
[ "$failed" -eq 0 ]
