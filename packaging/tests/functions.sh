# Variables and functions of the tests that run within a root. Each of them fails if what it calls fails.
# shellcheck disable=SC2034 # other scripts use them
lower=/packages/lower
higher=/packages/higher
config=/etc/ssl/openssl.cnf
modules=/usr/lib/$(uname -m)-linux-gnu/ossl-modules
module=$modules/gabion.so

# fails COMMAND...  succeeds if the command was run and failed.
fails() {
    code=0
    "$@" || code=$?
    case $code in
    0 | 126 | 127) echo "exit code $code of: $*"; return 1 ;;
    esac
}

# lacks TEXT FILE  whether a file is there and does not have the text.
lacks() {
    code=0
    grep -q -e "$1" "$2" || code=$?
    [ "$code" -eq 1 ] || { echo "grep -e '$1' $2: exit code $code"; return 1; }
}

# absent FILE...  whether none of these files is there.
absent() {
    for file; do
        if [ -e "$file" ] || [ -L "$file" ]; then echo "$file is there"; return 1; fi
    done
}

# is_on, is_off  whether OpenSSL works, and has Gabion's provider active.
is_on() { listed=$(openssl list -providers) && echo "$listed" | grep -q '^ *gabion$'; }
is_off() { listed=$(openssl list -providers) && ! echo "$listed" | grep -q gabion; }

# is_untouched  whether the openssl package's files are as it installed them.
is_untouched() {
    lacks gabion "$config" && differences=$(dpkg --verify openssl) || return 1
    [ -z "$differences" ] || { echo "$differences"; return 1; }
}
