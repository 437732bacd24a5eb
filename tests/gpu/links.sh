#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two links over UCX of one process, one of which is closed in the middle of the other's transfer
# (links.c). Then the same where UCX 1.22.0 has cuda_ipc: there the close unmaps what the other uses.
#   tests/gpu/links.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"
fake=$build/tests/fakecuda
admin=$AMB_URL
export AMB_CUDA_LIBRARY=$fake/libfakecuda.so AMB_TRUSTED=lo AMB_LOCAL=$admin
export LD_LIBRARY_PATH=$fake:$fake/nvml${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

begin() { # a broker for $AMB_URL
    export AMB_URL=$admin FAKECUDA_MACHINE=$dir/machine.$1
    start_broker --listen tcp://127.0.0.1:0 -o memory.cuda.size=128M -o memory.cuda.devices=1 ||
        fail "brokerd does not start"
    AMB_URL=$(grep -o 'tcp://[^ ]*' "$dir/ready")?link=ucx
}

export AMB_UCX_GPU_MIN=4096 # Over TCP alone UCX would not be given any.
begin without
timeout 100 "$build/tests/gpu-links" 2>"$dir/links.err" || fail "two links: $?"
unset AMB_UCX_GPU_MIN
stop
if "$build/broker/brokerd" --version | grep -q 'UCX 1\.22\.0'; then
    export UCX_TLS=tcp,self,cuda_copy,cuda_ipc
    begin with
    FAKECUDA_DELAY_US=100000 timeout 100 "$build/tests/gpu-links" until >"$dir/until" 2>"$dir/until.err" ||
        fail "with cuda_ipc: $?"
    grep -q purged "$dir/until" || fail "with cuda_ipc: $(cat "$dir/until")"
    cat "$dir/log" "$dir/until.err" | grep 'closes an import' || fail "with cuda_ipc: another fault"
    stop
fi
echo "ok"
