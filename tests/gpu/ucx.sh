#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# UCX with its CUDA modules, on the fake driver: large messages in device memory are given to it as
# they lie, and what arrives is compared byte by byte. With a broker whose UCX has the modules too,
# and one whose has not.
#   tests/gpu/ucx.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"
roundtrip=$build/tests/gpu-roundtrip
fake=$build/tests/fakecuda
admin=$AMB_URL
staged=41168 # What is below 64 KiB.
export AMB_TRUSTED=lo AMB_CUDA_LIBRARY=$fake/libfakecuda.so

received() { # how many messages UCX has written to the broker's GPU memory
    AMB_URL=$admin "$build/tools/broker-ctl" -o json memory |
        grep -o '"received": *[0-9]*' | awk -F: '{ sum += $2 } END { print sum + 0 }'
}
has_cuda() { # COMMAND: with UCX's CUDA modules
    LD_LIBRARY_PATH=$fake:$fake/nvml "$@"
}
publish() { # what SUBSCRIBERS
    EXPECT_STAGED=$staged has_cuda timeout 120 "$roundtrip" publish 0 "$2" \
        >"$dir/publish" 2>"$dir/publish.err" || fail "$1: the publisher: $?"
    for pid in "${pids[@]}"; do
        wait "$pid" || fail "$1: a subscriber: $?"
    done
    pids=()
}

for broker_has in no yes; do
    (
        [ "$broker_has" = no ] || export LD_LIBRARY_PATH=$fake:$fake/nvml
        exec "$build/broker/brokerd" --dev --listen "$admin" --listen tcp://127.0.0.1:0 -o memory.cuda.size=128M \
            >"$dir/ready" 2>"$dir/log"
    ) &
    broker=$!
    for ((i = 0; i < 200; i++)); do
        grep -q '^ready' "$dir/ready" 2>/dev/null && break
        sleep 0.05
    done
    url=$(grep -o 'tcp://[^ ]*' "$dir/ready") || fail "brokerd does not start"
    export AMB_URL=$url?link=ucx
    AMB_CUDA_LIBRARY=/nowhere "$roundtrip" host >"$dir/host" 2>"$dir/host.err" &
    pids=($!)
    has_cuda "$roundtrip" gpu 1 >"$dir/gpu" 2>"$dir/gpu.err" &
    pids+=($!)
    "$roundtrip" gpu 0 >"$dir/plain" 2>"$dir/plain.err" & # Its UCX has none.
    pids+=($!)
    publish "the broker's has it: $broker_has" 3
    grep -q '"path": "ucx"' "$dir/host" || fail "another link: $(cat "$dir/host")"
    # Of what UCX fetches, and does not send with its head: 1 and 16 MiB, twice each.
    fetched=$([ "$broker_has" = no ] && echo 0 || echo 4)
    [ "$(received)" = "$fetched" ] || fail "fetched into GPU memory: $(received), not $fetched"
    # From there UCX brings them into the other GPU; what is smaller its client stages, as all others do.
    left=$([ "$broker_has" = no ] && echo 35823830 || echo 172246)
    grep -q "\"staged\": $left," "$dir/gpu" || fail "staged, not $left: $(cat "$dir/gpu")"
    grep -q '"staged": 35823830,' "$dir/plain" || fail "staged: $(cat "$dir/plain")"
    cat "$dir/publish" "$dir/host" "$dir/gpu" "$dir/plain"
    stop
    rm -f "$dir/ready"
done
echo "ok"
