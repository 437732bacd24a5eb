#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One publisher of GPU memory, subscribers of GPU, host and allocator's memory, on each link that a
# plain URL gives; every byte is compared. On the fake driver, or with --real on the machine's own.
#   tests/gpu/roundtrip.sh BUILD_FOLDER [--real]
set -euo pipefail
build=$1
dir=$(mktemp -d /tmp/amb-gpu-XXXXXX)
broker=
readers=()
finish() {
    for pid in "${readers[@]}" $broker; do
        kill "$pid" 2>/dev/null || true
    done
    wait
    rm -rf "$dir"
}
trap finish EXIT
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

other=1 # The second subscriber's GPU.
if [ "${2:-}" = --real ]; then
    if [ ! -e /proc/driver/nvidia/version ]; then
        echo "skipped: no NVIDIA driver on this machine"
        exit 77
    fi
    [ "$(ls /proc/driver/nvidia/gpus 2>/dev/null | wc -l)" -ge 2 ] || other=0
else
    export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so
    # All processes are on one machine, which counts their memory together.
    export FAKECUDA_MEMORY=1G FAKECUDA_MACHINE=$dir/machine
fi

start() {
    rm -f "$dir/ready" "$dir/s"
    "$build/broker/brokerd" --dev "$@" --listen "unix://$dir/s" --listen tcp://127.0.0.1:0 \
        >"$dir/ready" 2>"$dir/log" &
    broker=$!
    for ((i = 0; i < 200; i++)); do
        grep -q '^ready' "$dir/ready" 2>/dev/null && break
        sleep 0.05
    done
    grep -q '^ready' "$dir/ready" || fail "brokerd does not start: $(cat "$dir/log")"
    read -r _ unix_url tcp_url <"$dir/ready"
}
stop() {
    kill "$broker"
    wait "$broker" || fail "brokerd: $?: $(tail -5 "$dir/log")"
    broker=
}
roundtrip=$build/tests/gpu-roundtrip

# One publisher of that role, and what each subscriber's messages must have come by.
audience() { # url role staged gpu_path sent_path
    export AMB_URL=$1
    readers=()
    EXPECT_PATH=$4 "$roundtrip" gpu 0 >"$dir/gpu0" 2>"$dir/gpu0.err" &
    readers+=($!)
    EXPECT_PATH=$4 "$roundtrip" gpu "$other" >"$dir/gpu1" 2>"$dir/gpu1.err" &
    readers+=($!)
    EXPECT_PATH=$4 "$roundtrip" managed 0 >"$dir/managed" 2>"$dir/managed.err" &
    readers+=($!)
    "$roundtrip" pinned 0 >"$dir/pinned" 2>"$dir/pinned.err" &
    readers+=($!)
    EXPECT_PATH=$5 "$roundtrip" sent >"$dir/sent" 2>"$dir/sent.err" &
    readers+=($!)
    "$roundtrip" lazy 0 >"$dir/lazy" 2>"$dir/lazy.err" &
    readers+=($!)
    # These two have no driver at all.
    AMB_CUDA_LIBRARY=/nowhere "$roundtrip" host >"$dir/host" 2>"$dir/host.err" &
    readers+=($!)
    AMB_CUDA_LIBRARY=/nowhere "$roundtrip" pool >"$dir/pool" 2>"$dir/pool.err" &
    readers+=($!)
    EXPECT_STAGED=$3 timeout 120 "$roundtrip" "$2" 0 8 || fail "$1: $2: $?"
    for pid in "${readers[@]}"; do
        wait "$pid" || fail "$1: $2: a subscriber: $(cat "$dir"/*.err)"
    done
    readers=()
    cat "$dir/gpu0" "$dir/gpu1" "$dir/managed" "$dir/pinned" "$dir/sent" "$dir/lazy" "$dir/host" "$dir/pool"
}

# With memory of the broker's on each GPU: in place, and nothing goes by the host that need not.
start -o memory.cuda.size=512M
for role in publish lease; do
    audience "$unix_url" "$role" 0 cuda_ipc cuda_ipc
done
# Other kinds to publish from: managed memory is copied on the device, pinned is host memory.
SOURCE=managed audience "$unix_url" publish 0 cuda_ipc cuda_ipc
SOURCE=pinned audience "$unix_url" publish 0 staged mapped
SOURCE=pinned audience "$unix_url" lease 0 staged mapped
# Remote subscribers get the broker's copies, remote publishers stage.
AMB_URL=$tcp_url AMB_CUDA_LIBRARY=/nowhere "$roundtrip" host >"$dir/host" 2>"$dir/host.err" &
readers=($!)
AMB_URL=$unix_url EXPECT_STAGED=0 timeout 120 "$roundtrip" publish 0 1 || fail "publish to a remote one"
wait "${readers[0]}" || fail "a remote subscriber: $(cat "$dir/host.err")"
# What a remote one leases in pinned memory is transferred.
AMB_URL=$unix_url AMB_CUDA_LIBRARY=/nowhere "$roundtrip" host >"$dir/host" 2>"$dir/host.err" &
readers=($!)
AMB_URL=$tcp_url SOURCE=pinned EXPECT_STAGED=0 timeout 120 "$roundtrip" lease 0 1 || fail "lease at a remote one"
wait "${readers[0]}" || fail "a subscriber of a remote one: $(cat "$dir/host.err")"
readers=()
stop

