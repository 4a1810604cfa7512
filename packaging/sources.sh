# What is published as source: the Go modules, in the layout of a module proxy, and the crates. Sourced by script/dist.

# In the order in which they are published: each depends only on those before it.
crates='gabion-scheme gabion-backend gabion-cuda gabion-engine gabion-disk gabion-state gabion-rustls'

# dist/goproxy, for GOPROXY=file://...
make_goproxy() {
    sources=$built/goproxy
    rm -rf "$out/goproxy" "$sources"
    mkdir -p "$sources" "$out"
    git ls-files -z front/go | xargs -0 cp --parents -t "$sources"
    modules=$sources/front/go
    # A proxy serves no module whose name begins with a word without a dot.
    find "$modules" -name '*.go' -exec sed -i 's#"gabion/fipstls#"gabion.invalid/fipstls#' {} +
    sed -i 's#gabion/fipstls#gabion.invalid/fipstls#' "$modules/go.mod" "$modules/grpc/go.mod"
    # The other module is beside it in a clone.
    (cd "$modules/grpc" && go mod edit -dropreplace=gabion.invalid/fipstls -require="gabion.invalid/fipstls@v$version")
    (cd packaging/goproxy && go build -trimpath -o "$sources/goproxy" .)
    for module in fipstls fipstls/grpc; do
        folder=$modules${module#fipstls}
        cp LICENSE-MIT LICENSE-APACHE "$folder/"
        "$sources/goproxy" "$out/goproxy" "gabion.invalid/$module" "v$version" "$folder" "$created"
    done
}

# dist/crates: the archives that `cargo publish` would upload, and ORDER, their names in the order of publishing.
make_crates() {
    rm -rf "$out/crates" "$built/crates/package"
    mkdir -p "$out/crates"
    # shellcheck disable=SC2046,SC2086 # one word for each crate
    cargo package --locked --offline --no-verify --allow-dirty --target-dir "$built/crates" $(printf ' --package %s' $crates)
    before=' '
    for crate in $crates; do
        file=$(find "$built/crates/package" -maxdepth 1 -name "$crate-[0-9]*.crate")
        for needed in $(tar -xOzf "$file" --wildcards '*/Cargo.toml' | sed -n 's/^\[.*dependencies\.\(gabion-[a-z-]*\)\]$/\1/p'); do
            case $before in
            *" $needed "*) ;;
            *) fail "$crate is published before $needed, which it depends on" ;;
            esac
        done
        before="$before$crate "
        cp "$file" "$out/crates/"
        echo "${file##*/}" >>"$out/crates/ORDER"
    done
}
