#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Messages from and into each kind of memory that a CUDA program has (kinds.c).
#   tests/gpu/kinds.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"
export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so

start_broker -o memory.cuda.size=256M -o memory.cuda.devices=0 || fail "brokerd does not start"
failed=
for what in freed publish receive access publish; do
    timeout 100 "$build/tests/gpu-kinds" "$what" >"$dir/$what" || failed="$failed $what: after $(tail -1 "$dir/$what")"
done
FAKECUDA_PAGEABLE=1 timeout 60 "$build/tests/gpu-kinds" pageable || failed="$failed pageable"
[ -z "$failed" ] || fail "$failed"
stop
