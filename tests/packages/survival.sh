#!/bin/sh
# Installs, upgrades, removes and breaks the packages of the command and the provider in roots of Debian, and tries the
# programs of the host after each: a dozen paths, or all of them with GABION_TEST_ALL=1. The packages are made from what
# script/test has built.

set -eu
cd "$(dirname "$0")/../.."
GABION_DIST_FROM=${CARGO_TARGET_DIR:-target}/debug
export GABION_DIST_FROM
case ${GABION_TEST_ALL-} in
1) exec tests/packages.sh survival ;;
*) exec tests/packages.sh --short ;;
esac
