#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lazy subscribers of messages that lie on a GPU, on the fake driver: every kind of memory they may
# ask for them into, on each link, late copies, calls that fail on either side. At the end no range is
# in use.
#   tests/gpu/lazy.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"
lazy=$build/tests/gpu-lazy
count=42
export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so
unix_url=$AMB_URL

start() {
    start_broker --listen tcp://127.0.0.1:0 -o memory.cuda.size=256M -o memory.cuda.devices=0 \
        -o memory.host.size=256M -o memory.host.segment=8M -o server.max_message=16M \
        -o server.workers=2
    read -r _ _ tcp_url <"$dir/ready"
}
is_unused() {
    for ((i = 0; i < 200; i++)); do
        [ "$(used)" = 0 ] && return
        sleep 0.05
    done
    fail "$1: $(used) bytes of the pool are in use"
}
subscribe() { # URL ROLE
    AMB_URL=$1 FAKECUDA_FAIL=${plan-} timeout 120 "$lazy" "$2" "$count" >"$dir/$2" 2>"$dir/$2.err" &
    pids+=($!)
}
audience() { # what URL ROLE...
    pids=()
    for role in "${@:3}"; do
        subscribe "$2" "$role"
    done
    timeout 120 "$lazy" publish "$count" $(($# - 2)) >"$dir/publish" 2>"$dir/publish.err" ||
        fail "$1: the publisher"
    for pid in "${pids[@]}"; do
        wait "$pid" || fail "$1: a subscriber ended so: $?"
    done
    pids=()
    is_unused "$1"
}
figures() { # ROLE: got, stale, failed
    read -r _ got _ stale _ failed <"$dir/$1"
}
expect_all() { # what ROLE...
    for role in "${@:2}"; do
        figures "$role"
        [ "$got $stale $failed" = "$count 0 0" ] || fail "$1: $role: $(cat "$dir/$role")"
    done
}

start || fail "brokerd does not start"
audience "one machine" "$unix_url" on pin host late eager
expect_all "one machine" pin eager
for role in on host late; do
    figures "$role"
    [ $((got + stale)) = "$count" ] && [ "$got" -ge 6 ] && [ "$failed" = 0 ] ||
        fail "one machine: $role: $(cat "$dir/$role")"
done
# Alone and in step with nobody: what was left to it goes stale from the oldest on.
audience "late" "$unix_url" late
figures late
[ "$stale" -gt 0 ] || fail "late: nothing is stale: $(cat "$dir/late")"
audience "tcp" "$tcp_url" pin host
expect_all "tcp" pin
if AMB_URL=$tcp_url?link=ucx AMB_TRUSTED=lo timeout 60 "$build/tools/broker-ctl" pub try --count 1 \
    --size 8 >"$dir/ucx" 2>&1; then
    AMB_TRUSTED=lo audience "ucx" "$tcp_url?link=ucx" pin host
    expect_all "ucx" pin
fi
stop

# Late copies: who asks is told to ask again meanwhile.
FAKECUDA_DELAY_US=2000 start || fail "brokerd does not start: late"
audience "late copies" "$unix_url" pin host eager
expect_all "late copies" pin eager
stop

# Each of many calls of the broker's failing is a message's failure, of readers of the host copy alone.
for ((turn = 40; turn < 400; turn += 90)); do
    FAKECUDA_FAIL="*:$turn=304" start || fail "brokerd does not start: $turn"
    EXPECT_FAILURES=1 audience "call $turn" "$unix_url" pin eager
    figures pin
    [ $((got + stale + failed)) = "$count" ] && [ "$failed" -le 1 ] ||
        fail "call $turn: $(cat "$dir/pin")"
    stop
done

# The same in a subscriber, and of kinds that last.
start || fail "brokerd does not start: failing subscribers"
told=0
for ((turn = 1; turn < 200; turn += 49)); do
    for code in 2 304 719; do
        plan="cuMemcpyAsync:$turn=$code,cuEventRecord:$turn=$code" EXPECT_FAILURES=1 \
            audience "subscriber's call $turn answering $code" "$unix_url" pin eager
        for role in pin eager; do
            figures "$role"
            [ $((got + stale + failed)) = "$count" ] ||
                fail "subscriber's call $turn answering $code: $(cat "$dir/$role")"
            told=$((told + failed))
        done
    done
done
[ "$told" -gt 20 ] || fail "calls fail, and messages do not: $told"
stop
echo "ok"
