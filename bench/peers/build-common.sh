# shellcheck shell=sh
# What build-liboqs.sh and build-wolfssl.sh share. A script says what it builds (LIBRARY, VERSION)
# and from which package of the Rust registry (PACKAGE, PACKAGE_VERSION, PACKAGE_SHA256), and reads this.

name=$(printf %s "$LIBRARY" | tr '[:upper:]' '[:lower:]')
prefix="${GABION_CACHE:-$HOME/.cache/gabion}/peers/$name-$VERSION"

say() { printf '%s\n' "build-$name: $*" >&2; }
die() { say "error: $*"; exit 3; }

# begin STAMP COMPILER [OPTION]  ends the script where the library is already built. A finished build is known by its
# sources, flags, compiler and processor in one line, compared as a whole.
begin() {
    stamp="$VERSION $PACKAGE_SHA256 $1 $("$2" -dumpfullversion 2>/dev/null || echo none) $(uname -m)"
    case "${3:-}" in
        '')
            if [ -f "$prefix/BUILD" ] && [ "$(cat "$prefix/BUILD")" = "$stamp" ]; then
                say "$LIBRARY $VERSION is already built in $prefix"
                exit 0
            fi
            ;;
        --force) ;;
        # The comment at the script's head.
        -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) say "error: unknown option $3; expected --force or nothing"; exit 2 ;;
    esac
}

# needs TOOL...
needs() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || die "$tool is missing; script/run installs all it needs"
    done
}

# fetch  makes a folder for the work, which goes when the script ends, and unpacks the package into it.
fetch() {
    mkdir -p "$prefix"
    work=$(mktemp -d "$prefix/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
    say "fetching $PACKAGE $PACKAGE_VERSION"
    mkdir -p "$work/fetch/src"
    : >"$work/fetch/src/lib.rs"
    cat >"$work/fetch/Cargo.toml" <<END
[workspace]
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[dependencies]
$PACKAGE = { version = "=$PACKAGE_VERSION", default-features = false }
END
    cargo fetch --quiet --manifest-path "$work/fetch/Cargo.toml" ||
        die "cargo could not fetch $PACKAGE $PACKAGE_VERSION"
    archive=
    for file in "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"$PACKAGE-$PACKAGE_VERSION.crate"; do
        [ -f "$file" ] && archive="$file"
    done
    [ -n "$archive" ] || die "cargo fetched $PACKAGE but its archive is not in its cache"
    found=$(sha256sum "$archive" | cut -d' ' -f1)
    [ "$found" = "$PACKAGE_SHA256" ] ||
        die "$archive has SHA-256 $found, expected $PACKAGE_SHA256"
    tar -xzf "$archive" -C "$work"
}

# run_logged WHAT COMMAND...  shows the end of the command's output where it fails.
run_logged() {
    what=$1
    shift
    "$@" >"$work/log" 2>&1 || {
        tail -n 30 "$work/log" >&2
        die "$what failed"
    }
}

# install_library FILE FOLDER FLAGS  puts a library to FOLDER/lib, and beside that how it was made.
install_library() {
    library=$2/lib/$(basename "$1")
    mkdir -p "$2/lib"
    cp -L "$1" "$library.new"
    mv "$library.new" "$library"
    printf '%s\n' "$3" >"$2/FLAGS"
}

# finish  comes last: a build that was interrupted leaves no BUILD and is made again.
finish() {
    printf '%s\n' "$stamp" >"$prefix/BUILD"
    say "done: $prefix"
}
