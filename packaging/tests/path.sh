#!/bin/sh
# path.sh EXPECTED COMMANDS  runs the commands of one path of tests/packages/paths, checks whether OpenSSL loads Gabion's
# provider then (on, off, either), and tries the programs. Prints `done` or `not done` for the commands.
set -u
. /host/functions.sh

install_packages() { dpkg -i "$1"/gabion_*.deb "$1"/gabion-openssl-provider_*.deb; }
remove_packages() { dpkg --remove gabion gabion-openssl-provider; }
purge_packages() { dpkg --purge gabion gabion-openssl-provider; }

# interrupt BYTES COMMAND...  runs dpkg, which is killed when it has read so many bytes of the provider package's files.
interrupt() {
    mkdir -p /run/bin
    cat >/run/bin/dpkg-deb <<END
#!/bin/sh
case "\$*" in
*--fsys-tarfile*gabion-openssl-provider*)
    /usr/bin/dpkg-deb "\$@" | head -c $1
    sleep 0.5
    kill -KILL \$PPID
    ;;
*) exec /usr/bin/dpkg-deb "\$@" ;;
esac
END
    chmod 755 /run/bin/dpkg-deb
    shift
    interrupted=$PATH
    PATH=/run/bin:$PATH
    fails "$@"
    PATH=$interrupted
}

# kill_at_disable WHEN  has dpkg killed before or after a maintainer script calls `gabion provider disable`.
kill_at_disable() {
    cat >/usr/local/bin/gabion <<END
#!/bin/sh
[ $1 = before ] || /usr/bin/gabion "\$@"
read -r _ _ _ dpkg _ </proc/\$PPID/stat
kill -KILL \$dpkg \$PPID
END
    chmod 755 /usr/local/bin/gabion
}

# full FOLDER  fills the file system of a folder, which is one of its own for any folder but /.
full() {
    if [ "$1" != / ]; then
        cp -a "$1" /run/content
        mount -t tmpfs -o "mode=755,size=$(($(du -sk "$1" | cut -f 1) + 64))k" tmpfs "$1"
        cp -a /run/content/. "$1/"
        rm -rf /run/content
    fi
    fails dd if=/dev/zero of="$1/filler" bs=1M
    fails dd if=/dev/zero of="$1/filler-of-the-rest" bs=1k
}

truncate_module() { truncate --size="$1" "$module"; }
# An ELF file for aarch64: its field e_machine.
foreign_module() { printf '\267' | dd of="$module" bs=1 seek=18 conv=notrunc status=none; }

# foreign_package  prints the path of the higher provider package as it would be for arm64.
foreign_package() {
    dpkg-deb -R "$higher"/gabion-openssl-provider_*.deb /run/foreign
    sed -i 's/^Architecture:.*/Architecture: arm64/' /run/foreign/DEBIAN/control
    printf '\267' | dd of="/run/foreign$module" bs=1 seek=18 conv=notrunc status=none
    dpkg-deb --root-owner-group -Znone -b /run/foreign /run/foreign.deb >/dev/null
    echo /run/foreign.deb
}

# broken_package HOW  prints the path of a damaged copy of the higher provider package: cut, or with wrong bytes.
broken_package() {
    cp "$higher"/gabion-openssl-provider_*.deb /run/broken.deb
    size=$(stat -c %s /run/broken.deb)
    case $1 in
    head) truncate --size=100 /run/broken.deb ;;
    half) truncate --size=$((size / 2)) /run/broken.deb ;;
    end) truncate --size=$((size - 1000)) /run/broken.deb ;;
    bytes) dd if=/dev/zero of=/run/broken.deb bs=1 count=64 seek=$((size / 2)) conv=notrunc status=none ;;
    esac
    echo /run/broken.deb
}

# upgrade_openssl SUITE OPTION  installs OpenSSL 3.6 (forky) or 4.0 (experimental); the option says which openssl.cnf wins.
upgrade_openssl() { dpkg -i --force-"$2" /var/cache/openssl/"$1"/*.deb; }

expected=$1
(
    set -e
    eval "$2"
    case $expected in
    on) is_on ;;
    off) is_off ;;
    esac
) >/run/path.log 2>&1
status=$?
if [ $status -eq 0 ]; then
    echo "done"
else
    echo "not done"
    { tail -n 14 /run/path.log; openssl list -providers 2>&1 | tail -n 12; } | sed 's/^/    /'
fi
sh /host/programs.sh || status=1
exit $status
