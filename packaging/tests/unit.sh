#!/bin/sh
# The unit of the key management service under systemd: started, unsealed, upgraded, killed and removed. Prints `ok NAME`
# or `FAILED NAME` for each check.
set -u
. /host/functions.sh
. /host/checks.sh
GABION_KMS_ADDR=unix:/run/gabion-kms/kms.sock
export GABION_KMS_ADDR

check "install" 'install_version $lower; is ActiveState inactive; is UnitFileState disabled'
check "a configuration that was not changed is upgraded" '
    install_version $higher; grep -q "^# changed" /etc/gabion/kms.toml; install_version $lower
    lacks "^# changed" /etc/gabion/kms.toml
'
check "a configuration that was changed is kept" '
    echo "# mine" >>/etc/gabion/kms.toml; install_version $higher; grep -q "^# mine" /etc/gabion/kms.toml
    test -e /etc/gabion/kms.toml.dpkg-dist; install_version $lower; grep -q "^# mine" /etc/gabion/kms.toml
'
check "initialise the store" '
    runuser -u gabion-kms -- gabion kms init --config /etc/gabion/kms.toml --shares 1 --threshold 1 --passphrase pass:horse --json >/tmp/init.json
'
python3 -c 'import json
made = json.load(open("/tmp/init.json"))
print(made["shares"][0], file=open("/tmp/share", "w"))
print(made["token"], end="", file=open("/tmp/token", "w"))'
GABION_KMS_TOKEN=$(cat /tmp/token)
export GABION_KMS_TOKEN
allow_unlocked
check "start, which waits for the server to be ready" '
    systemctl start $unit; is Type notify; is ActiveState active; is NRestarts 0
'
remember
check "a user without rights" '
    of_process status "^Uid:.$(id -u gabion-kms)"; of_process status "^CapEff:.0+$"
    of_process status "^CapBnd:.0+$"; of_process status "^NoNewPrivs:.1"; of_process status "^Seccomp:.2"
'
check "no core dumps" 'of_process limits "^Max core file size +0 +0 "'
[ -n "$may_not_lock" ] ||
    check "locked memory" '
        of_process limits "^Max locked memory +unlimited +unlimited "; of_process status "^VmLck:.*[1-9]"
    '
check "folders" '
    test "$(stat -c "%a %U" $state)" = "700 gabion-kms"
    test "$(stat -c "%a %U" /run/gabion-kms)" = "700 gabion-kms"
'
check "the file system is read-only but for the state" '
    of_process mountinfo " / / ro[ ,]"; of_process mountinfo " $state rw[ ,]"
'
check "sealed" 'fails gabion kms status'
check "unseal" 'gabion kms unseal </tmp/share; serves'
check "the root key is in memory of memfd_secret" 'grep -q secretmem "/proc/$pid/maps"'
check "a signature" '
    gabion kms key create release --algorithm ML-DSA-65; echo image >image
    gabion kms sign --key release --out image.sig image; gabion kms verify --key release --sig image.sig image
'
check "reload" 'systemctl reload $unit; is MainPID $pid; serves'
check "hardening of 2.0 or better" 'systemd-analyze security --offline=true --threshold=20 /usr/lib/systemd/system/$unit'
check "an upgrade leaves a server that needs shares running, and says so" '
    install_version $higher >said 2>&1; grep -q "systemctl restart gabion-kms" said; is MainPID $pid; serves
'
check "the passphrase as a credential" '
    mkdir -p /etc/systemd/system/$unit.d; echo horse >/etc/gabion/kms.passphrase
    chmod 600 /etc/gabion/kms.passphrase
    printf "[Service]\nLoadCredential=passphrase:/etc/gabion/kms.passphrase\n" >/etc/systemd/system/$unit.d/seal.conf
    printf "[seal]\npassphrase_file = \"/run/credentials/$unit/passphrase\"\n" >>/etc/gabion/kms.toml
    systemctl daemon-reload; systemctl restart $unit; serves_soon
'
remember
check "an upgrade restarts a server that opens by itself" '
    install_version $lower; is ActiveState active; serves_soon; test "$(property MainPID)" != "$pid"
'
remember
check "a killed server starts again" '
    kill -KILL $pid
    for _ in 1 2 3 4 5 6; do case $(property MainPID) in "$pid" | 0) sleep 0.5 ;; esac; done
    serves_soon; test "$(property MainPID)" != "$pid"
'
check "the key is there still" 'gabion kms verify --key release --sig image.sig image'
check "removal stops it, and keeps configuration and store" '
    dpkg --remove gabion-kms gabion; fails systemctl is-active $unit; fails pgrep -x gabion
    test -e /etc/gabion/kms.toml; test -e $state/store
'
check "installation again serves what was there" '
    install_version $higher; systemctl start $unit; serves_soon
    gabion kms verify --key release --sig image.sig image
'
check "purge keeps keys, and says so" '
    rm -r /etc/systemd/system/$unit.d /etc/gabion/kms.passphrase; dpkg --purge gabion-kms >said 2>&1
    grep -q $state said; absent /etc/gabion; test -e $state/store; fails systemctl is-active $unit
'
