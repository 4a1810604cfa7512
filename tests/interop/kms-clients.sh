#!/bin/sh
# Clients of Vault and OpenBao from package registries, and `gabion kms dev`, over TLS on this machine alone: which call of which client
# does what it does with Vault. Prints the matrix as docs/guide/kms-clients.md has it, and compares both. Prints "N passed, N failed" and
# exits 0 only when none failed.
#
#   tests/interop/kms-clients.sh            with what is in the cache; else it says what was skipped
#   tests/interop/kms-clients.sh --fetch    gets the clients first, into ~/.cache/gabion: from PyPI, npm, Maven Central and as modules
#                                           of Go, in the versions below and in tests/interop/kms/clients/go/go.mod

set -eu
cd "$(dirname "$0")/../.."
folder=${XDG_CACHE_HOME:-$HOME/.cache}/gabion/interop/kms-clients
programs=tests/interop/kms/clients
page=docs/guide/kms-clients.md
python=$folder/python/bin/python
. tests/interop/kms/fetch

hvac=2.4.0
ansible_core=2.19.14
# The bundle that has community.hashi_vault, of which nothing else is kept.
ansible=12.3.0
node_vault=0.12.0
spring_vault=4.0.1
jackson=3.0.4

with_python() {
    python3 -m venv "$folder/python" &&
        "$python" -m pip install --quiet "hvac==$hvac" "ansible-core==$ansible_core" &&
        "$python" -m pip download --quiet --no-deps --dest "$folder/wheels" "ansible==$ansible" &&
        "$python" - "$folder" <<'END' && rm -rf "$folder/wheels"
import glob, sys, zipfile
[wheel] = glob.glob(sys.argv[1] + "/wheels/ansible-*.whl")
with zipfile.ZipFile(wheel) as names:
    ours = [name for name in names.namelist() if name.startswith("ansible_collections/community/hashi_vault/")]
    names.extractall(sys.argv[1] + "/collections", ours)
END
}
with_npm() { npm install --silent --no-audit --no-fund --prefix "$folder/node" "node-vault@$node_vault"; }
with_maven() {
    mvn --quiet --batch-mode --file "$programs/pom.xml" "-Dspring.vault=$spring_vault" "-Djackson=$jackson" \
        dependency:copy-dependencies "-DoutputDirectory=$folder/spring"
}
# Of a folder of its own: what is built belongs to nobody's checkout.
with_go() { (cd "$programs/go" && go mod download && go build -o "$folder/bin/" ./vaultapi ./others); }
have() { command -v "$1" >/dev/null 2>&1; }
if [ "${1:-}" = --fetch ]; then
    mkdir -p "$folder/bin"
    [ -d "$folder/collections" ] || fetch "hvac and Ansible" with_python
    [ -d "$folder/node/node_modules/node-vault" ] || fetch node-vault with_npm
    [ -e "$folder/spring/jackson-databind-$jackson.jar" ] || fetch spring-vault with_maven
    fetch "clients in Go" with_go
fi
# Compiled each time: the cache of modules is what it takes.
mkdir -p "$folder/bin"
(cd "$programs/go" && GOPROXY=off GOFLAGS=-mod=readonly go build -o "$folder/bin/" ./vaultapi ./others) >/dev/null 2>&1 ||
    rm -f "$folder/bin/vaultapi" "$folder/bin/others"

# There is no OpenSSL of ours in it.
GABION_OPENSSL_PREFIX=${GABION_OPENSSL_PREFIX:-none}
export GABION_OPENSSL_PREFIX
. tests/servers/common
. tests/interop/kms/dev

# skip WHAT  says what is missing; who asked for it is not to take that for a pass.
skip() { echo "skipped: $1 is not in $folder; tests/interop/kms-clients.sh --fetch gets it"; }

