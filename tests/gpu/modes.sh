#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# GPUs that are a part of one (MIG), one process's, or shared by MPS: what the broker, its clients and
# the doctor say of them, on the fake driver.
#   tests/gpu/modes.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$0")/broker.sh"
export AMB_CUDA_LIBRARY=$build/tests/fakecuda/libfakecuda.so
roundtrip=$build/tests/gpu-roundtrip
pool="-o memory.cuda.size=512M"

ask() { "$build/tools/broker-ctl" -o json "$1"; }
# The doctor's status is 1 where it has warnings, and 2 where it has errors.
answer() { # WHAT
    ask "$1" >"$dir/$1" || [ "$1" = doctor ] && [ -s "$dir/$1" ] || fail "$1: no answer"
}
expect() { # WHAT WORD
    answer "$1"
    grep -qF -- "$2" "$dir/$1" || fail "$1 has no '$2': $(cat "$dir/$1")"
}
expect_not() { # WHAT WORD
    answer "$1"
    ! grep -qF -- "$2" "$dir/$1" || fail "$1 has '$2': $(cat "$dir/$1")"
}
# A publisher and a subscriber; the way of the subscriber's messages, and the bytes that are staged.
pass() { # WHAT PATH STAGED MIG
    EXPECT_PATH=$2 FAKECUDA_MIG=$4 "$roundtrip" gpu 0 >"$dir/gpu" 2>"$dir/gpu.err" &
    pids=($!)
    EXPECT_STAGED=$3 FAKECUDA_MIG=$4 timeout 60 "$roundtrip" publish 0 1 >"$dir/publish" \
        2>"$dir/publish.err" || fail "$1: the publisher: $?"
    wait "${pids[0]}" || fail "$1: the subscriber: $?"
    pids=()
}

# Whole GPUs, in the default mode: nothing is said of modes.
start_broker $pool || fail "brokerd does not start"
expect memory '"uuid":"GPU-'
expect_not memory MIG
for word in ' mode"' ' mig"' '"gpu mps"' '"gpu visible"'; do
    expect_not doctor "$word"
done
stop

# A part of a GPU is chosen, shown and told to clients by its own UUID.
part=MIG-fbfbfbfb-fbfb-fbfb-fbfb-fbfbfbfbfb02
FAKECUDA_MIG=2 start_broker $pool -o "memory.cuda.devices=$part" || fail "MIG: $(cat "$dir/log")"
expect memory "\"uuid\":\"$part\""
expect_not memory GPU-
expect doctor "CUDA_VISIBLE_DEVICES=$part"
expect_not doctor GPU-
pass "the same part" cuda_ipc 0 2
pass "another part" staged 35823830 3
stop
! FAKECUDA_MIG=2 start_broker $pool -o "memory.cuda.devices=GPU-${part#MIG-}" || fail "GPU- names a part"
grep -q 'there is no GPU' "$dir/log" || fail "no reason: $(cat "$dir/log")"
# By the name that drivers before 470 gave it, where it is shown by that name.
part=MIG-GPU-fafafafa-fafa-fafa-fafa-fafafafafa00/13/0
CUDA_VISIBLE_DEVICES=$part FAKECUDA_MIG=2 start_broker $pool -o "memory.cuda.devices=$part" ||
    fail "an old name: $(cat "$dir/log")"
expect memory '"uuid":"MIG-fbfbfbfb-fbfb-fbfb-fbfb-fbfbfbfbfb0d"'
stop
! FAKECUDA_MIG=2 start_broker $pool -o "memory.cuda.devices=$part" || fail "another part has that name"
grep -q "there is no GPU \"$part\": where CUDA_VISIBLE_DEVICES does not begin with it" "$dir/log" ||
    fail "no reason: $(cat "$dir/log")"
broker=

# One process's: the broker has it and says so, and a second one may not.
export FAKECUDA_MODE=exclusive
start_broker $pool || fail "exclusive: $(cat "$dir/log")"
grep -q 'EXCLUSIVE_PROCESS' "$dir/log" || fail "the broker does not say it: $(cat "$dir/log")"
expect doctor '"gpu 0 mode"'
expect doctor 'nvidia-smi -i 0000:01:00.0 -c DEFAULT'
"$build/broker/brokerd" --dev --listen "unix://$dir/second" $pool >"$dir/second" 2>"$dir/second.err" &&
    fail "two brokers"
grep -q 'EXCLUSIVE_PROCESS mode), and another one has it' "$dir/second.err" ||
    fail "no reason: $(cat "$dir/second.err")"
stop

# Under MPS the mode does not matter, but the company does.
export FAKECUDA_MPS=1
start_broker $pool || fail "MPS: $(cat "$dir/log")"
expect doctor '"gpu mps"'
expect doctor "the broker's too"
expect_not doctor '"gpu 0 mode"'
pass "under MPS" cuda_ipc 0 0
stop
# A driver that does not know of MPS: nothing is claimed before a process has been refused.
FAKECUDA_FAIL=cuDeviceGetAttribute:2=1,cuDeviceGetAttribute:6=1 \
    start_broker $pool -o memory.cuda.devices=0 || fail "an older driver: $(cat "$dir/log")"
! grep -q 'EXCLUSIVE_PROCESS' "$dir/log" || fail "claimed without a refusal: $(cat "$dir/log")"
expect_not doctor '"gpu 0 mode"'
stop
unset FAKECUDA_MPS FAKECUDA_MODE

# A client that is shown other GPUs than the broker.
CUDA_VISIBLE_DEVICES=0 start_broker $pool || fail "visible: $(cat "$dir/log")"
mkfifo "$dir/go"
HOLD=1 EXPECT_STAGED=any CUDA_VISIBLE_DEVICES=0,1 timeout 60 "$roundtrip" publish 1 0 <"$dir/go" >"$dir/held" 2>&1 &
pids=($!)
exec 9>"$dir/go"
for ((i = 0; i < 200; i++)); do
    answer doctor
    grep -q '"gpu visible"' "$dir/doctor" && break
    sleep 0.05
done
expect doctor 'CUDA_VISIBLE_DEVICES=0,1, and the broker 0'
exec 9>&-
wait "${pids[0]}" || fail "$(cat "$dir/held")"
pids=()
stop
echo "ok"
