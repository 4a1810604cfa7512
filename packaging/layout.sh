# The files of each package, and the limits that they keep. Sourced by script/dist.

# Lays out the files of each package under $stage/FORMAT/PACKAGE.
make_layout() {
    rm -rf "$stage"
    mkdir -p "$common"
    for program in gabion gabion-bench; do
        "${cross}strip" -o "$common/$program" "$release/$program"
    done
    for library in libgabion_provider.so libgabion.so; do
        "${cross}strip" --strip-unneeded -o "$common/$library" "$release/$library"
    done
    script/archive "$release/libgabion.a" "$common/libgabion.a" "$cross"
    lay_out_format deb "usr/lib/$machine-linux-gnu"
    lay_out_format rpm usr/lib64
    check_symbols
    find "$stage" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

# lay_out_format FORMAT LIBDIR
lay_out_format() {
    at=$stage/$1
    for package in $packages; do
        install -d "$at/$package/usr/share/doc/$package"
        install -m 644 LICENSE-MIT LICENSE-APACHE "$built/bom/THIRD-PARTY" "$at/$package/usr/share/doc/$package"
    done
    for program in gabion gabion-bench; do
        install -D -m 755 "$common/$program" "$at/$program/usr/bin/$program"
    done
    for page in "$native"/man/*.1; do
        case ${page##*/} in gabion-bench*) package=gabion-bench ;; *) package=gabion ;; esac
        install -d "$at/$package/usr/share/man/man1"
        gzip -9nc "$page" >"$at/$package/usr/share/man/man1/${page##*/}.gz"
    done
    case $1 in
    deb) zsh=vendor-completions ;;
    rpm) zsh=site-functions ;;
    esac
    for program in gabion gabion-bench; do
        share=$at/$program/usr/share
        install -D -m 644 "$native/completions/$program.bash" "$share/bash-completion/completions/$program"
        install -D -m 644 "$native/completions/$program.fish" "$share/fish/vendor_completions.d/$program.fish"
        install -D -m 644 "$native/completions/$program.zsh" "$share/zsh/$zsh/_$program"
    done
    install -D -m 644 packaging/gabion-kms.service "$at/gabion-kms/usr/lib/systemd/system/gabion-kms.service"
    install -D -m 644 packaging/gabion-kms.sysusers "$at/gabion-kms/usr/lib/sysusers.d/gabion-kms.conf"
    install -D -m 644 packaging/gabion-kms.tmpfiles "$at/gabion-kms/usr/lib/tmpfiles.d/gabion-kms.conf"
    install -d "$at/gabion-openssl/usr/lib/gabion"
    cp -a "$built/root/usr/lib/gabion/openssl" "$at/gabion-openssl/usr/lib/gabion/openssl"
    bundle=$at/gabion-openssl/usr/lib/gabion/openssl
    # Programs are not compiled against it, and postinst makes the configuration of its FIPS module.
    rm -rf "$bundle/include" "$bundle/lib/pkgconfig" "$bundle/lib/cmake" "$bundle/ssl/fipsmodule.cnf" \
        "$bundle/bin/c_rehash" "$bundle/ssl/misc" "$bundle"/ssl/*.dist
    # Messages of the network's tools about newer versions, which differ between builds.
    sed -i '/"not_had": \[$/,/\],$/d' "$bundle/gabion-bundle.json"
    find "$bundle/lib" "$bundle/bin" -name '*.so*' -type f -exec "${cross}strip" --strip-unneeded {} +
    "${cross}strip" "$bundle/bin/openssl"
    install -D -m 644 "$common/libgabion_provider.so" "$at/gabion-openssl-provider/$2/ossl-modules/gabion.so"
    install -D -m 644 "$common/libgabion.so" "$at/libgabion1/$2/libgabion.so.$abi"
    install -D -m 644 "$common/libgabion.a" "$at/libgabion-dev/$2/libgabion.a"
    ln -s "libgabion.so.$abi" "$at/libgabion-dev/$2/libgabion.so"
    install -D -m 644 front/capi/include/gabion.h "$at/libgabion-dev/usr/include/gabion.h"
    install -d "$at/libgabion-dev/$2/pkgconfig"
    sed -e 's#@PREFIX@#/usr#' -e "s#@VERSION@#$version#" -e "s#^libdir=.*#libdir=/$2#" front/capi/gabion.pc.in \
        >"$at/libgabion-dev/$2/pkgconfig/gabion.pc"
}

# Fails if a file needs a newer glibc than the packages ask for.
check_symbols() {
    newest=$(find "$common" "$built/root" -type f -exec sh -c 'objdump=$1; shift
        for f; do head -c 4 "$f" | grep -q ELF && "$objdump" -T "$f"; done 2>/dev/null' sh "${cross}objdump" {} + |
        grep -o 'GLIBC_2\.[0-9.]*' | sort -uV | tail -n 1)
    case $(printf '%s\n' "$newest" GLIBC_2.34 | sort -V | tail -n 1) in
    GLIBC_2.34) echo "newest symbol of glibc: $newest" ;;
    *) fail "a file needs $newest; packages are for glibc 2.34 and newer" ;;
    esac
}