# Prints the rows of a client: the name of a call, a tab, and what came of it.
rows() {
    case $1 in
    curl) "$programs/by-curl.sh" ;;
    hvac) "$python" -B "$programs/by-hvac.py" ;;
    vault-api) "$folder/bin/vaultapi" ;;
    openbao-api | vault-client-go | tink | gocloud | go-kms-wrapping) "$folder/bin/others" "$1" ;;
    node-vault)
        NODE_PATH=$folder/node/node_modules NODE_EXTRA_CA_CERTS=$VAULT_CACERT node "$programs/node-vault.js"
        ;;
    spring-vault) java -cp "$folder/spring/*" "$programs/SpringVault.java" ;;
    ansible)
        ROWS=$work/ansible.rows ANSIBLE_COLLECTIONS_PATH=$folder/collections ANSIBLE_LOCALHOST_WARNING=false \
            ANSIBLE_INVENTORY_UNPARSED_WARNING=false ANSIBLE_HASHI_VAULT_CA_CERT=$VAULT_CACERT \
            "$folder/python/bin/ansible-playbook" "$programs/ansible.yml" >&2 || return
        cat "$work/ansible.rows"
        ! grep -q 'failed$' "$work/ansible.rows"
        ;;
    esac
}
is_here() {
    case $1 in
    curl) have curl ;;
    hvac | ansible) [ -d "$folder/collections" ] ;;
    vault-api) [ -x "$folder/bin/vaultapi" ] ;;
    node-vault) have node && [ -d "$folder/node/node_modules/node-vault" ] ;;
    spring-vault) have java && [ -e "$folder/spring/spring-vault-core-$spring_vault.jar" ] ;;
    *) [ -x "$folder/bin/others" ] ;;
    esac
}
# The version of a client.
version() {
    case $1 in
    curl) ;;
    hvac) echo "$hvac" ;;
    ansible) sed -n 's/.*"version": "\([^"]*\)".*/\1/p' "$folder/collections/ansible_collections/community/hashi_vault/MANIFEST.json" | head -n 1 ;;
    node-vault) echo "$node_vault" ;;
    spring-vault) echo "$spring_vault" ;;
    *)
        case $1 in
        vault-api) module=github.com/hashicorp/vault/api ;;
        openbao-api) module=github.com/openbao/openbao/api/v2 ;;
        vault-client-go) module=github.com/hashicorp/vault-client-go ;;
        tink) module=github.com/tink-crypto/tink-go-hcvault/v2 ;;
        gocloud) module=gocloud.dev/secrets/hashivault ;;
        go-kms-wrapping) module=github.com/hashicorp/go-kms-wrapping/wrappers/transit/v2 ;;
        esac
        awk -v module="$module" '$1 == module && !/indirect/ { sub("^v", "", $2); print $2; exit }' "$programs/go/go.mod"
        ;;
    esac
}

clients='curl hvac vault-api openbao-api vault-client-go node-vault spring-vault ansible tink gocloud go-kms-wrapping'
missing=
for client in $clients; do
    if is_here "$client"; then
        made() { rows "$client" >"$work/$client"; }
        check "$client" made
    else
        skip "$client"
        missing=1
    fi
done

# What a call came to, in a table: a row for each call, in the order in which the first client that has it makes it.
# shellcheck disable=SC2046 # several words
matrix() {
    printf '| call |'
    for client in $clients; do printf ' %s |' "$(echo "$client" $(version "$client"))"; done
    printf '\n|---|'
    for client in $clients; do printf -- '---|'; done
    echo
    for client in $clients; do sed "s/^/$client\t/" "$work/$client"; done |
        awk -F '\t' -v clients="$clients" '
            !($2 in seen) { seen[$2] = 1; calls[++count] = $2 }
            { cells[$2, $1] = " " $3 }
            END {
                columns = split(clients, of, " ")
                for (i = 1; i <= count; i++) {
                    line = "| " calls[i] " |"
                    for (j = 1; j <= columns; j++) line = line cells[calls[i], of[j]] " |"
                    print line
                }
            }'
}
is_documented() { matrix | while IFS= read -r line; do grep -qxF -- "$line" "$page" || { echo "$page lacks: $line"; return 1; }; done; }
if [ -z "$missing" ]; then
    matrix
    check "$page has the matrix" is_documented
fi
still() { here "$server" && "$gabion" kms status; }
check "the server is still there" still
check "no word of a defect" test ! -s "$work/dev.log"
[ "$fetched" -eq 0 ] || failed=$((failed + 1))
result
