#!/bin/sh
# The provider's own tests with other OpenSSLs than the bundle's: `tests/openssl/versions.sh [PREFIX ...]`
# (default: of 3.6.3 and 4.0.3 what front/go/script/openssl has built). An OpenSSL that is not there is
# said to be skipped. What needs the FIPS module passes by where that was not built.

set -eu
cd "$(dirname "$0")/../.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gabion/openssl
[ $# -gt 0 ] || set -- "$cache/3.6.3" "$cache/4.0.3"

status=0
ran=
for prefix in "$@"; do
    if [ ! -x "$prefix/bin/openssl" ]; then
        echo "skipped: no openssl in $prefix; front/go/script/openssl builds it"
        continue
    fi
    ran=1
    LD_LIBRARY_PATH=$prefix/lib "$prefix/bin/openssl" version
    GABION_OPENSSL_PREFIX=$prefix cargo test --locked --package gabion-provider --no-fail-fast --test '*' || status=1
done
[ -n "$ran" ] || echo "0 passed, 0 failed"
exit $status
