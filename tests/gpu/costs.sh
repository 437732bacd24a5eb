#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a message costs in calls of the driver, by how many are outstanding (costs.c).
#   tests/gpu/costs.sh BUILD_FOLDER [names]
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"
export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so

start_broker -o memory.cuda.size=256M -o memory.cuda.devices=0 || fail "brokerd does not start"
timeout 100 "$build/tests/gpu-costs" "${@:2}" || fail "gpu-costs"
stop
