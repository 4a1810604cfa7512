#!/bin/sh
# The kernels of backend/cuda as code of this processor, under tools that watch memory: AddressSanitizer and
# UndefinedBehaviorSanitizer for what goes beyond an array or a type, memcheck for a branch or an address that depends
# on a secret. Programs that are wrong on purpose must be caught. What the kernels compute is compared elsewhere
# (backend/cuda/emulator/tests). Prints "N passed, N failed" and exits 0 only when none failed.

set -eu
cd "$(dirname "$0")/../.."
out=${CARGO_TARGET_DIR:-target}/cuda-kernels
mkdir -p "$out"

# compiled NAME OPTIONS...
compiled() {
    name=$1
    shift
    "${CXX:-c++}" -std=c++17 -g -fno-exceptions -fno-rtti -Wall -Wextra -Wshadow -Wconversion -Wno-unknown-pragmas -Werror \
        -I backend/cuda/kernels "$@" backend/cuda/emulator/emulator.cpp backend/cuda/emulator/check.cpp -o "$out/$name"
}

passed=0 failed=0
# expect STATUS WHAT COMMAND...
expect() {
    wanted=$1 what=$2
    shift 2
    status=0
    "$@" >"$out/log" 2>&1 || status=$?
    if [ "$status" -eq "$wanted" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        cat "$out/log" >&2
        echo "kernels: $what: status $status, not $wanted" >&2
    fi
}

if [ "$(uname -m)" = x86_64 ]; then
    compiled sanitized -O1 -fsanitize=address,undefined -fno-sanitize-recover=all
    expect 0 "under sanitizers" "$out/sanitized"
    expect 1 "an array that is too short must be reported" "$out/sanitized" beyond
else
    echo "skipped: the sanitizers of the kernels are checked on x86_64"
fi
# As memcheck sees it: optimised, since that is where a compiler makes branches.
compiled tainted -O2 -DGABION_TAINT
expect 0 "a branch or an address depends on a secret" \
    valgrind --quiet --error-exitcode=99 "$out/tainted"
for leak in branch lookup; do
    expect 99 "a $leak by a secret on purpose must be reported" \
        valgrind --quiet --error-exitcode=99 "$out/tainted" $leak
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
