#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first hour on a real GPU: ten questions, in the order in which an answer makes the next one
# worth asking. It stops at the first that fails, and writes OUT/gpu-results.md (docs/gpu-results.md).
#   tests/gpu/first.sh pack BUILD KIT   gathers programs and libraries of a build into a folder
#   tests/gpu/first.sh run KIT OUT      there, which needs neither network nor compiler
#   tests/gpu/first.sh fake KIT OUT     the same on the fake driver, shorter
#   tests/gpu/first.sh page - OUT       the page of a run that has not been
# ONLY=N: that one alone. run: exit 77 without an NVIDIA driver, 1 if a check failed. It takes at most 8 minutes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -eq 3 ] || { sed -n '3,9s/^# \{0,1\}//p' "$0" >&2; exit 64; }
action=$1
. "$here/kit.sh"

titles=(
    "driver, mode, MIG, times of the first calls"
    "two processes: export, and each way to open it"
    "the exporter is killed under copies, or frees first"
    "waits without a context, on the streams 0, 1, 2"
    "round trip: nothing is staged that need not be"
    "a pool of 60 % of the GPU, kill -9 of brokerd, start again"
    "captures in one thread, posts and releases in another"
    "posts and leases with kills: no wrong byte, ranges back"
    "ucx: GPU to GPU, one of two connections closed, 20 kills"
    "figures: copies, transfer, map latency, questions"
)
results=()

write_page() { # OUT
    local n
    {
        echo "# Results on a real GPU"
        echo
        if [ "$action" = page ]; then
            echo "**No GPU could be had: nothing of this has run.** \`tests/gpu/first.sh\` asks these ten"
            echo "questions on a machine with a GPU, in this order, and stops at the first that fails:"
            echo
            echo '```'
            echo "tests/gpu/first.sh pack build/dev KIT    where the build is"
            echo "KIT/first.sh run KIT OUT                 where the GPU is; OUT/gpu-results.md replaces this page"
            echo '```'
            echo
            echo "The test \`stress-gpu-first\` runs all ten on the fake driver, which proves the script and"
            echo "nothing about a GPU. A check that cannot be made says \"skipped\" and the reason."
        else
            echo "Of \`tests/gpu/first.sh\`, $(date -u +%Y-%m-%d), on $([ "$mode" = --real ] && echo "a real GPU" || echo "**the fake driver**")."
            echo
            echo "| | |"
            echo "|---|---|"
            echo "| driver | $(sed -nE 's/.*Kernel Module .* ([0-9]+(\.[0-9]+)+) .*/\1/p' /proc/driver/nvidia/version 2>/dev/null | grep . || echo none) |"
            echo "| GPU | $(sed -n 's/^first: //p' "$out/1.log" 2>/dev/null) |"
            echo "| UCX | $("$build/broker/brokerd" --version | sed -n 's/.*(\(UCX[^)]*\)).*/\1/p') |"
        fi
        echo
        echo "| | check | result |"
        echo "|---|---|---|"
        for n in "${!titles[@]}"; do
            echo "| $((n + 1)) | ${titles[n]} | ${results[n]:-not run} |"
        done
        for n in "${!titles[@]}"; do
            [ -s "${out:-/nowhere}/$((n + 1)).log" ] || continue
            printf '\n## %s\n\n```\n%s\n```\n' "$((n + 1)). ${titles[n]}" "$(cat "$out/$((n + 1)).log")"
        done
    } >"$1/gpu-results.md"
}

case $action in
    pack)
        pack_begin "$2" "$3"
        cp "$here/first.sh" "$here/kit.sh" "$here/broker.sh" "$here/roundtrip.sh" "$here/ucx.sh" "$3/"
        pack_end "$3"
        size=$(tar -C "$3" -cz . | wc -c)
        echo "$((size >> 10)) KiB, packed"
        [ "$size" -le $((12 << 20)) ] || { echo "that is more than 12 MiB" >&2; exit 1; }
        exit ;;
    page)
        out=/nowhere
        mkdir -p "$3"
        write_page "$3"
        exit ;;
    run) mode=--real ;;
    fake) mode= ;;
    *) echo "$action: not known" >&2; exit 64 ;;
esac

