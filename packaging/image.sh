# The image of the key management service, as an OCI image layout in dist/oci. Sourced by script/dist.
#
# It has the command, the service's configuration, glibc and libgcc, and the certificates of public authorities. glibc
# and the certificates are those of the building machine, whose versions the bill of materials has.

image_user=65532 # as other images without a shell have it

# blob FILE  moves a file into the layout and prints its digest.
blob() {
    digest=$(sha256sum "$1" | cut -d ' ' -f 1)
    mv "$1" "$out/oci/blobs/sha256/$digest"
    echo "sha256:$digest"
}

# descriptor MEDIA_TYPE DIGEST  prints what refers to a blob.
descriptor() {
    printf '{"digest":"%s","mediaType":"%s","size":%d}' "$2" "$1" "$(stat -c %s "$out/oci/blobs/sha256/${2#sha256:}")"
}

# layer NAME  compresses $image/NAME.tar to a blob, and adds it to the lists of layers and of their digests.
layer() {
    diffs="$diffs${diffs:+,}\"sha256:$(sha256sum "$image/$1.tar" | cut -d ' ' -f 1)\""
    gzip -9n "$image/$1.tar"
    digest=$(blob "$image/$1.tar.gz")
    layers="$layers${layers:+,}$(descriptor application/vnd.oci.image.layer.v1.tar+gzip "$digest")"
}

# lay_out_system FOLDER  the files of the building machine's system.
lay_out_system() {
    libc=$(ldd "$common/gabion" | sed -n 's/.*libc\.so\.6 => \([^ ]*\) .*/\1/p')
    loader=$(ldd "$common/gabion" | sed -n 's/^[[:space:]]*\(\/[^ ]*\/ld-linux[^ ]*\) .*/\1/p')
    install -D -m 755 "$(readlink -f "$loader")" "$1$loader"
    # The command needs some of them, and the others are what a module that it opens may need.
    for library in libc.so.6 libdl.so.2 libgcc_s.so.1 libm.so.6 libpthread.so.0 libresolv.so.2 librt.so.1; do
        install -D -m 755 "$(readlink -f "${libc%/*}/$library")" "$1${libc%/*}/$library"
    done
    install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"
    for package in ca-certificates libc6 libgcc-s1; do
        [ ! -e "/usr/share/doc/$package/copyright" ] ||
            install -D -m 644 "/usr/share/doc/$package/copyright" "$1/usr/share/doc/$package/copyright"
    done
    echo 'hosts: files dns' >"$1/etc/nsswitch.conf"
    printf 'root:x:0:0::/:\ngabion-kms:x:%d:%d::/var/lib/gabion-kms:\n' $image_user $image_user >"$1/etc/passwd"
    printf 'root:x:0:\ngabion-kms:x:%d:\n' $image_user >"$1/etc/group"
}

make_image() {
    image=$stage/image
    rm -rf "$image" "$out/oci"
    mkdir -p "$out/oci/blobs/sha256" "$image/system" "$image/gabion"
    diffs='' layers=''
    lay_out_system "$image/system"
    archive "$image/system.tar" "$image/system" .
    layer system
    cp -a "$stage/deb/gabion-kms/usr/share" "$image/gabion/" # its licences
    install -D -m 755 "$common/gabion" "$image/gabion/usr/bin/gabion"
    install -D -m 644 packaging/kms.toml "$image/gabion/etc/gabion/kms.toml"
    mkdir -p "$image/gabion/run" "$image/gabion/var/lib"
    mkdir -m 700 "$image/gabion/run/gabion-kms" "$image/gabion/var/lib/gabion-kms"
    archive "$image/gabion.tar" "$image/gabion" --exclude ./run/gabion-kms --exclude ./var/lib/gabion-kms .
    tar --append --file "$image/gabion.tar" --directory "$image/gabion" --format=ustar --owner=$image_user --group=$image_user \
        --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" ./run/gabion-kms ./var/lib/gabion-kms
    layer gabion
    cat >"$image/config.json" <<END
{
  "architecture":"$arch",
  "config":{
    "Cmd":["--config","/etc/gabion/kms.toml"],
    "Entrypoint":["/usr/bin/gabion","kms","serve"],
    "Env":["GABION_KMS_ADDR=unix:/run/gabion-kms/kms.sock","PATH=/usr/bin"],
    "Labels":{
      "org.opencontainers.image.licenses":"MIT OR Apache-2.0",
      "org.opencontainers.image.title":"gabion-kms",
      "org.opencontainers.image.version":"$version"
    },
    "StopSignal":"SIGTERM",
    "User":"$image_user:$image_user",
    "Volumes":{"/run/gabion-kms":{},"/var/lib/gabion-kms":{}},
    "WorkingDir":"/"
  },
  "created":"$created",
  "os":"linux",
  "rootfs":{"diff_ids":[$diffs],"type":"layers"}
}
END
    config=$(descriptor application/vnd.oci.image.config.v1+json "$(blob "$image/config.json")")
    printf '{"config":%s,"layers":[%s],"mediaType":"application/vnd.oci.image.manifest.v1+json","schemaVersion":2}' \
        "$config" "$layers" >"$image/manifest.json"
    manifest=$(descriptor application/vnd.oci.image.manifest.v1+json "$(blob "$image/manifest.json")")
    printf '{"manifests":[%s,"annotations":{"org.opencontainers.image.ref.name":"%s"},"platform":{"architecture":"%s","os":"linux"}}],"mediaType":"application/vnd.oci.image.index.v1+json","schemaVersion":2}\n' \
        "${manifest%?}" "$version" "$arch" >"$out/oci/index.json"
    printf '{"imageLayoutVersion":"1.0.0"}\n' >"$out/oci/oci-layout"
}
