#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A cold machine: bringing up a GPU takes several times as long as a broker waits for a silent client
# (cold.c). No session ends, and host messages on the same connections do not stop for long.
#   tests/gpu/cold.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"
export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so
pause=1500 # milliseconds: half of a call, so that none can hide in it

start_broker -o memory.cuda.size=256M -o memory.cuda.devices=0 -o limits.peer_timeout=1200ms \
    -o limits.heartbeat=300ms || fail "brokerd does not start"
FAKECUDA_SLOW=cuInit=3000,cuDevicePrimaryCtxRetain=3000,cuIpcOpenMemHandle=3000,cuMemHostRegister=3000
export FAKECUDA_SLOW
"$build/tests/gpu-cold" subscriber >"$dir/subscriber" 2>"$dir/subscriber.err" &
pids=($!)
mkfifo "$dir/go"
# A host message each 5 ms from here on: the subscriber's GPU comes up beside them.
"$build/tests/gpu-cold" publisher <"$dir/go" >"$dir/publisher" 2>"$dir/publisher.err" &
pids+=($!)
exec 9>"$dir/go"
await_word open subscriber.err
await_word open publisher.err
echo >&9
wait "${pids[0]}" || fail "the subscriber: $(cat "$dir/subscriber.err")"
exec 9>&-
wait "${pids[1]}" || fail "the publisher: $(cat "$dir/publisher.err")"
pids=()
longest=$(cat "$dir/subscriber")
[ "$longest" -lt "$pause" ] || fail "no host message for $longest ms"
echo "the longest pause of host messages: $longest ms"
stop
