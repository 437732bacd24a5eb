#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each check of first.sh can fail: with a defect in the fake driver it says so, and the script stops there.
#   tests/gpu/first-finds.sh KIT OUT
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kit=$1
out=$2
missed=
finds() { # NUMBER DEFECT: a variable
    local code=0
    env "$2" ONLY="$1" timeout 200 "$here/first.sh" fake "$kit" "$out" >"$out.log" 2>&1 || code=$?
    if [ "$code" != 1 ] || ! grep -q "^| $1 .*FAILED: ..." "$out/gpu-results.md"; then
        missed="$missed $1 ($2: exit $code)"
    fi
    grep "^$1\\." "$out.log" || true
}
finds 1 FAKECUDA_MODE=prohibited
finds 2 FAKECUDA_IPC=0
finds 3 FAKECUDA_FAIL=cuMemcpyAsync:40=700
finds 4 FAKECUDA_FAIL=cuStreamSynchronize:4=719
finds 5 FAKECUDA_IPC=0
finds 6 FAKECUDA_IPC=0
finds 7 FAKECUDA_FAIL=cuStreamEndCapture:3=900
finds 8 FAKECUDA_IPC=0
finds 9 UCX_MODULES=^cuda
finds 10 FAKECUDA_FAIL=cuMemHostRegister:1=1
[ -z "$missed" ] || { echo "FAILED: not found:$missed" >&2; exit 1; }
