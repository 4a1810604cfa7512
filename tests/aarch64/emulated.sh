#!/bin/sh
# The kernels' tests on aarch64, emulated, where the target, a linker and the emulator are installed:
#
#     rustup target add aarch64-unknown-linux-gnu
#     apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
#
# Ends with the harness's own counts, or says what is missing and "0 passed, 0 failed". With
# GABION_TEST_NEEDS_AARCH64 set it installs what it can, by rustup and, as root, by apt-get, and fails
# where something is missing still. It belongs to `script/test --all`, since the emulated tests take long.

set -eu
cd "$(dirname "$0")/../.."
target=aarch64-unknown-linux-gnu
if [ "$(uname -m)" = aarch64 ]; then
    echo "skipped: this is such a processor, where the other tests run these; nothing to emulate"
    echo "0 passed, 0 failed"
    exit 0
fi

have() { command -v "$1" >/dev/null 2>&1; }
have_target() { [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; }
packages() {
    have qemu-aarch64 || printf 'qemu-user '
    have aarch64-linux-gnu-gcc || printf 'gcc-aarch64-linux-gnu '
    [ -e /usr/aarch64-linux-gnu/lib/libc.so ] || printf 'libc6-dev-arm64-cross '
}
install_packages() {
    DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "$@"
}

needed=${GABION_TEST_NEEDS_AARCH64:-}
if [ -n "$needed" ] && ! have_target && have rustup; then
    rustup target add "$target" >&2 || true
fi
if [ -n "$needed" ] && [ -n "$(packages)" ] && have apt-get && [ "$(id -u)" -eq 0 ]; then
    # shellcheck disable=SC2046  # one word for each package
    install_packages $(packages) >&2 || { apt-get -q update >&2 && install_packages $(packages) >&2; } || true
fi
missing=$(packages)
if ! have_target; then
    missing="$missing$target (rustup target add $target)"
fi
if [ -n "$missing" ]; then
    echo "skipped: nothing is known of the NEON kernels here; missing: $missing"
    echo "0 passed, 0 failed"
    [ -z "$needed" ]
    exit
fi

CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu"
GABION_TEST_NEEDS_EXTENSIONS=1 # A test that does not find them fails instead of passing by.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER
export GABION_TEST_NEEDS_EXTENSIONS
cargo test --locked --package gabion-backend --target "$target"
