#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Calls of the CUDA driver fail, in publishers, subscribers and brokers: an error of a message or of a
# call, never a broker's end, host memory goes on, and no range of the pool is left in use.
#   tests/gpu/torture.sh BUILD_FOLDER RUNS FIRST [calls]   of the plans FIRST, FIRST + 1, ...: 19 of 20
#                                       in a client beside a broker, one in a broker itself
# calls: each function of wire/mem/cuda_api.h at its first call, at its second, and so on, half of the
# runs in clients and half in brokers. 300 0 has each of them at its first three calls in both.
# The long form: RUNS 10000, in slices of which each begins where the last one ended.
set -euo pipefail
build=$1
runs=$2
first=$3
what=${4:-torture}
dir=$(mktemp -d /tmp/amb-torture-XXXXXX)
finish() {
    [ ! -e "$dir/pid" ] || kill "$(cat "$dir/pid")" 2>/dev/null || true
    wait
    rm -rf "$dir"
}
trap finish EXIT
fail() {
    echo "FAILED: $*" >&2
    exit 1
}
fake=$build/tests/gpu-fake
# All processes are on one machine, which counts their memory together.
export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so FAKECUDA_MEMORY=1G FAKECUDA_MACHINE=$dir/machine

# A broker in a folder; false: it has ended.
start() { # folder size
    export AMB_URL=unix://$1/s
    : >"$1/ready"
    "$build/broker/brokerd" --dev -o transports.trusted= --listen "$AMB_URL" -o memory.cuda.size="$2" \
        -o memory.cuda.devices=0 >"$1/ready" 2>"$1/log" &
    echo $! >"$1/pid"
    for ((i = 0; i < 400; i++)); do
        grep -q '^ready' "$1/ready" && return 0
        kill -0 "$(cat "$1/pid")" 2>/dev/null || return 1
        sleep 0.02
    done
    return 1
}
await_free() {
    local used
    for ((i = 0; i < 200; i++)); do
        used=$("$build/tools/broker-ctl" -o json memory |
            sed -n 's/.*"kind": *"cuda"[^}]*"used_bytes": *\([0-9]*\).*/\1/p')
        [ "$used" != 0 ] || return 0
        sleep 0.05
    done
    fail "$1: $used bytes of the pool are in use"
}

# One broker, whose own call fails.
broker_run() { # number
    local turn=$(($1 / 6 % 60 + 1)) codes=(1 2 700 226 801 999) code name=*
    code=${codes[$(($1 % 6))]}
    if [ "$what" = calls ]; then
        name=${names[$(($1 % ${#names[@]}))]} turn=$(($1 / ${#names[@]} + 1))
        code=${codes[$((($1 + turn) % 6))]}
    fi
    mkdir "$dir/$1"
    # What was made on a lost device cannot be freed: no leak.
    if FAKECUDA_FAIL="$name:$turn=$code" ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=$((code != 226 && code != 700)) \
        start "$dir/$1" 64M; then
        timeout 60 "$fake" try >"$dir/$1/out" 2>&1 ||
            fail "a broker's call $turn of $name answering $code: $(cat "$dir/$1/out" "$dir/$1/log")"
        await_free "a broker's call $turn of $name answering $code"
        kill "$(cat "$dir/$1/pid")"
        wait "$(cat "$dir/$1/pid")" || fail "a broker's call $turn of $name answering $code: end: $?"
    else
        ! wait "$(cat "$dir/$1/pid")" || fail "a broker's call $turn of $name answering $code: exit 0"
        grep -q 'memory.cuda\|GPU' "$dir/$1/log" || fail "a broker's call $turn of $name answering $code: no reason"
    fi
    rm -r "${dir:?}/$1"
}

mapfile -t names < <("$fake" names)
in_brokers=$((runs / 20))
[ "$what" != calls ] || in_brokers=$((runs / 2))
first_broker=$((first / 20))
[ "$what" != calls ] || first_broker=$((first / 2))
in_clients=$((runs - in_brokers))
if [ "$in_clients" -gt 0 ]; then
    start "$dir" 512M || fail "brokerd does not start: $(cat "$dir/log")"
    "$fake" "$what" "$in_clients" "$first" 1 || fail "clients: $(tail -3 "$dir/log")"
    kill -0 "$(cat "$dir/pid")" || fail "the broker has ended: $(tail -3 "$dir/log")"
    await_free "after $in_clients clients"
    kill "$(cat "$dir/pid")"
    wait "$(cat "$dir/pid")" || fail "brokerd: $?"
    rm "$dir/pid"
fi
workers=()
for ((k = 0; k < 4; k++)); do
    (
        trap - EXIT
        for ((n = k; n < in_brokers; n += 4)); do
            broker_run $((first_broker + n))
        done
    ) &
    workers+=($!)
done
for worker in "${workers[@]}"; do
    wait "$worker" || fail "brokers"
done
[ "$("$fake" faults)" = 0 ] || fail "memory was freed that others had open"
echo "{\"check\": \"$what\", \"clients\": $in_clients, \"brokers\": $in_brokers}"
