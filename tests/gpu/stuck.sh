#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A GPU that does not answer, which the fake driver has for five minutes: the broker says so, serves
# host memory, and ends all the same.
#   tests/gpu/stuck.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"
export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so FAKECUDA_DELAY_US=300000000

start() {
    start_broker -o memory.cuda.size=64M -o memory.cuda.devices=0 || fail "brokerd does not start"
}
doctor() {
    "$build/tools/broker-ctl" -o json doctor || true # It has found an error.
}
ends_within() { # SECONDS
    for ((i = 0; i < $1 * 20; i++)); do
        kill -0 "$broker" 2>/dev/null || break
        sleep 0.05
    done
    kill -0 "$broker" 2>/dev/null && fail "brokerd is there after $1 s"
    wait "$broker" && fail "brokerd ended as if all was well"
    broker=
}

# Without a message: the copier looks at the device once a second.
start
for ((i = 0; i < 400; i++)); do
    [[ $(doctor) == *"has not answered"* ]] && break
    sleep 0.05
done
[[ $(doctor) == *"has not answered"* ]] || fail "doctor: $(doctor)"
grep -q 'ERROR GPU 0 has not answered' "$dir/log" || fail "no word of it in the log"
"$build/tools/broker-ctl" sub t --count 1 --timeout 20 >"$dir/sub" 2>"$dir/sub.err" &
pids=($!)
"$build/tools/broker-ctl" pub t --count 1 --size 100 --wait-subscribers 1 --timeout 20 >/dev/null ||
    fail "host memory: pub"
wait "${pids[0]}" || fail "host memory: sub"
pids=()
kill "$broker"
ends_within 30
grep -q 'GPU 0 does not answer' "$dir/log" || fail "no word of it at the end"

# Whoever asks for the third time does not wait for that.
start
sleep 2 # The copier looks, and sleeps for good.
for ((i = 0; i < 3; i++)); do
    kill "$broker" 2>/dev/null || true
    sleep 0.3
done
ends_within 3
grep -q 'third request' "$dir/log" || fail "it was not the third request"
