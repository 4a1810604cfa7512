# The packages of `make dist`, each as a description for nfpm. Sourced by script/dist
# and tests/packages/build, after script/tools.
#
#   gabion                    the command, its manual pages and completions
#   gabion-bench              the command that measures
#   gabion-kms                the service of `gabion kms serve` for systemd, and its configuration
#   gabion-openssl            OpenSSL with its FIPS provider and Gabion's, beside the system's
#   gabion-openssl-provider   Gabion's provider for the system's OpenSSL 3.5 or newer; off until it is enabled
#   libgabion1, libgabion-dev the C library, and what programs are compiled with

nfpm_version=v2.45.2
maintainer='The Gabion authors <maintainers@gabion.invalid>'
packages='gabion gabion-bench gabion-kms gabion-openssl gabion-openssl-provider libgabion1 libgabion-dev'

# build_nfpm  builds the program that writes packages.
build_nfpm() { go_tool nfpm "$nfpm_version" github.com/goreleaser/nfpm/v2/cmd/nfpm; }

# describe PACKAGE FORMAT  prints the description. FORMAT is deb or rpm; files are those of $stage/FORMAT/PACKAGE.
describe() {
    summary= details= depends= scripts= more=
    case $2 in
    deb) libc='libc6 (>= 2.34)' ;;
    rpm) libc='libc.so.6(GLIBC_2.34)(64bit)' ;;
    esac
    # Distributions of RPM name the package of libgcc differently, and each says which libraries it has.
    libc_and_gcc="$libc, $([ "$2" = deb ] && echo 'libgcc-s1' || echo 'libgcc_s.so.1()(64bit)')"
    case $1 in
    gabion)
        summary='post-quantum cryptography for servers'
        details='The gabion command: builds and checks an OpenSSL with FIPS provider, runs programs with it, signs files, keeps keys that signing uses up (LMS, XMSS), and serves and calls a key management service.'
        depends=$libc_and_gcc
        more='suggests: [gabion-openssl, gabion-kms, gabion-bench]'
        ;;
    gabion-bench)
        summary='measures gabion on this machine'
        details='The commands behind `gabion bench`, `gabion run` and `gabion report`.'
        depends="gabion (= $version-1), $libc_and_gcc"
        ;;
    gabion-kms)
        summary='key management service with post-quantum keys'
        details='Starts `gabion kms serve` under systemd, as a user of its own. The service is neither started nor enabled by the installation: write /etc/gabion/kms.toml and initialise the store first.'
        depends="gabion (= $version-1)"
        scripts='postinst prerm postrm'
        ;;
    gabion-openssl)
        summary='OpenSSL 3.5 with FIPS provider and Gabion, beside the system one'
        details='A complete OpenSSL under /usr/lib/gabion/openssl for `gabion exec`. No program uses it unless it is started so; the system OpenSSL is not changed. The configuration of the FIPS provider is made when it is installed, after its self-tests.'
        depends=$libc
        scripts='postinst postrm'
        ;;
    gabion-openssl-provider)
        summary='Gabion as a provider of the system OpenSSL'
        details='The module gabion.so for OpenSSL 3.5 or newer. Nothing loads it until `gabion provider enable` is called, which checks the new configuration first. Systems with an older OpenSSL use gabion-openssl instead.'
        depends="gabion (= $version-1), $libc"
        scripts='prerm'
        more='recommends: [openssl]' # `gabion provider enable` runs it
        ;;
    libgabion1)
        summary='post-quantum cryptography for C: the library'
        details='libgabion.so.1, which computes many operations at once.'
        depends=$libc_and_gcc
        ;;
    libgabion-dev)
        summary='post-quantum cryptography for C: header and archive'
        details='gabion.h, libgabion.a, and what pkg-config says of them.'
        depends="libgabion1 (= $version-1)"
        ;;
    esac
    cat <<END
