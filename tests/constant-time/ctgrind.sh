#!/bin/sh
# Constant time by memcheck: no branch and no address may depend on a secret, and a program that
# leaks on purpose must be flagged. Prints "N passed, N failed" and exits 0 only when none failed.

set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}/ctgrind
# A program and not an example, which would build the other implementations that tests compare with.
# Debug information names the line of a leak; overflow checks would add branches of their own.
CARGO_TARGET_DIR=$target RUSTFLAGS="--cfg ctgrind -C target-cpu=x86-64 ${RUSTFLAGS:-}" \
    cargo build --locked --quiet --release --package gabion-tests --bin ctgrind
program=$target/release/ctgrind

check() {
    valgrind --quiet --error-exitcode=99 --track-origins=no "$program" "$@"
}

backends=portable
if grep -qw avx2 /proc/cpuinfo && grep -qw bmi2 /proc/cpuinfo; then
    backends="portable avx2"
else
    echo "ctgrind: this processor lacks AVX2, so only the portable kernels are checked" >&2
fi

passed=0 failed=0
for backend in $backends; do
    if check "$backend"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "ctgrind: on $backend a branch or an address depends on a secret; see above" >&2
    fi
done
status=0
check leaky >/dev/null 2>&1 || status=$?
if [ "$status" -eq 99 ]; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "ctgrind: the leaky demo was not flagged (status $status), so the check sees nothing" >&2
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
