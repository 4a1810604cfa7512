#!/bin/sh
# Checks pages and the comments of Rust sources with Vale, by the rules in styles/Gabion. Builds
# Vale with `go install` if it is missing. Each rule must report faults.txt. Every finding is an
# error. Prints "N passed, N failed" and exits 0 only when none failed.
#
# Excluded are the changelog and decision records, which describe the past (over 500 findings), and
# bench/peers, a separate workspace.

set -eu
cd "$(dirname "$0")/../.."
. script/tools

# The newest version that builds through the Go proxy: later ones need an unreleased cascadia.
version=v3.22.0
go_tool vale "$version" github.com/vale-cli/vale/v3/cmd/vale
passed=0 failed=0

vale() { "$tools/bin/vale-$version" --no-global --config tests/prose/vale.ini --output line "$@"; }

# check COMMAND...  one result.
check() {
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# expect_faults EXTENSION PREFIX RULE...  these rules, and no others, report faults.txt, whose lines
# get the prefix.
expect_faults() {
    extension=$1 prefix=$2
    shift 2
    found=$(sed "s#^#$prefix#" tests/prose/faults.txt | vale --ext="$extension" |
        cut -d : -f 4 | sort -u | xargs)
    expected=$(printf 'Gabion.%s\n' "$@" | sort | xargs)
    [ "$found" = "$expected" ] || {
        echo "prose: in faults.txt as $extension: found $found; expected $expected"
        return 1
    }
}

check expect_faults .md '' Fillers Headings Long Openings Phrases Plain Repeated
check expect_faults .rs '/// ' Openings Phrases Plain Repeated Sections
# shellcheck disable=SC2046 # one word for each file
{
    check vale $(git ls-files '*.md' ':!docs/adr' ':!bench/peers')
    check vale $(git ls-files '*.rs' ':!bench/peers')
}
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