name: $1
arch: $arch
platform: linux
version: $version
release: "1"
section: $(case $1 in lib*-dev) echo libdevel ;; lib*) echo libs ;; *) echo admin ;; esac)
priority: optional
maintainer: $maintainer
vendor: The Gabion authors
license: MIT OR Apache-2.0
description: |-
  $([ "$2" = deb ] && echo "$summary" || echo "$summary" | sed 's/^./\U&/')
$(echo "$details" | fold -s -w 76 | sed 's/ *$//; s/^/  /')
END
    [ -z "$more" ] || echo "$more"
    echo 'depends:'
    printf '%s\n' "$depends" | sed -e 's/, */\n/g' | while read -r one; do
        # rpm writes a version without parentheses.
        [ "$2" = deb ] || one=$(printf %s "$one" | sed -e 's/ (\(.*\))/ \1/')
        [ -z "$one" ] || echo "  - \"$one\""
    done
    case $1-$2 in
    gabion-openssl-provider-deb)
        # Debian 12's OpenSSL is older: its name for the library has no suffix. The last name is of no package, and part of
        # what apt says when it refuses this one. `Breaks: libssl3` would have apt remove all programs that use it.
        echo '  - "libssl3t64 (>= 3.5) | libssl4 | gabion-openssl-is-for-older-systems"'
        ;;
    gabion-openssl-provider-rpm) echo '  - "openssl-libs >= 3.5"' ;;
    esac
    echo 'contents:'
    "list_$2" "$1"
    [ "$1" != gabion-kms ] ||
        printf '  - { src: "packaging/kms.toml", dst: /etc/gabion/kms.toml, type: config|noreplace, file_info: { mode: 0644 } }\n'
    if [ -n "$scripts" ]; then
        echo 'scripts:'
        for script in $scripts; do
            case $script in
            postinst) key=postinstall ;;
            prerm) key=preremove ;;
            postrm) key=postremove ;;
            esac
            echo "  $key: packaging/$1.$script"
        done
    fi
    case $1-$2 in
    libgabion1-deb) printf 'deb:\n  compression: zstd\n  triggers: { activate_noawait: [ldconfig] }\n' ;;
    libgabion1-rpm) printf 'scripts: { postinstall: packaging/libgabion1.ldconfig, postremove: packaging/libgabion1.ldconfig }\nrpm: { compression: zstd }\n' ;;
    *-deb) printf 'deb: { compression: zstd }\n' ;;
    *-rpm) printf 'rpm: { compression: zstd }\n' ;;
    esac
}

# list_deb PACKAGE, list_rpm PACKAGE  prints the entries of a package's files.
list_deb() { printf '  - { src: "%s/", dst: /, type: tree }\n' "$stage/deb/$1"; }

# RPM marks documentation and licences, and finds the build IDs of executable libraries only.
list_rpm() {
    find "$stage/rpm/$1" -mindepth 1 -printf '%y /%P\n' | LC_ALL=C sort -k 2 | while read -r kind file; do
        to=$file more=
        case $file in
        /usr/share/doc/*/LICENSE-*) to=/usr/share/licenses/${file#/usr/share/doc/} more=', type: licence' ;;
        /usr/share/doc/*/* | /usr/share/man/*) more=', type: doc' ;;
        *.so | *.so.*) more=', file_info: { mode: 0755 }' ;;
        esac
        case $kind$file in
        l*) printf '  - { src: "%s", dst: "%s", type: symlink }\n' "$(readlink "$stage/rpm/$1$file")" "$to" ;;
        d/usr/share/doc/*) printf '  - { dst: "%s", type: dir }\n' "$file" "/usr/share/licenses/${file##*/}" ;;
        d/usr/lib/gabion*) printf '  - { dst: "%s", type: dir }\n' "$to" ;;
        f*) printf '  - { src: "%s", dst: "%s"%s }\n' "$stage/rpm/$1$file" "$to" "$more" ;;
        esac
    done
}
