#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests of this folder against one wheel, installed into an environment of each Python.
#
#   tests/python/wheel.sh [--build DIR] WHEEL [PYTHON]...
#
#   --build DIR   the build whose brokerd the tests start; else build/dev
# PYTHON: programs; else all of 3.11 to 3.14 that PATH has. pytest is the one of tools/deps.lock, NumPy
# and UCX are what the wheel's extras bring.
# Exit: 0 all pass, 1 not, 64 usage.
set -euo pipefail

usage() {
    sed -n 's/^#   \(tests.*\)/usage: \1/p' "$0" >&2
    exit 64
}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build/dev
if [ "${1:-}" = --build ]; then
    build=${2:?}
    shift 2
fi
[ $# != 0 ] && [ -f "$1" ] || usage
wheel=$(realpath "$1")
shift
if [ $# = 0 ]; then
    for name in python3.11 python3.12 python3.13 python3.14; do
        if command -v "$name" >/dev/null && "$name" -c '' 2>/dev/null; then
            set -- "$@" "$name"
        fi
    done
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in pytest iniconfig pluggy pygments packaging; do
    awk -v p="$name" '$1 == p { printf "%s==%s --hash=sha256:%s\n", $1, $2, $4 }' "$root/tools/deps.lock"
done >"$work/requirements"

failed=0
for python in "$@"; do
    version=$("$python" -c 'import sys; print(sys.version.split()[0])')
    "$python" -m venv "$work/$version"
    bin=$work/$version/bin
    "$bin/pip" install --quiet --no-deps --require-hashes -r "$work/requirements"
    "$bin/pip" install --quiet "$wheel[ucx,numpy]"
    folder=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
    echo "wheel.sh: Python $version, NumPy $("$bin/python" -c 'import numpy; print(numpy.__version__)')"
    # Ctrl-C is tested: a shell starts what runs beside it without.
    env --default-signal=INT "$bin/python" -m pytest "$root/tests/python" --build "$build" --package "$folder" -q || failed=1
done
exit $failed
