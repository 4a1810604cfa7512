#!/bin/sh
# The unit with a store, an audit log and a configuration of commit 18f74786, whose store has format 1 and is in other
# folders than the package's: docs/operate/kms.md, "Upgrading". Prints `ok NAME` or `FAILED NAME`.
set -u
. /host/functions.sh
. /host/checks.sh
old=/host/service-1
text() { python3 -c 'import functools, json, sys
value = functools.reduce(lambda value, key: value[int(key) if key.isdigit() else key], sys.argv[1:], json.load(open("/host/service-1/golden.json")))
print(value)' "$@"; }

check "install" 'install_version $higher'
check "a certificate" '
    openssl req -x509 -newkey EC -pkeyopt group:P-256 -nodes -keyout /etc/gabion/kms.key -out /etc/gabion/kms.pem -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE
    chgrp gabion-kms /etc/gabion/kms.key; chmod 640 /etc/gabion/kms.key
'
check "move the store" '
    cp $old/store $state/store; mkdir $state/audit
    cp -r $old/audit/checkpoint $old/audit/tile $old/audit/segment-00000000 $state/audit/
    truncate --size=1M $state/audit/segment-00000000; chown -R gabion-kms: $state; chmod -R go= $state
'
check "its configuration, with the new folders" '
    sed "s#/var/lib/gabion/kms#$state/store#; s#/var/lib/gabion/audit#$state/audit#" /host/kms-18f74786.toml >/etc/gabion/kms.toml
'
# Of this test: the administrator's certificate and, on some machines, locked memory.
sed -i "s/^administration_needs_certificate = true/administration_needs_certificate = false/" /etc/gabion/kms.toml
[ -z "$may_not_lock" ] || sed -i "s/^allow_unlocked = false/allow_unlocked = true/" /etc/gabion/kms.toml
GABION_KMS_ADDR=https://localhost:8200
GABION_KMS_CACERT=/etc/gabion/kms.pem
export GABION_KMS_ADDR GABION_KMS_CACERT
text shares 1 >shares
text shares 2 >>shares
check "start" 'systemctl start $unit'
check "unseal, which says where the copy of the store is" '
    gabion kms unseal <shares >said 2>&1 || { cat said; exit 1; }; grep "^upgraded: .*store.format-1" said; serves
'
check "the copy opens as the store did" '
    python3 -c "import sqlite3; assert sqlite3.connect(\"$state/store.format-1\").execute(\"SELECT min_writer FROM store\").fetchone() == (1,)"
'
# The fixture's tokens have expired.
check "recover the administrator" 'gabion kms recover-admin --json <shares >recovered'
GABION_KMS_TOKEN=$(python3 -c 'import json; print(json.load(open("/tmp/recovered"))["token"])')
export GABION_KMS_TOKEN
check "a signature of before verifies" '
    printf image >image; text signature signature | base64 -d >old.sig
    gabion kms verify --key release --version "$(text signature version)" --sig old.sig image
'
check "a key of before signs" '
    gabion kms sign --key release --out image.sig image; gabion kms verify --key release --sig image.sig image
'
check "after a restart it is upgraded no more" '
    systemctl restart $unit; gabion kms unseal <shares >said 2>&1; lacks upgraded said; serves
'
