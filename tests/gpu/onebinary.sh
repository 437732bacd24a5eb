#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same brokerd and libamb serve host traffic without a CUDA driver and with one (here the fake one),
# and a driver is loaded only where GPU memory is asked for. Without ucx links: UCX loads a driver by itself.
#   tests/gpu/onebinary.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"

start() {
    start_broker -o transports.trusted= "$@"
}
host_traffic() {
    "$build/tools/broker-ctl" sub t --count 100 --timeout 20 >"$dir/sub" 2>"$dir/sub.err" &
    local reader=$!
    "$build/tools/broker-ctl" pub t --count 100 --size 20000 --wait-subscribers 1 --timeout 20 \
        >/dev/null || fail "$1: pub"
    wait "$reader" || fail "$1: sub: $(cat "$dir/sub.err")"
}
has_driver() {
    grep -q 'cuda' "/proc/$broker/maps"
}

before=$(sha256sum "$build/broker/brokerd" "$build/tools/broker-ctl" "$build/tests/gpu-roundtrip")

# No driver at all.
export AMB_CUDA_LIBRARY=/nowhere/libcuda.so.1
start || fail "no driver: brokerd does not start"
host_traffic "no driver"
! has_driver || fail "no driver: one is in memory"
stop
start -o memory.cuda.size=64M && fail "no driver: a pool on nothing"
wait "$broker" && fail "no driver: exit 0"
broker=
grep -q '/nowhere/libcuda.so.1' "$dir/log" || fail "no driver: no reason"

# The fake one, by a path and as the loader finds it; unused, then with a pool.
for way in path loader; do
    if [ "$way" = path ]; then
        export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so
    else
        unset AMB_CUDA_LIBRARY
        export LD_LIBRARY_PATH=$build/tests/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    fi
    start || fail "$way: brokerd does not start"
    host_traffic "$way"
    ! has_driver || fail "$way: the driver is in memory, and nobody asked for it"
    stop
    start -o memory.cuda.size=512M || fail "$way: no pool"
    host_traffic "$way, pool"
    has_driver || fail "$way: a pool without a driver"
    EXPECT_STAGED=0 "$build/tests/gpu-roundtrip" publish 0 0 >"$dir/out" ||
        fail "$way: GPU memory was staged: $(cat "$dir/out")"
    stop
done
[ "$before" = "$(sha256sum "$build/broker/brokerd" "$build/tools/broker-ctl" "$build/tests/gpu-roundtrip")" ] ||
    fail "not the same binaries"
echo "ok"
