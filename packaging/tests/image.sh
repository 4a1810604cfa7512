#!/bin/sh
# The key management service in an unpacked image, as a container runs it: as uid 65532, with a read-only root, its two
# volumes, and 128 MiB of memory. Prints the most memory that it took. Needs root. Makes the folder ROOT.store.
#
#   packaging/tests/image.sh ROOT
set -eu
root=$1
if [ -z "${GABION_IMAGE_NAMESPACE-}" ]; then
    export GABION_IMAGE_NAMESPACE=$$
    exec unshare --mount --pid --fork --kill-child "$0" "$root"
fi
limit=134217728
mkdir -p "$root/dev" "$root/proc"
mount --bind "$root" "$root"
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=700,uid=65532,gid=65532,size=1m tmpfs "$root/run/gabion-kms"
# On a disk, as a volume is: memory of a tmpfs is counted, too.
store=$root.store
mkdir "$store"
chown 65532:65532 "$store"
mount --bind "$store" "$root/var/lib/gabion-kms"
mount -o remount,bind,ro "$root"
! touch "$root/etc/writable" 2>/dev/null || { echo "the root is writable" >&2; exit 1; }

# A group of its own, of version 1 or 2; without one, the peak of the process is compared.
cgroup=
for folder in /sys/fs/cgroup/memory /sys/fs/cgroup/unified /sys/fs/cgroup; do
    cgroup=$folder/gabion-image-$GABION_IMAGE_NAMESPACE
    mkdir "$cgroup" 2>/dev/null || { cgroup=; continue; }
    # Neither file is there where memory is no controller of this hierarchy.
    [ ! -e "$cgroup/memory.limit_in_bytes" ] || echo $limit >"$cgroup/memory.limit_in_bytes"
    [ ! -e "$cgroup/memory.max" ] || echo $limit >"$cgroup/memory.max"
    [ ! -e "$cgroup/memory.limit_in_bytes" ] && [ ! -e "$cgroup/memory.max" ] || break
    rmdir "$cgroup"
    cgroup=
done
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; wait; [ -z "$cgroup" ] || rmdir "$cgroup"' EXIT

# in_image COMMAND...
in_image() {
    chroot --userspec=65532:65532 "$root" "$@"
}

export GABION_KMS_ADDR=unix:/run/gabion-kms/kms.sock HOME=/ PATH="$PATH:/usr/bin"
in_image gabion kms init --config /etc/gabion/kms.toml --shares 1 --threshold 1 --json | tr -d ' \n' >"$root/run/gabion-kms/init"
share=$(sed -n 's/.*"shares":\["\([^"]*\)".*/\1/p' "$root/run/gabion-kms/init")
GABION_KMS_TOKEN=$(sed -n 's/.*"token":"\([^"]*\)".*/\1/p' "$root/run/gabion-kms/init")
export GABION_KMS_TOKEN
# shellcheck disable=SC3045 # dash and bash have it
ulimit -c 0
(
    [ -z "$cgroup" ] || sh -c 'echo $PPID' >"$cgroup/cgroup.procs"
    exec chroot --userspec=65532:65532 "$root" /usr/bin/gabion kms serve --config /etc/gabion/kms.toml
) &
server=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ ! -S "$root/run/gabion-kms/kms.sock" ] || break
    sleep 0.3
done
echo "$share" | in_image gabion kms unseal
in_image gabion kms key create release --algorithm ML-DSA-65
echo "an image" >"$root/run/gabion-kms/image"
chown 65532:65532 "$root/run/gabion-kms/image"
in_image gabion kms sign --key release --out /run/gabion-kms/image.sig /run/gabion-kms/image
in_image gabion kms verify --key release --sig /run/gabion-kms/image.sig /run/gabion-kms/image
in_image gabion kms status --json
status=$root/proc/$server/status
grep '^Uid:.*65532' "$status"
peak=$(awk '/^VmHWM/ { print $2 * 1024 }' "$status")
if [ -n "$cgroup" ]; then
    grep -qx "$server" "$cgroup/cgroup.procs"
    group_peak=$(cat "$cgroup/memory.max_usage_in_bytes" 2>/dev/null || cat "$cgroup/memory.peak")
fi
kill "$server"
wait "$server"
server=
echo "memory: $peak bytes resident at most; the group ${group_peak:-is not usable here}"
[ "$peak" -le $limit ]
