#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program's streams as a real driver has them: captures, contexts, devices (streams.c).
#   tests/gpu/streams.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"
export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so

start_broker -o memory.cuda.size=256M -o memory.cuda.devices=0 || fail "brokerd does not start"
failed=
for what in capture refused contexts devices; do
    timeout 60 "$build/tests/gpu-streams" "$what" || failed="$failed $what"
done
[ -z "$failed" ] || fail "$failed"
stop
