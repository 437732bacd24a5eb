#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# GPU segments where a real driver cannot be asked to misbehave: order behind held streams, deaths, and
# driver calls that fail, in the client and in the broker. At the end no range is in use.
#   tests/gpu/fake.sh BUILD_FOLDER RUNS STEP    that many plans of failing calls in clients, and every
#                                               STEP-th call in a broker; the long form: torture.sh
set -euo pipefail
build=$1
runs=$2
step=$3
. "$(dirname "$0")/broker.sh"
fake=$build/tests/gpu-fake
export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so

start() {
    start_broker -o memory.cuda.size=256M -o memory.cuda.devices=0
}
await_used() { # 0, or "some": in a while
    for ((i = 0; i < 100; i++)); do
        [ "$1" = 0 ] && [ "$(used)" = 0 ] && return
        [ "$1" != 0 ] && [ "$(used)" -gt 0 ] && return
        sleep 0.05
    done
    fail "$2: $(used) bytes of the pool are in use"
}
death() {
    mkfifo "$dir/go"
    "$fake" hold <"$dir/go" >"$dir/hold" 2>"$dir/hold.err" &
    holder=$!
    exec 9>"$dir/go"
    "$fake" publish 9>&- >"$dir/publish" 2>"$dir/publish.err" &
    publisher=$!
    pids=("$holder" "$publisher")
    await_word sent publish
    await_word held hold
}

start || fail "brokerd does not start"
"$fake" order || fail "order"
await_used 0 "after order"
"$fake" classes || fail "classes"
await_used 0 "after classes"
grep -q gpu_why <<<"$("$build/tools/broker-ctl" --wide transports)" || fail "transports"
grep -q 'gpu 0' <<<"$("$build/tools/broker-ctl" --wide doctor)" || fail "doctor"

# The publisher is killed while a subscriber still reads: right bytes, then all of it is free.
death
kill -9 "$publisher"
wait "$publisher" || true
sleep 0.2
await_used some "held by a subscriber of a dead publisher"
exec 9>&-
wait "$holder" || fail "hold: $(cat "$dir/hold.err")"
pids=()
await_used 0 "after the publisher's death"
rm "$dir/go"

# The subscriber is killed: its ranges are the publisher's again, and then the pool's.
death
kill -9 "$holder"
wait "$holder" || true
exec 9>&-
kill -9 "$publisher"
wait "$publisher" || true
pids=()
await_used 0 "after both deaths"

# The broker is killed, and another one comes: a program goes on, in the memory of that one.
mkfifo "$dir/go2"
"$fake" again <"$dir/go2" >"$dir/again" 2>"$dir/again.err" &
pids=($!)
exec 9>"$dir/go2"
await_word first again
kill -9 "$broker"
wait "$broker" || true
start 9>&- || fail "brokerd does not start again"
exec 9>&-
wait "${pids[0]}" || fail "again: $(cat "$dir/again.err")"
pids=()
await_used 0 "after a program that went on"

"$fake" torture "$runs" 0 211 || fail "torture" # All calls, codes and kinds in turn.
await_used 0 "after torture"
stop

# The broker's own calls: it does not start, with a reason, or serves; host memory goes on.
for ((turn = 1; turn < 60; turn += step)); do
    for code in 2 719; do
        # What was made on a lost device cannot be freed: no leak.
        if FAKECUDA_FAIL="*:$turn=$code" ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=$((code != 719)) start; then
            "$build/tools/broker-ctl" sub t --count 1 --timeout 20 >"$dir/sub" 2>"$dir/sub.err" &
            pids=($!)
            "$build/tools/broker-ctl" pub t --count 1 --size 100 --wait-subscribers 1 --timeout 20 \
                >/dev/null || fail "call $turn answering $code: pub"
            wait "${pids[0]}" || fail "call $turn answering $code: sub"
            pids=()
            timeout 60 "$build/tests/gpu-roundtrip" publish 0 0 >/dev/null 2>&1 || true
            await_used 0 "broker's call $turn answering $code"
            stop
        else
            wait "$broker" && fail "call $turn answering $code: exit 0"
            broker=
            grep -q 'memory.cuda\|GPU' "$dir/log" || fail "call $turn answering $code: no reason"
        fi
    done
done
echo "ok"
