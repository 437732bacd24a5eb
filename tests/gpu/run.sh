#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is to be run on a machine with a GPU, which may have neither network nor compiler.
#   tests/gpu/run.sh pack BUILD KIT   gathers programs and libraries of a build into a folder
#   tests/gpu/run.sh run KIT OUT      there: every check, results as OUT/*.json and OUT/table.txt
#   tests/gpu/run.sh fake KIT OUT     the same on the fake driver, to try this script
# run: exit 77 without an NVIDIA driver, 1 if a check failed. It takes at most 8 minutes (LIMIT_S).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    sed -n '3,7s/^# \{0,1\}//p' "$0" >&2
    exit 64
}
[ $# -eq 3 ] || usage

. "$here/kit.sh"

pack() {
    local build=$1 kit=$2 size
    pack_begin "$build" "$kit"
    cp "$build/tests/gpu-fake" "$kit/tests/"
    cp "$here/roundtrip.sh" "$here/ucx.sh" "$here/broker.sh" "$here/kit.sh" "$here/run.sh" "$here/dlpack.py" \
        "$here/arrays.py" "$kit/"
    if [ -d "$build/python/ambroker" ]; then # Built where Python's headers are.
        mkdir -p "$kit/python/ambroker"
        cp -L "$build"/python/ambroker/*.so "$build"/python/ambroker/*.py* "$kit/python/ambroker/"
        pack_libraries "$kit" "$kit"/python/ambroker/*.so
    fi
    pack_end "$kit"
    size=$(du -sm "$kit" | cut -f1)
    echo "$size MiB in $kit"
    [ "$size" -le 60 ] || { echo "that is more than 60 MiB" >&2; exit 1; }
}

# ---- run ----

failed=0
begin=$(date +%s)
limit=${LIMIT_S:-480}
mode=
kit=
out=

row() { # check result
    printf '%-44s %s\n' "$1" "$2" >>"$out/table.txt"
}
# Is there time for another so many seconds?
has_time() {
    [ $(($(date +%s) - begin + $1)) -lt "$limit" ]
}
# The number or text of a key in one line of JSON.
value() { # key
    sed -n "s/.*\"$1\": *\"*\([^\",}]*\).*/\1/p" | head -1
}

bench() { # name argument...
    local name=$1 line code=0
    shift
    if ! has_time 30; then
        row "$name" "left out: no time"
        return
    fi
    line=$(timeout 60 "$kit/tools/broker-bench" --memory cuda --brokerd "$kit/broker/brokerd" \
        --broker-option memory.cuda.size="$pool" --broker-option server.max_message="$max_message" \
        --broker-option memory.host.size="$host_size" \
        --broker-option limits.max_leased_per_session="$leased" \
        --broker-option limits.max_mapped_per_session="$mapped" -o json "$@" 2>"$out/bench.err") || code=$?
    if [ "$code" != 0 ]; then
        failed=1
        row "$name" "FAILED: $(tail -1 "$out/bench.err")"
        return
    fi
    printf '{"check":"%s","result":%s}\n' "$name" "$line" >>"$out/bench.json"
    case $line in
        *'"workload":"latency"'*)
            row "$name" "$(echo "$line" | value p50_us) us one way, first $(echo "$line" | value first_us), by $(echo "$line" | value path)" ;;
        *'"workload":"copies"'*)
            row "$name" "$(echo "$line" | tr '}' '\n' | sed -n 's/.*"path":"\([^"]*\)".*"mb_per_s":\([0-9.e+]*\).*/\1 \2 MB\/s;/p' | tr '\n' ' ')" ;;
        *)
            row "$name" "$(echo "$line" | value msgs_per_s) /s, $(echo "$line" | value mb_per_s) MB/s, by $(echo "$line" | value path), $(echo "$line" | value status)"
            case $line in *'"status":"ok"'*) ;; *) failed=1 ;; esac ;;
    esac
}

bench_all() {
    local size
    for size in 64k 1m 16m 256m 1g; do
        [ "$size" != 1g ] || [ "$mode" = --real ] || continue
        [ "$size" != 256m ] || [ "$mode" = --real ] || continue
        bench "copies $size" copies --size "$size" --seconds 0.5s
    done
    for size in 4 1k 64k 1m 16m 256m 1g; do
        case $size in 256m | 1g) [ "$mode" = --real ] || continue ;; esac
        bench "transfer $size" throughput --size "$size" --post --copy --seconds 1s
        bench "lease+map $size" latency --size "$size" --lease --seconds 0.5s
    done
    bench "mapped 64k rate" throughput --size 64k --lease --seconds 2s
    # Every word written and checked by kernels.
    for size in 4 64k 16m; do
        bench "checked transfer $size" throughput --size "$size" --post --copy --touch --seconds 1s
        bench "checked lease+map $size" throughput --size "$size" --lease --touch --seconds 1s
    done
    for size in 64k 16m; do
        bench "tcp stream $size" throughput --size "$size" --link stream --post --touch --seconds 1s
        [ ! -e "$kit/lib/libucp.so.0" ] ||
            bench "ucx $size" throughput --size "$size" --link ucx --post --touch --seconds 1s
    done
}

