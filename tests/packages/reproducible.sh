#!/bin/sh
# Compiles libgabion and the provider module twice, in different folders and as different users, and compares the bytes.
# `make dist-check` does the same for everything that `make dist` builds.

set -eu
exec "$(dirname "$0")/../../script/dist-check" --libraries
