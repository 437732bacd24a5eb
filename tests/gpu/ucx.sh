#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# UCX with its CUDA modules. Over TCP alone nothing in device memory is given to it, since libamb
# copies with fewer calls. Then it is given all from 4 KiB on (AMB_UCX_GPU_MIN), and what arrives is
# compared byte by byte. A broker whose UCX has the modules too has them fetched into its pool, and from
# there into another GPU; one whose has not, into host memory. On the fake driver, or with --real on the
# machine's own.
#   tests/gpu/ucx.sh BUILD_FOLDER [--real]
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"
roundtrip=$build/tests/gpu-roundtrip
fake=$build/tests/fakecuda
admin=$AMB_URL
export AMB_TRUSTED=lo
other=1 # The subscribers' GPUs.
all=35823830
small=208 # What is below 4 KiB.
if [ "${2:-}" = --real ]; then
    if [ ! -e /proc/driver/nvidia/version ]; then
        echo "skipped: no NVIDIA driver on this machine"
        exit 77
    fi
    [ "$(ls /proc/driver/nvidia/gpus 2>/dev/null | wc -l)" -ge 2 ] || other=0
else
    export AMB_CUDA_LIBRARY=$fake/libfakecuda.so
    export LD_LIBRARY_PATH=$fake:$fake/nvml${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

received() { # how many messages UCX has written to the broker's GPU memory
    AMB_URL=$admin "$build/tools/broker-ctl" -o json memory |
        grep -o '"received": *[0-9]*' | awk -F: '{ sum += $2 } END { print sum + 0 }'
}
has_none() { # COMMAND: without UCX's CUDA modules
    UCX_MODULES=^cuda exec "$@"
}
publish() { # what SUBSCRIBERS
    local staged=$small
    [ -n "${AMB_UCX_GPU_MIN:-}" ] || staged=$all
    EXPECT_STAGED=$staged timeout 120 "$roundtrip" publish 0 "$2" \
        >"$dir/publish" 2>"$dir/publish.err" || fail "$1: the publisher: $?"
    for pid in "${pids[@]}"; do
        wait "$pid" || fail "$1: a subscriber: $?"
    done
    pids=()
}

says_what_is_left_out() { # UCX 1.22.0 does without cuda_ipc.
    local expected=0 all
    ! "$build/broker/brokerd" --version | grep -q 'UCX 1\.22\.0' || expected=1
    for what in transports doctor; do # This client's own link is ucx.
        all=$(AMB_URL=$admin?link=ucx "$build/tools/broker-ctl" -o json "$what") || [ "$what" = doctor ] || fail "$what" # It has warnings.
        [ "$(grep -c 'ucx#11744' <<<"$all")" = "$expected" ] || fail "$what: $all"
        [ "$expected" = 0 ] || ! grep -q 'cuda_ipc/' <<<"$all" || fail "a lane of cuda_ipc: $all"
    done
}

for try in "by lanes, yes" "from 4096, no" "from 4096, yes"; do
    broker_has=${try#*, }
    export AMB_UCX_GPU_MIN=4096
    [ "${try%,*}" != "by lanes" ] || unset AMB_UCX_GPU_MIN
    (
        [ "$broker_has" = yes ] || export UCX_MODULES=^cuda
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
    AMB_CUDA_LIBRARY=/nowhere has_none "$roundtrip" host >"$dir/host" 2>"$dir/host.err" &
    pids=($!)
    "$roundtrip" gpu "$other" >"$dir/gpu" 2>"$dir/gpu.err" &
    pids+=($!)
    has_none "$roundtrip" gpu 0 >"$dir/plain" 2>"$dir/plain.err" &
    pids+=($!)
    publish "$try" 3
    grep -q '"path": "ucx"' "$dir/host" || fail "another link: $(cat "$dir/host")"
    fetched=$(received)
    expected=0
    [ "$try" != "from 4096, yes" ] || expected=10 # Five sizes, twice each.
    [ "$fetched" = "$expected" ] || fail "$try: fetched into GPU memory: $fetched, not $expected"
    # From there UCX brings them into the other GPU; what is smaller its client stages, as all others do.
    # The first of a size is staged, too: its buffer is made meanwhile.
    left=$(sed -n 's/.*"staged": \([0-9]*\),.*/\1/p' "$dir/gpu")
    if [ "$expected" = 0 ]; then
        [ "$left" = "$all" ] || fail "staged, not $all: $(cat "$dir/gpu")"
    elif [ "$left" -lt "$small" ] || [ "$left" -ge "$all" ]; then
        fail "staged, not $small and less than $all: $(cat "$dir/gpu")"
    fi
    grep -q "\"staged\": $all," "$dir/plain" || fail "staged: $(cat "$dir/plain")"
    says_what_is_left_out
    cat "$dir/publish" "$dir/host" "$dir/gpu" "$dir/plain"
    # Other kinds of device memory are not given to UCX.
    if [ "$expected" != 0 ] && [ "${2:-}" != --real ] && [ -x "$build/tests/gpu-kinds" ]; then
        timeout 60 "$build/tests/gpu-kinds" link 2>"$dir/kinds.err" || fail "other kinds: $?"
    fi
    stop
    rm -f "$dir/ready"
done
echo "ok"
