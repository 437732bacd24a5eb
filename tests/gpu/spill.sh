#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A GPU subscriber that has stopped and spills, on the fake driver: a pool that is smaller than what
# it is behind, one beside it that keeps up, copies that are late and calls that fail, deaths. Every
# byte is looked at, and at the end no range is in use.
#   tests/gpu/spill.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"
count=500 # of 200,000 bytes: 100 MB, through half of a pool of 64 MiB
spill=$build/tests/gpu-spill
export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so

start() {
    start_broker -o memory.cuda.size=64M -o memory.cuda.devices=0 -o memory.host.size=256M \
        -o memory.host.segment=8M -o server.max_message=16M -o server.workers=2 \
        -o "topics=( { match = \"gpu.spill\"; spill_max = \"200M\"; } )"
}
figure() { # of topics or subs
    "$build/tools/broker-ctl" -o json "$1" | grep -o "\"$2\": *[0-9]*" | grep -o "[0-9]*$" | sort -n | tail -n 1
}
has() { # at least
    [ "$(figure "$1" "$2")" -ge "$3" ]
}
await() { # what: a command that says yes
    for ((i = 0; i < 200; i++)); do
        "${@:2}" && return
        sleep 0.05
    done
    fail "$1"
}
is_unused() {
    [ "$(used)" = 0 ]
}
says() {
    grep -q "$1" "$dir/$2"
}

# One publisher, one that is fast, one that stops and is of that kind.
audience() { # kind
    rm -f "$dir/go"
    mkfifo "$dir/go"
    "$spill" "$1" "$count" <"$dir/go" >"$dir/slow" 2>"$dir/slow.err" &
    slow=$!
    exec 9>"$dir/go"
    "$spill" fast "$count" 9>&- >"$dir/fast" 2>"$dir/fast.err" &
    fast=$!
    "$spill" publish "$count" 2 9>&- >"$dir/publish" 2>"$dir/publish.err" &
    publisher=$!
    pids=("$slow" "$fast" "$publisher")
    await "$1: it holds two" says held slow
    wait "$publisher" || fail "$1: the publisher"
    wait "$fast" || fail "$1: the fast one"
}

start || fail "brokerd does not start"
for kind in slow host; do
    "$build/tools/broker-ctl" -o json sub '$SYS.sub.>' >"$dir/events" 2>"$dir/events.err" &
    events=$!
    audience "$kind"
    # Its publisher is gone, and it has not read: nothing but what it holds in place is on the GPU.
    await "$kind: all is moved" has topics spill_kept_bytes $(((count - 40) * 200000))
    await "$kind: it waits for it" has subs spilled_waiting_bytes $(((count - 40) * 200000))
    await "$kind: the beginning is told" says spill_begin events
    [ "$kind" = slow ] || await "$kind: the pool is free" is_unused
    exec 9>&-
    wait "$slow" || fail "$kind: the slow one"
    says "^got $count lost 0" slow || fail "$kind: $(tail -1 "$dir/slow")"
    pids=()
    kill "$events"
    wait "$events" || true
    await "$kind: nothing is left in the pool" is_unused
done

# Killed while it spills; and its publisher.
audience slow
kill -9 "$slow"
wait "$slow" || true
exec 9>&-
pids=()
await "after its death: nothing is left in the pool" is_unused
[ "$(figure topics spill_kept_bytes)" = 0 ] || fail "after its death: something is kept"
stop

# Copies that are late, and each of many calls of the broker's failing: told, and never a leak.
FAKECUDA_DELAY_US=500 start || fail "brokerd does not start: late"
audience slow
exec 9>&-
wait "$slow" || fail "late: the slow one"
says "^got $count lost 0" slow || fail "late: $(tail -1 "$dir/slow")"
pids=()
await "late: nothing is left in the pool" is_unused
stop
for ((turn = 40; turn < 1000; turn += 480)); do
    FAKECUDA_FAIL="*:$turn=304" start || fail "brokerd does not start: $turn"
    for kind in slow host; do
        audience "$kind"
        exec 9>&-
        wait "$slow" || fail "call $turn: $kind"
        read -r _ got _ lost _ <<<"$(tail -1 "$dir/slow")"
        [ $((got + lost)) = "$count" ] && [ "$lost" -le 1 ] || fail "call $turn: $kind: $got and $lost"
        pids=()
        await "call $turn: nothing is left in the pool" is_unused
    done
    stop
done
echo "ok"