build=$(cd "$2" && pwd)
mkdir -p "$3"
out=$(cd "$3" && pwd)
rm -f "$out"/*.log
if [ "$mode" = --real ] && [ ! -e /proc/driver/nvidia/version ]; then
    echo "skipped: no NVIDIA driver on this machine"
    exit 77
fi
use_kit "$build"
. "$build/broker.sh"
first=$build/tests/gpu-first
roundtrip=$build/tests/gpu-roundtrip
if [ "$mode" = --real ]; then
    unset FAKECUDA_MACHINE FAKECUDA_MEMORY
    bytes=$((512 << 20)) pinned=$((1 << 30)) posts=10000 kills=20 sizes=(16m 256m)
    pool=8G max_message=1G host_size=8G
else
    export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so
    bytes=$((128 << 20)) pinned=$((64 << 20)) posts=500 kills=4 sizes=(16m)
    pool=512M max_message=64M host_size=1G
fi

skip() {
    echo "skipped: $*"
    exit 77
}
await_free() { # 0 bytes of the pool are in use, in a while
    for ((i = 0; i < 200; i++)); do
        [ "$(used)" = 0 ] && return
        sleep 0.05
    done
    fail "$1: $(used) bytes of the pool are in use"
}

check_1() {
    nvidia-smi -L 2>/dev/null || true
    timeout 120 "$first" machine
}
check_2() { timeout 60 "$first" ipc "$bytes"; }
check_3() { timeout 60 "$first" death "$bytes"; }
check_4() { timeout 60 "$first" waits; }
check_5() {
    timeout 240 "$build/roundtrip.sh" "$build" ${mode:+"$mode"} >"$out/roundtrip.txt" 2>&1 ||
        fail "$(tail -2 "$out/roundtrip.txt")"
    echo "messages, each byte compared: $(grep -o '"messages": *[0-9]*' "$out/roundtrip.txt" | awk '{ sum += $2 } END { print sum }')"
}
check_6() {
    local size begin
    size=$("$first" machine | sed -n 's/^first: .*, \([0-9]*\) MiB$/\1/p')
    size=$((size * 6 / 10))
    start_broker -o memory.cuda.size=${size}M -o memory.cuda.devices=0 || fail "brokerd does not start"
    await_pool ok "at first"
    mkfifo "$dir/go"
    HOLD=1 "$roundtrip" publish 0 0 <"$dir/go" >"$dir/held" 2>"$dir/held.err" &
    pids=($!)
    exec 9>"$dir/go"
    sleep 1
    kill -9 "$broker"
    wait "$broker" || true
    begin=$(date +%s%N)
    start_broker -o memory.cuda.size=${size}M -o memory.cuda.devices=0 9>&- || fail "brokerd does not start again"
    await_pool ok "after a kill"
    echo "pool: $size MiB, there again after $((($(date +%s%N) - begin) / 1000000)) ms"
    exec 9>&-
    EXPECT_STAGED=0 timeout 60 "$roundtrip" publish 0 0 >"$dir/again" 2>"$dir/again.err" || fail "publish after it"
    stop
}
check_7() {
    start_broker -o memory.cuda.size=64M -o memory.cuda.devices=0 || fail "brokerd does not start"
    timeout 120 "$first" capture "$posts" || fail "a capture was broken, or a post or release refused"
    await_free "after captures"
    stop
}
# A reader and a publisher of a role; one of the two is killed.
kill_one() { # N
    local role=publish
    [ $(($1 % 2)) = 0 ] || role=lease
    "$roundtrip" gpu 0 >"$dir/reader" 2>"$dir/reader.err" &
    pids=($!)
    "$roundtrip" "$role" 0 1 >"$dir/publisher" 2>"$dir/publisher.err" &
    pids+=($!)
    sleep "0.$(($1 * 37 % 90 + 10))"
    kill -9 "${pids[$(($1 / 2 % 2))]}" 2>/dev/null || true
    sleep 0.3
    kill -9 "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
    pids=()
    ! grep -h 'not what was published' "$dir/reader.err" || fail "wrong bytes"
}
whole() { # COMMAND...: before the publisher's: a round of which nobody is killed
    "$roundtrip" gpu 0 >"$dir/reader" 2>"$dir/reader.err" &
    pids=($!)
    EXPECT_STAGED=0 timeout 200 "$@" "$roundtrip" publish 0 1 >"$dir/publisher" 2>"$dir/publisher.err" ||
        fail "the publisher: $(tail -1 "$dir/publisher.err")"
    wait "${pids[0]}" || fail "the reader: $(tail -1 "$dir/reader.err")"
    pids=()
}
check_8() {
    start_broker -o memory.cuda.size=256M -o memory.cuda.devices=0 || fail "brokerd does not start"
    for ((n = 0; n < kills; n++)); do
        kill_one "$n"
    done
    await_free "after $kills kills"
    whole env
    if command -v compute-sanitizer >/dev/null; then
        whole compute-sanitizer --error-exitcode 1
        echo "compute-sanitizer: no error"
    else
        echo "compute-sanitizer: skipped: not on this machine"
    fi
    await_free "at the end"
    echo "kills: $kills, all ranges back"
    stop
}
check_9() {
    local before after
    [ -e "$build/lib/libucp.so.0" ] || skip "no UCX in the kit"
    timeout 150 "$build/ucx.sh" "$build" ${mode:+"$mode"} >"$out/ucx.txt" 2>&1 || fail "$(grep FAILED "$out/ucx.txt")"
    export AMB_TRUSTED=lo
    if [ "$mode" != --real ]; then
        export LD_LIBRARY_PATH=$build/tests/fakecuda:$build/tests/fakecuda/nvml:$LD_LIBRARY_PATH
    fi
    start_broker --listen tcp://127.0.0.1:0 -o memory.cuda.size=128M -o memory.cuda.devices=0 || fail "brokerd does not start"
    before=$("$first" used)
    local url
    url=$(grep -o 'tcp://[^ ]*' "$dir/ready")?link=ucx
    AMB_URL=$url timeout 100 "$first" links 40 || fail "two connections"
    for ((n = 0; n < 20; n++)); do
        AMB_URL=$url "$roundtrip" publish 0 0 >/dev/null 2>"$dir/killed.err" &
        pids=($!)
        sleep "0.$((n * 13 % 30 + 10))"
        kill -9 "${pids[0]}" 2>/dev/null || true
        wait "${pids[0]}" 2>/dev/null || true
        pids=()
    done
    for ((i = 0; i < 300; i++)); do # What a dead peer may still be writing is free after ten seconds.
        after=$("$first" used)
        [ "$after" -le "$((before + (16 << 20)))" ] && [ "$(used)" = 0 ] && break
        sleep 0.05
    done
    echo "bytes of the GPU in use: $before before, $after after 20 kills"
    [ "$after" -le "$((before + (16 << 20)))" ] || fail "GPU memory is not back"
    await_free "after 20 kills"
    stop
}
bench() { # ARGUMENT...: of broker-bench, as one line of JSON
    timeout 60 "$build/tools/broker-bench" --memory cuda --brokerd "$build/broker/brokerd" \
        --broker-option memory.cuda.size="$pool" --broker-option server.max_message="$max_message" \
        --broker-option memory.host.size="$host_size" -o json "$@" 2>"$dir/bench.err" ||
        fail "broker-bench $*: $(tail -1 "$dir/bench.err")"
}
check_10() {
    local size
    for size in "${sizes[@]}"; do
        echo "copies of $size: $(bench copies --size "$size" --seconds 0.5s)"
        echo "transfer of $size: $(bench throughput --size "$size" --post --copy --seconds 1s)"
    done
    echo "lease and map of 64k: $(bench latency --size 64k --lease --seconds 0.5s)"
    timeout 60 "$first" costs "$pinned"
}

status=0
for n in "${!titles[@]}"; do
    [ "${ONLY:-$((n + 1))}" = $((n + 1)) ] || continue
    number=$((n + 1)) code=0 begin=$(date +%s%N)
    ( # A check may end itself, and takes its broker and programs with it.
        dir=$dir/$number
        mkdir "$dir"
        trap finish EXIT
        export AMB_URL=unix://$dir/s
        set -e
        "check_$number"
    ) >"$out/$number.log" 2>"$out/$number.err.log" || code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
    case $code in
        0) results[n]="passed, $took ms" ;;
        77) results[n]=$(tail -1 "$out/$number.log") ;;
        *)
            results[n]="FAILED: $(grep -h 'not so\|FAILED' "$out/$number.err.log" | head -1 | sed 's/^\(FAILED: \)*//; s/|/\//g')"
            status=1 ;;
    esac
    echo "$number. ${titles[n]}: ${results[n]}"
    [ "$status" = 0 ] || break
done
write_page "$out"
exit "$status"
