#!/bin/sh
# Other people's libraries verify the JSON Web Tokens that `gabion kms dev` signs, by its sets of JWKs: PyJWT, joserfc and
# jwcrypto for Python, jose for Node, go-jose and golang-jwt for Go, Nimbus JOSE+JWT for Java and jsonwebtoken for Rust,
# each with the algorithms that it knows. Each takes a good token, and refuses one whose claims were changed, one of another
# key, and one that is over. Each reads the set of the types that are older than RFC 9964 (kty=EC,OKP,RSA), and the set with
# keys of all types as docs/guide/kms.md says. Prints "N passed, N failed" and exits 0 only when none failed.
#
#   tests/interop/jwt.sh            with what is in the cache; else it says what was skipped
#   tests/interop/jwt.sh --fetch    gets the libraries first, from PyPI, npm, Go's proxy, Maven Central and crates.io, into
#                                   ~/.cache/gabion

set -eu
cd "$(dirname "$0")/../.."
folder=${XDG_CACHE_HOME:-$HOME/.cache}/gabion/interop/jwt
python=$folder/python/bin/python
node=$folder/node/node_modules/node/bin/node
modules=$folder/node/node_modules
jars=$folder/jars
rust=$folder/rust
programs=tests/interop/jwt
. tests/interop/kms/fetch

for_python() {
    python3 -m venv "$folder/python" &&
        "$python" -m pip install --quiet 'PyJWT[crypto]==2.15.1' joserfc==1.8.0 jwcrypto==1.6.1 cryptography==50.0.2
}
# ML-DSA needs a newer Node than most machines have.
for_node() {
    mkdir -p "$folder/node" && (cd "$folder/node" && npm install --silent --no-audit --no-fund --prefix . \
        node@24.21.0 jose@6.2.18)
}
for_java() { mvn -q -f "$programs/java/pom.xml" dependency:copy-dependencies -DoutputDirectory="$jars"; }
for_rust() { cargo build --locked --quiet --manifest-path "$programs/rust/Cargo.toml" --target-dir "$rust"; }
if [ "${1:-}" = --fetch ]; then
    mkdir -p "$folder"
    "$python" -c 'import jwt, joserfc, jwcrypto' 2>/dev/null || fetch "PyJWT, joserfc and jwcrypto" for_python
    [ -x "$node" ] && [ -d "$modules/jose" ] || fetch "jose for Node" for_node
    (cd "$programs/go" && go mod download) >/dev/null 2>&1 || true
    [ -d "$jars" ] || fetch "Nimbus JOSE+JWT" for_java
    fetch "jsonwebtoken" for_rust
fi

# There is no OpenSSL of ours in it.
GABION_OPENSSL_PREFIX=${GABION_OPENSSL_PREFIX:-none}
export GABION_OPENSSL_PREFIX
. tests/servers/common

# skip WHAT  says what is missing; who asked for it is not to take that for a pass.
skip() { echo "skipped: $1 is not in $folder; tests/interop/jwt.sh --fetch gets it"; }

TMPDIR=$work "$gabion" kms dev --listen 127.0.0.1:0 --json >"$work/dev.json" 2>"$work/dev.log" &
server=$!
started=$server
tries=100
until [ -s "$work/dev.json" ] || [ "$tries" -eq 0 ]; do
    sleep 0.1
    tries=$((tries - 1))
done
GABION_KMS_ADDR=$(member address "$work/dev.json")
GABION_KMS_TOKEN=$(member token "$work/dev.json")
GABION_KMS_CACERT=$(member ca_file "$work/dev.json")
export GABION_KMS_ADDR GABION_KMS_TOKEN GABION_KMS_CACERT
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY 2>/dev/null || true

# set_of QUERY FILE
set_of() {
    curl --silent --show-error --fail --cacert "$GABION_KMS_CACERT" -H "Authorization: Bearer $GABION_KMS_TOKEN" \
        "$GABION_KMS_ADDR/v1/kms/jwks/default$1" -o "$work/$2"
}
# sign KEY LIFETIME FILE [SUBJECT]
sign() {
    "$gabion" kms jwt sign --key "$1" --lifetime "$2" --claim iss=https://id.example.com --claim aud=web \
        --claim "sub=${4:-alice}" >"$work/$3"
}
# part FILE NUMBER
part() { cut -d . -f "$2" "$work/$1"; }

