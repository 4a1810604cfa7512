# The tarball that is unpacked anywhere. Sourced by script/dist.

# archive OUTPUT FOLDER [OPTION...]  writes a tar of the folder's content: the same bytes for the same files.
archive() {
    archive_output=$1
    archive_folder=$2
    shift 2
    tar --create --file "$archive_output" --directory "$archive_folder" --format=ustar --sort=name --owner=0 --group=0 \
        --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" "$@"
}

# The files of the RPM packages, in one tree; gzip, since a bare server may have no zstd.
make_tarball() {
    name=gabion-$version-$machine-linux
    rm -rf "$stage/tarball" "$out"/gabion-*-"$machine-linux.tar.gz"
    tree=$stage/tarball/$name
    files=$stage/rpm
    mkdir -p "$tree/lib/gabion"
    cp -a "$files/gabion/usr/." "$files/gabion-bench/usr/." "$files/libgabion-dev/usr/include" "$tree/"
    cp -a "$files/libgabion1/usr/lib64/." "$files/libgabion-dev/usr/lib64/." "$tree/lib/"
    cp -a "$files/gabion-openssl/usr/lib/gabion/openssl" "$tree/lib/gabion/openssl"
    ln -s openssl/lib/ossl-modules/gabion.so "$tree/lib/gabion/gabion.so"
    rm -r "$tree/share/doc/gabion-bench"
    # pkg-config finds the rest from the folder of this file.
    # shellcheck disable=SC2016 # pkg-config's variable
    sed -i -e 's#^prefix=.*#prefix=${pcfiledir}/../..#' -e 's#^libdir=.*#libdir=${prefix}/lib#' "$tree/lib/pkgconfig/gabion.pc"
    mkdir -p "$out"
    archive "$stage/tarball/$name.tar" "$stage/tarball" "$name"
    gzip -9nc "$stage/tarball/$name.tar" >"$out/$name.tar.gz"
    rm "$stage/tarball/$name.tar"
}
