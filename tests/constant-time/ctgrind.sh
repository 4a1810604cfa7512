#!/bin/sh
# Constant time by memcheck: no branch and no address may depend on a secret, and programs that leak
# on purpose must be flagged. valgrind knows neither AVX-512 nor the SHA extensions, so kernels for
# these run over emulated instructions (backend/src/emulation); that these kernels still compute the
# right thing is tested as well. Prints "N passed, N failed" and exits 0 only when none failed.

set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}/ctgrind
is_x86() {
    [ "$(uname -m)" = x86_64 ]
}

# Programs and not examples, which would build the other implementations that tests compare with.
# Debug information names the line of a leak; overflow checks would add branches of their own.
flags="--cfg ctgrind"
if is_x86; then
    flags="$flags --cfg emulated_lanes -C target-cpu=x86-64"
fi
RUSTFLAGS="$flags ${RUSTFLAGS:-}"
export RUSTFLAGS
# The program, of a crate that needs little else, and the test of the emulated kernels in one build, so that the kernels
# are compiled once.
built() {
    cargo "$@" --locked --quiet --release --config 'profile.release.debug="line-tables-only"' \
        --package gabion-ctgrind --package gabion-backend --target-dir "$target"
}
built build --bin ctgrind --test avx512_kernels
program=$target/release/ctgrind

passed=0 failed=0
succeeded() {
    passed=$((passed + 1))
}
failed() {
    failed=$((failed + 1))
    echo "ctgrind: $1" >&2
}

# check ARGUMENTS...  where the program runs to its end and memcheck finds nothing.
check() {
    valgrind --quiet --error-exitcode=99 --track-origins=no \
        --suppressions=tests/constant-time/libraries.supp "$program" "$@"
}

# Whole keys and signatures of SLH-DSA and XMSS^MT take minutes a backend; their kernels and flows are those of the
# shorter runs, so `script/test --all` alone runs them.
runs_long_checks() { [ -n "${GABION_TEST_ALL-}" ]; }
whole_slh="SLH-DSA-SHA2-128f SLH-DSA-SHAKE-128f XMSS-keys"

# secrets BACKEND ALGORITHM...  checks these; without a list, every algorithm that takes seconds.
secrets() {
    if check "$@"; then
        succeeded
    else
        failed "on $1 a branch or an address depends on a secret; see above"
    fi
}

# In the background on another core, since an instruction costs a hundred here.
log=$target/emulated.log
if is_x86; then
    # Those with lanes differ in SHA-256 alone, which is that of sixteen lanes; flows are those of the same type.
    (check avx512-emulated ML-KEM-512 ML-KEM-768 ML-KEM-1024 ML-DSA-44 ML-DSA-65 ML-DSA-87 Ed25519 \
        X25519 SLH-kernels &&
        check avx512-emulated-with-lanes HSS-keys SLH-kernels &&
        if runs_long_checks; then check avx512-emulated SLH-DSA-SHA2-128f; fi) >"$log" 2>&1 &
fi
secrets portable
# shellcheck disable=SC2086 # several words
if runs_long_checks; then secrets portable $whole_slh; fi
if grep -qw avx2 /proc/cpuinfo && grep -qw bmi2 /proc/cpuinfo; then
    secrets avx2
    # The same kernels but for SHA-256, which is that of lanes; flows are those of the same type.
    secrets avx2-without-sha SLH-kernels HSS-keys
    # shellcheck disable=SC2086 # several words
    if runs_long_checks; then
        secrets avx2 $whole_slh
        secrets avx2-without-sha XMSS-keys
    fi
else
    echo "ctgrind: this processor lacks AVX2, so its kernels are not checked" >&2
fi
if is_x86; then
    if wait $!; then
        cat "$log"
        succeeded
    else
        cat "$log" >&2
        failed "on avx512-emulated a branch or an address depends on a secret; see above"
    fi
    if built test --test avx512_kernels >/dev/null; then
        succeeded
    else
        failed "the emulated kernels are not right; see above"
    fi
fi

for leaky in "" sponge chain lanes transform; do
    is_x86 || [ -z "$leaky" ] || continue
    status=0
    # shellcheck disable=SC2086 # One word or none.
    check leaky $leaky >/dev/null 2>&1 || status=$?
    if [ "$status" -eq 99 ]; then
        succeeded
    else
        failed "the leaky demo $leaky was not flagged (status $status), so the check sees nothing"
    fi
done
runs_long_checks || echo "not run: whole keys and signatures of SLH-DSA and XMSS^MT; script/test --all runs them"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