# A client that is not trusted, and one that cannot open the pool, are served by copies.
start -o memory.cuda.size=512M -o memory.cuda.trust=none
audience "$unix_url" publish 35823830 staged mapped
stop
if [ "${2:-}" != --real ]; then
    start -o memory.cuda.size=512M
    FAKECUDA_IPC=0 audience "$unix_url" publish 35823830 staged mapped
    stop
fi

# Without a pool: staged, and shown with the reason; or rejected, where the topic says so.
printf 'topics = ( { match = "gpu.>"; gpu = "reject"; } );\n' >"$dir/conf"
start --config "$dir/conf"
AMB_URL=$unix_url EXPECT_REJECTED=1 timeout 60 "$roundtrip" publish 0 0 2>"$dir/rejected" ||
    fail "gpu = reject: $(cat "$dir/rejected")"
grep -q 'memory.cuda.size' "$dir/rejected" || fail "no reason: $(cat "$dir/rejected")"
stop
start
if [ -x "$build/tools/broker-ctl" ]; then
    mkfifo "$dir/go"
    AMB_URL=$unix_url HOLD=1 timeout 60 "$roundtrip" publish 0 0 <"$dir/go" >"$dir/held" 2>&1 &
    readers=($!)
    exec 9>"$dir/go"
    for ((i = 0; i < 200; i++)); do
        "$build/tools/broker-ctl" --url "$unix_url" -o json transports >"$dir/transports"
        grep -q '"gpu_staged_in": *[1-9]' "$dir/transports" && break
        sleep 0.05
    done
    grep -q '"gpu_staged_in": *[1-9]' "$dir/transports" || fail "transports: $(cat "$dir/transports")"
    grep -q '"gpu_why": *"the broker has no GPU memory' "$dir/transports" || fail "no reason"
    exec 9>&-
    wait "${readers[0]}" || fail "$(cat "$dir/held")"
    readers=()
fi
# Over UCX as well, where there is one: what has no CUDA never sees a device pointer.
urls=("$unix_url" "$tcp_url")
ucx=$tcp_url?link=ucx
if AMB_URL=$ucx AMB_TRUSTED=lo timeout 60 "$build/tools/broker-ctl" pub try --count 1 --size 8 >"$dir/ucx" 2>&1; then
    export AMB_TRUSTED=lo
    urls+=("$ucx")
else
    echo "no ucx link: $(cat "$dir/ucx")"
fi
for url in "${urls[@]}"; do
    export AMB_URL=$url
    readers=()
    "$roundtrip" gpu 0 >"$dir/gpu0" 2>"$dir/gpu0.err" &
    readers+=($!)
    "$roundtrip" gpu "$other" >"$dir/gpu1" 2>"$dir/gpu1.err" &
    readers+=($!)
    # These two have no driver at all.
    AMB_CUDA_LIBRARY=/nowhere "$roundtrip" host >"$dir/host" 2>"$dir/host.err" &
    readers+=($!)
    AMB_CUDA_LIBRARY=/nowhere "$roundtrip" pool >"$dir/pool" 2>"$dir/pool.err" &
    readers+=($!)
    # A UCX with CUDA, which only a real driver lets it have, takes the large ones as they are.
    expected=35823830
    [ "${2:-}" != --real ] || [ "$url" != "$ucx" ] || expected=any
    EXPECT_STAGED=$expected timeout 120 "$roundtrip" publish 0 4 || fail "$url: the publisher: $?"
    for pid in "${readers[@]}"; do
        wait "$pid" || fail "$url: a subscriber: $(cat "$dir"/*.err)"
    done
    readers=()
    cat "$dir/gpu0" "$dir/gpu1" "$dir/host" "$dir/pool"

    # The programs of docs/examples: the second reads what the first publishes, without a driver.
    if [ "${2:-}" != --real ] && [ -x "$build/docs/examples/example-cuda" ]; then
        AMB_CUDA_LIBRARY=/nowhere "$build/docs/examples/example-mixed" >"$dir/mixed" 2>&1 &
        readers+=($!)
        for ((i = 0; i < 100; i++)); do # Until the reader is there, it sees nothing.
            timeout 60 "$build/docs/examples/example-cuda" >"$dir/cuda" 2>&1 ||
                fail "$url: example-cuda: $(cat "$dir/cuda")"
            grep -q . "$dir/mixed" && break
            sleep 0.05
        done
        grep -qx 'rank 2 on device 0, staged' "$dir/cuda" || fail "$url: $(cat "$dir/cuda")"
        grep -qx 'first 1' "$dir/cuda" || fail "$url: $(cat "$dir/cuda")"
        grep -q '^1, rank 2, by ' "$dir/mixed" || fail "$url: $(cat "$dir/mixed")"
        kill "${readers[0]}"
        wait "${readers[0]}" || true
        readers=()
    fi
done
if [ "${2:-}" != --real ]; then
    [ "$("$build/tests/gpu-first" faults)" = 0 ] || fail "memory was freed that others had open"
fi
echo "ok"
