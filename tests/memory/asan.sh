#!/bin/sh
# AddressSanitizer over the unit and conformance tests of code that is unsafe: the kernels of every instruction
# set (backend). `script/test --all` (GABION_TEST_ALL=1) adds scheme and engine, which call these kernels. A program
# that reads past its buffer is compiled first and must be caught, so that a blind sanitizer fails.
set -eu
cd "$(dirname "$0")/../.."
target=$(rustc -vV | sed -n 's/^host: //p')
case $target in
x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu) ;;
*)
    echo "skipped: AddressSanitizer is not there on $target"
    echo "0 passed, 0 failed"
    exit 0
    ;;
esac

# The option belongs to the nightly compiler, but the stable one has the sanitizer and ships its
# run-time library; this variable lets it be asked for. Nothing that is built so is installed.
RUSTC_BOOTSTRAP=1
RUSTFLAGS="-Zsanitizer=address"
# Lines for its reports.
CARGO_PROFILE_DEV_DEBUG=line-tables-only
export RUSTC_BOOTSTRAP RUSTFLAGS CARGO_PROFILE_DEV_DEBUG

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/leaky.rs" <<'END'
fn main() {
    let bytes = vec![1u8; 32].into_boxed_slice();
    let beyond = std::hint::black_box(32);
    // SAFETY: none; this is the mistake that has to be caught.
    println!("{}", unsafe { *bytes.as_ptr().add(beyond) });
}
END
rustc --edition 2024 -Zsanitizer=address -o "$work/leaky" "$work/leaky.rs"
if "$work/leaky" >"$work/out" 2>&1 || ! grep -q heap-buffer-overflow "$work/out"; then
    cat "$work/out" >&2
    echo "AddressSanitizer did not see a read past a buffer" >&2
    exit 1
fi

# Tests ask for more memory than there is, and expect to be refused as by malloc.
ASAN_OPTIONS=allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export ASAN_OPTIONS
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/asan
export CARGO_TARGET_DIR
packages="--package gabion-backend"
if [ -n "${GABION_TEST_ALL-}" ]; then
    packages="$packages --package gabion-scheme --package gabion-engine"
else
    echo "not run: the tests of scheme and engine; script/test --all runs them"
fi
# shellcheck disable=SC2086 # several words
cargo test --locked --target "$target" --lib --tests $packages
