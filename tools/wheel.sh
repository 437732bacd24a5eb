#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the wheel of client/python, with the libraries that it needs and their licences inside, and
# checks it. It prints tag, size and import time.
#   tools/wheel.sh [OUTPUT]
# OUTPUT: a folder; else build/wheel. tools/deps.sh has brought what this needs.
# Exit: 0 it is there and as promised, 1 it is not, 64 usage, 69 something to make it with is missing.
set -euo pipefail

if [ $# -gt 1 ] || [[ "${1:-}" == -* ]]; then
    sed -n 's/^#   \(tools.*\)/usage: \1/p' "$0" >&2
    exit 64
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
output=${1:-$root/build/wheel}
tools=$root/build/deps/python
if [ ! -e "$tools/auditwheel" ]; then
    echo 'wheel: run tools/deps.sh first' >&2
    exit 69
fi
mkdir -p "$output"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$tools PATH=$tools/bin:$PATH PYTHONDONTWRITEBYTECODE=1

# The folder of the build stays: what has not changed is not compiled again.
python3 -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/raw" \
    --config-settings=build-dir="$root/build/wheel-build" "$root/client/python" >"$work/log" 2>&1 || {
    tail -n 50 "$work/log" >&2
    exit 1
}
python3 -m auditwheel --verbose repair --wheel-dir "$work/whole" "$work"/raw/*.whl >"$work/log" 2>&1 || {
    tail -n 50 "$work/log" >&2
    exit 1
}
python3 "$root/tools/dev/wheel.py" finish "$work"/whole/*.whl "$output"
python3 "$root/tools/dev/wheel.py" check "$output/$(basename "$work"/whole/*.whl)"