# UCX by itself between two processes, from and to GPU memory.
perftest() {
    local port=13777 size line
    if [ ! -x "$kit/tools/ucx_perftest" ]; then
        row ucx_perftest "left out: not in the kit"
        return
    fi
    if [ "$mode" != --real ]; then
        "$kit/tools/ucx_perftest" -h >"$out/perftest.log" 2>&1 || true
        row ucx_perftest "left out: no real driver"
        return
    fi
    for size in 65536 16777216 268435456; do
        has_time 30 || return 0
        timeout 30 "$kit/tools/ucx_perftest" -p "$port" >"$out/perftest.err" 2>&1 &
        sleep 2
        line=$(timeout 30 "$kit/tools/ucx_perftest" 127.0.0.1 -p "$port" -t ucp_am_bw -m cuda -s "$size" \
            -n 100 -f 2>>"$out/perftest.err" | tail -1) || line=
        wait || true
        case $line in
            *[0-9]) ;;
            *) line="failed: $(sed -n 's/.*UCX *ERROR //p' "$out/perftest.err" | head -1)" ;;
        esac
        echo "$size $line" >>"$out/perftest.txt"
        row "ucx_perftest -m cuda $size" "$line"
        port=$((port + 1))
    done
}

# An unrelated library reads what was received, where it lies.
dlpack() {
    local code=0 log=$out/dlpack.log
    if ! command -v python3 >/dev/null; then
        row dlpack "left out: no python3"
        return
    fi
    timeout 120 python3 "$kit/dlpack.py" "$kit" ${mode:+"$mode"} >"$log" 2>&1 || code=$?
    case $code in
        0) row dlpack "$(tail -1 "$log")" ;;
        77) row dlpack "left out: $(tail -1 "$log")" ;;
        *)
            failed=1
            row dlpack "FAILED: $(tail -1 "$log")" ;;
    esac
}

# The Python package, and array libraries on both ends of it.
arrays() {
    local code=0 log=$out/arrays.log
    if ! command -v python3 >/dev/null || ! has_time 60; then
        row "Python package" "left out: no python3, or no time"
        return
    fi
    timeout 120 python3 "$kit/arrays.py" "$kit" ${mode:+"$mode"} >"$log" 2>&1 || code=$?
    case $code in
        0) while read -r line; do row "Python package" "$line"; done <"$log" ;;
        77) row "Python package" "left out: $(tail -1 "$log")" ;;
        *)
            failed=1
            row "Python package" "FAILED: $(tail -1 "$log")" ;;
    esac
}

roundtrip() {
    if timeout 200 "$kit/roundtrip.sh" "$kit" ${mode:+"$mode"} >"$out/roundtrip.log" 2>&1; then
        grep '^{' "$out/roundtrip.log" >"$out/roundtrip.json"
        row "roundtrip, every byte compared" passed
    else
        failed=1
        row "roundtrip, every byte compared" "FAILED: $(tail -1 "$out/roundtrip.log")"
    fi
}

ucx() {
    local code=0 last
    if [ ! -e "$kit/lib/libucp.so.0" ] || ! has_time 60; then
        row "ucx, GPU to GPU by the broker's" "left out: no UCX in the kit, or no time"
        return
    fi
    timeout 120 "$kit/ucx.sh" "$kit" ${mode:+"$mode"} >"$out/ucx.log" 2>&1 || code=$?
    if [ "$code" = 0 ]; then
        row "ucx, GPU to GPU by the broker's" passed
    else
        failed=1
        last=$(grep FAILED "$out/ucx.log" | head -1) || true
        row "ucx, GPU to GPU by the broker's" "FAILED: ${last:-$code}"
    fi
}

machine() {
    uname -srm
    nproc
    cat /proc/driver/nvidia/version 2>/dev/null || echo "no NVIDIA driver"
    nvidia-smi -L 2>/dev/null || true
    nvidia-smi topo -m 2>/dev/null || true
    sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1
}

run() {
    kit=$(cd "$1" && pwd)
    out=$2
    mode=$3
    mkdir -p "$out"
    if [ "$mode" = --real ] && [ ! -e /proc/driver/nvidia/version ]; then
        echo "skipped: no NVIDIA driver on this machine"
        exit 77
    fi
    out=$(cd "$out" && pwd)
    rm -f "$out"/*.json "$out"/*.log "$out"/table.txt
    use_kit "$kit"
    # A client's share holds two of the largest messages; by default it is 1 GiB, and then they are staged.
    pool=8G max_message=1G host_size=8G leased=2G mapped=4G
    if [ "$mode" != --real ]; then
        export AMB_CUDA_LIBRARY=$kit/tests/fakecuda/libfakecuda.so FAKECUDA_MEMORY=2G
        pool=512M max_message=64M host_size=1G leased=256M mapped=1G
    fi
    machine >"$out/machine.txt"
    : >"$out/bench.json"
    roundtrip
    ucx
    bench_all
    perftest
    dlpack
    arrays
    row "seconds" $(($(date +%s) - begin))
    cat "$out/table.txt"
    return "$failed"
}

case $1 in
    pack) pack "$2" "$3" ;;
    run) run "$2" "$3" --real ;;
    fake) run "$2" "$3" "" ;;
    *) usage ;;
esac