all='EdDSA ES256 ES384 ES512 PS256 ML-DSA-44 ML-DSA-65 ML-DSA-87'
tokens() {
    for alg in $all; do
        case $alg in
        EdDSA) algorithm=ed25519 ;;
        ES256) algorithm=ecdsa-p-256 ;;
        ES384) algorithm=ecdsa-p-384 ;;
        ES512) algorithm=ecdsa-p-521 ;;
        PS256) algorithm=rsa-2048 ;;
        *) algorithm=$alg ;;
        esac
        # The other key of the same algorithm has signed the token that is taken for this one's.
        for name in "$alg" "other-$alg"; do
            "$gabion" kms key create "$name" --algorithm "$algorithm" --jwt-max-lifetime 1h
            sign "$name" 15m "$name.jwt" 2>/dev/null
            set_of "?key=$name" "$name.jwks"
        done
        sign "$alg" 1s "$alg.over.jwt" 2>/dev/null
        # The claims of one token under the signature of another.
        sign "$alg" 15m "$alg.changed.jwt" mallory 2>/dev/null
        echo "$(part "$alg.jwt" 1).$(part "$alg.changed.jwt" 2).$(part "$alg.jwt" 3)" >"$work/changed.jwt"
        mv "$work/changed.jwt" "$work/$alg.changed.jwt"
        "$gabion" kms jwt verify --key "$alg" --audience web "$work/$alg.jwt"
    done
    # It signs no tokens, and some libraries know keys of ML-DSA alone.
    "$gabion" kms key create slh --algorithm SLH-DSA-SHA2-128f
    set_of '?kty=EC,OKP,RSA' old.jwks
    set_of '' all.jwks
}
check "the service signs tokens of each algorithm" tokens
# What lives for a second is over.
sleep 2

# takes PROGRAM... -- JWKS TOKEN ALG  the program takes the token, and its subject is the one.
takes() {
    [ "$("$@")" = alice ]
}
# refuses WORDS PROGRAM...  the program runs, and says that the token is not valid, in its own words.
refuses() {
    refused_for=$1
    shift
    ! "$@" >"$work/said" 2>&1 || return 1
    cat "$work/said"
    grep -qiE "$refused_for" "$work/said"
}

# verified NAME ALGS MIXED PROGRAM...  PROGRAM takes JWKS TOKEN ALG. MIXED: whether it reads a set that has keys of ML-DSA and
# SLH-DSA beside others (reads) or fails on all of it (fails).
verified() {
    library=$1 algs=$2 mixed=$3
    shift 3
    for alg in $algs; do
        check "$library takes $alg" takes "$@" "$work/$alg.jwks" "$work/$alg.jwt" "$alg"
        check "$library refuses $alg with other claims" \
            refuses 'signature|verif|missing key|cryptographic primitive' "$@" "$work/$alg.jwks" "$work/$alg.changed.jwt" "$alg"
        check "$library refuses $alg of another key" \
            refuses 'key|kid|signature|verif' "$@" "$work/$alg.jwks" "$work/other-$alg.jwt" "$alg"
        check "$library refuses $alg that is over" \
            refuses 'expire|exp' "$@" "$work/$alg.jwks" "$work/$alg.over.jwt" "$alg"
    done
    check "$library reads the set of older types" takes "$@" "$work/old.jwks" "$work/ES256.jwt" ES256
    case $mixed in
    reads) check "$library reads the set of all types" takes "$@" "$work/all.jwks" "$work/ES256.jwt" ES256 ;;
    fails) check "$library fails on the set of all types, as docs/guide/kms.md says" \
        refuses . "$@" "$work/all.jwks" "$work/ES256.jwt" ES256 ;;
    esac
}

old='EdDSA ES256 ES384 ES512 PS256'
if [ -x "$python" ]; then
    verified PyJWT "$old" reads "$python" -B "$programs/verify.py" pyjwt
    verified joserfc "$old" reads "$python" -B "$programs/verify.py" joserfc
    verified jwcrypto "$all" fails "$python" -B "$programs/verify.py" jwcrypto
else
    skip "PyJWT, joserfc and jwcrypto"
fi
if [ -x "$node" ] && [ -d "$modules/jose" ]; then
    JOSE_MODULES=$modules
    export JOSE_MODULES
    verified jose "$all" reads "$node" "$programs/verify.mjs"
else
    skip "jose for Node"
fi
# Compiled each time: the cache of modules is what it takes.
if (cd "$programs/go" && GOPROXY=off GOFLAGS=-mod=readonly go build -o "$work/go-verify" .) >/dev/null 2>&1; then
    verified go-jose "$old" fails "$work/go-verify" go-jose
    verified golang-jwt "$old" none "$work/go-verify" golang-jwt
else
    skip "go-jose and golang-jwt"
fi
if [ -d "$jars" ] && javac -cp "$jars/*" -d "$work/java" "$programs/java/Verify.java" >"$work/javac.log" 2>&1; then
    verified Nimbus "$old" reads java -cp "$work/java:$jars/*" Verify
else
    skip "Nimbus JOSE+JWT, or javac to compile with"
fi
if [ -x "$rust/debug/interop-jwt" ]; then
    verified jsonwebtoken 'EdDSA ES256 ES384 PS256' reads "$rust/debug/interop-jwt"
else
    skip jsonwebtoken
fi

still() { here "$server" && "$gabion" kms status; }
check "the server is still there" still
check "no word of a defect" test ! -s "$work/dev.log"
[ "$fetched" -eq 0 ] || failed=$((failed + 1))
result
