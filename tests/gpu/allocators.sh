#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An allocator for each kind of memory: over a ring, a stream and UCX, with and without CUDA in UCX,
# without a driver, closed and with a broker that is killed while memory is being filled
# (allocators.c).
#   tests/gpu/allocators.sh BUILD_FOLDER [MIB]: of the largest message
set -euo pipefail
build=$1
most=${2:-64}
. "$(dirname "$0")/broker.sh"
fake=$build/tests/fakecuda
program=$build/tests/gpu-allocators
admin=$AMB_URL
export AMB_CUDA_LIBRARY=$fake/libfakecuda.so AMB_TRUSTED=lo FAKECUDA_MEMORY=2G
export LD_LIBRARY_PATH=$fake:$fake/nvml${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

try() { # NAME URL ARGUMENTS
    AMB_URL=$2 timeout 100 "$program" "${@:3}" >"$dir/$1" 2>"$dir/$1.err" || fail "$1: $?, after: $(tail -1 "$dir/$1")"
}

start_broker --listen tcp://127.0.0.1:0 -o memory.cuda.size=512M -o memory.cuda.devices=0 ||
    fail "brokerd does not start"
tcp=$(grep -o 'tcp://[^ ]*' "$dir/ready")
try ring "$admin" all 0 "$most" local
try ring-across "$admin" all 1 "$most"
try stream "$tcp?link=stream" all 0 "$most"
if "$build/broker/brokerd" --version | grep -q UCX; then
    try ucx "$tcp?link=ucx" all 0 "$most"
    AMB_UCX_GPU_MIN=4096 try ucx-far "$tcp?link=ucx" all 0 "$most"
    UCX_MODULES=^cuda try ucx-plain "$tcp?link=ucx" all 1 "$most"
fi
try fallback "$admin" fallback
try ends "$admin" ends
try ends-stream "$tcp?link=stream" ends
AMB_CUDA_LIBRARY=/nowhere timeout 60 "$build/tests/gpu-allocators_none" 2>"$dir/none.err" || fail "none: $?"
: >"$dir/lost"
timeout 100 "$program" lost >"$dir/lost" 2>"$dir/lost.err" &
pids=($!)
await_word filling lost
kill -9 "$broker"
wait "$broker" || true
start_broker -o memory.cuda.size=512M -o memory.cuda.devices=0 || fail "brokerd does not start again"
wait "${pids[0]}" || fail "lost: $?"
pids=()
cat "$dir/ring" "$dir/stream"
stop
echo "ok"
