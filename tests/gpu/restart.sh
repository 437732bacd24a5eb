#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A broker that starts again on a GPU that its former life has not given back yet: a driver keeps memory
# that others have open. The pool is more than half of the fake GPU, so two of them do not fit.
#   tests/gpu/restart.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"
fake=$build/tests/gpu-fake
export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so

start() {
    start_broker -o memory.cuda.size=600M -o memory.cuda.devices=0 || fail "$1: brokerd does not start"
}
program() { # MODE: says WORD; goes on at the end of descriptor 9
    rm -f "$dir/$1" # Of the last one of that mode, which has said the word.
    mkfifo "$dir/go"
    : >"$dir/$1" # The word of a former one is none of this one's.
    "$fake" "$1" <"$dir/go" >"$dir/$1" 2>"$dir/$1.err" &
    pids=($!)
    exec 9>"$dir/go"
    rm "$dir/go"
    await_word "$2" "$1"
}
goes_on() {
    exec 9>&-
    wait "${pids[0]}" || fail "$1: $(cat "$dir/$1.err")"
    pids=()
}
die() {
    kill -9 "$broker"
    wait "$broker" || true
    broker=
}

# A program that has given its messages back does not keep the dead broker's pool.
start "at first"
await_pool ok "at first"
program again first
die
start "after a kill" 9>&-
await_pool ok "after a kill"
goes_on again
stop

# Nor does a connection that is not made again, although nobody closes it.
start "before an end for good"
program idle idle
die
start "after an end for good" 9>&-
await_pool ok "after an end for good"
goes_on idle
stop

# One that holds a message keeps it, so the next broker has no room: it says so, and serves host memory.
start "before a message is held"
program keep held
die
start "while a message is held" 9>&-
await_pool "no room" "while a message is held"
grep -q 'no room for a pool' "$dir/log" || fail "no word of it in the log"
grep -q 'no room for a pool' <<<"$("$build/tools/broker-ctl" --wide doctor)" || fail "no word of it in doctor"
"$build/tools/broker-ctl" sub t --count 1 --timeout 20 >"$dir/sub" 2>"$dir/sub.err" &
pids+=($!)
"$build/tools/broker-ctl" pub t --count 1 --size 100 --wait-subscribers 1 --timeout 20 >/dev/null ||
    fail "host memory: pub"
wait "${pids[1]}" || fail "host memory: sub"
# GPU payloads go by the host meanwhile, and in place once the message is back and the pool is there.
goes_on keep
await_pool ok "after the message is back"
stop

# A broker that ends leaves what others have open to the driver.
start "before an end"
program keep held
stop
start "after an end" 9>&-
goes_on keep
stop
[ "$("$fake" faults)" = 0 ] || fail "memory was freed that others had open"
echo "ok"
