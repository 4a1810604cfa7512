#!/bin/sh
# The kernels' tests on aarch64, emulated, where the target and the emulator are installed:
#
#     rustup target add aarch64-unknown-linux-gnu
#     apt-get install qemu-user gcc-aarch64-linux-gnu
#
# Ends with the harness's own counts, or "0 passed, 0 failed" where something is missing.

set -eu
cd "$(dirname "$0")/../.."
target=aarch64-unknown-linux-gnu
sysroot=$(rustc --print sysroot)
if [ ! -d "$sysroot/lib/rustlib/$target" ] || ! command -v qemu-aarch64 >/dev/null ||
    ! command -v aarch64-linux-gnu-gcc >/dev/null; then
    echo "aarch64: no target $target, qemu-aarch64 or aarch64-linux-gnu-gcc here; nothing run" >&2
    echo "0 passed, 0 failed"
    exit 0
fi
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu"
GABION_TEST_NEEDS_EXTENSIONS=1 # A test that does not find them fails instead of passing by.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER
export GABION_TEST_NEEDS_EXTENSIONS
cargo test --locked --package gabion-backend --target "$target"
