#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is to be run on a machine with a GPU, which may have neither network nor compiler.
#   tests/gpu/run.sh pack BUILD KIT   gathers programs and libraries of a build into a folder
#   tests/gpu/run.sh run KIT OUT      there: every check, results as OUT/*.json and OUT/table.txt
#   tests/gpu/run.sh fake KIT OUT     the same on the fake driver, to try this script
# run: exit 77 without an NVIDIA driver, 1 if a check failed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    sed -n '3,7s/^# \{0,1\}//p' "$0" >&2
    exit 64
}
[ $# -eq 3 ] || usage

pack() {
    local build=$1 kit=$2 file library
    mkdir -p "$kit/broker" "$kit/tests/fakecuda" "$kit/lib"
    cp "$build/broker/brokerd" "$kit/broker/"
    cp "$build/tests/gpu-roundtrip" "$kit/tests/"
    cp -L "$build/tests/fakecuda/libfakecuda.so" "$kit/tests/fakecuda/"
    cp "$here/roundtrip.sh" "$here/run.sh" "$kit/"
    # All but the C library, which every machine has as it needs it.
    for file in "$kit/broker/brokerd" "$kit/tests/gpu-roundtrip"; do
        ldd "$file" | awk '$3 ~ /^\// { print $3 }' |
            grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
            while read -r library; do
                cp -L "$library" "$kit/lib/"
            done
    done
    du -sh "$kit"
}

run() {
    local kit=$1 out=$2 mode=$3 failed=0
    kit=$(cd "$kit" && pwd)
    mkdir -p "$out"
    if [ "$mode" = --real ] && [ ! -e /proc/driver/nvidia/version ]; then
        echo "skipped: no NVIDIA driver on this machine"
        exit 77
    fi
    export LD_LIBRARY_PATH=$kit/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    {
        uname -srm
        cat /proc/driver/nvidia/version 2>/dev/null || echo "no NVIDIA driver"
        nvidia-smi -L 2>/dev/null || true
        nvidia-smi topo -m 2>/dev/null || true
    } >"$out/machine.txt"
    if "$kit/roundtrip.sh" "$kit" ${mode:+"$mode"} >"$out/roundtrip.log" 2>&1; then
        grep '^{' "$out/roundtrip.log" >"$out/roundtrip.json"
    else
        failed=1
    fi
    {
        echo "check      result"
        echo "roundtrip  $([ "$failed" = 0 ] && echo passed || echo FAILED)"
        awk -F'[:,}]' '/"role": "(publish|lease)"/ {
            for (i = 1; i < NF; i++) {
                if ($i ~ /"bytes"/) bytes = $(i + 1)
                if ($i ~ /"seconds"/) seconds = $(i + 1)
                if ($i ~ /"staged"/) staged = $(i + 1)
            }
            printf "%-10s %.0f MB/s to its subscribers, each message settled, patterns compared\n", \
                staged > 0 ? "staged" : "in place", bytes / seconds / 1e6
        }' "$out/roundtrip.log"
        echo "not there  rates of device copies, ?link=ucx with device memory, DLPack consumers"
    } >"$out/table.txt"
    cat "$out/table.txt"
    [ "$failed" = 0 ] || { tail -20 "$out/roundtrip.log" >&2; exit 1; }
}

case $1 in
    pack) pack "$2" "$3" ;;
    run) run "$2" "$3" --real ;;
    fake) run "$2" "$3" "" ;;
    *) usage ;;
esac
