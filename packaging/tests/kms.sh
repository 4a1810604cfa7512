#!/bin/sh
# The key management service as its unit starts it: as its user, with its configuration and a socket of the machine.
set -e
as_user='setpriv --reuid gabion-kms --regid gabion-kms --init-groups --no-new-privs --inh-caps=-all --bounding-set=-all'
install -d -m 700 -o gabion-kms -g gabion-kms /run/gabion-kms
$as_user gabion kms init --config /etc/gabion/kms.toml --shares 1 --threshold 1 --json >/tmp/init.json
python3 - <<'PYTHON'
import json
made = json.load(open("/tmp/init.json"))
open("/tmp/share", "w").write(made["shares"][0] + "\n")
open("/tmp/token", "w").write(made["token"])
PYTHON
ulimit -c 0
$as_user gabion kms serve --config /etc/gabion/kms.toml >/tmp/kms.log 2>&1 &
server=$!
export GABION_KMS_ADDR=unix:/run/gabion-kms/kms.sock
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ ! -S /run/gabion-kms/kms.sock ] || break
    sleep 0.3
done
gabion kms unseal </tmp/share
GABION_KMS_TOKEN=$(cat /tmp/token)
export GABION_KMS_TOKEN
gabion kms key create release --algorithm ML-DSA-65
echo "an image" >/tmp/image
gabion kms sign --key release --out /tmp/image.sig /tmp/image
gabion kms verify --key release --sig /tmp/image.sig /tmp/image
gabion kms status --json
kill "$server"
wait "$server"
