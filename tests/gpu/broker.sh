# SPDX-License-Identifier: Apache-2.0
# What the scripts here that run a brokerd begin with; sourced. Before: $build. After: $dir, a folder
# that goes at the end, $AMB_URL, and whatever is in $pids and $broker is ended then.
dir=$(mktemp -d /tmp/amb-gpu-XXXXXX)
broker=
pids=()
finish() {
    for pid in "${pids[@]}" $broker; do
        kill -9 "$pid" 2>/dev/null || true
    done
    wait
    rm -rf "$dir"
}
trap finish EXIT
fail() {
    echo "FAILED: $*" >&2
    tail -n 5 "$dir"/log "$dir"/*.err >&2 || true
    # What a sanitizer says is longer, and its last lines tell the least.
    sed -n '/ERROR: [A-Za-z]*Sanitizer\|WARNING: ThreadSanitizer/,$p' "$dir"/log "$dir"/*.err | head -n 60 >&2
    exit 1
}
# On the fake driver all of a script's processes are on one machine.
export AMB_URL=unix://$dir/s FAKECUDA_MEMORY=1G FAKECUDA_MACHINE=$dir/machine

start_broker() { # ARGUMENTS: of brokerd; no: it has ended, $dir/log says why
    rm -f "$dir/ready" "$dir/s"
    "$build/broker/brokerd" --dev --listen "$AMB_URL" "$@" >"$dir/ready" 2>"$dir/log" &
    broker=$!
    for ((i = 0; i < 200; i++)); do
        grep -q '^ready' "$dir/ready" 2>/dev/null && return 0
        kill -0 "$broker" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}
stop() {
    kill "$broker"
    wait "$broker" || fail "brokerd: $?"
    broker=
}
used() { # bytes of the GPU pools
    "$build/tools/broker-ctl" -o json memory |
        sed -n 's/.*"kind": *"cuda"[^}]*"used_bytes": *\([0-9]*\).*/\1/p'
}
pool_state() { # of the GPU pool, as broker-ctl memory says it
    "$build/tools/broker-ctl" -o json memory |
        sed -n 's/.*"kind": *"cuda"[^}]*"state": *"\([a-z ]*\)".*/\1/p'
}
await_pool() { # STATE WHEN
    for ((i = 0; i < 200; i++)); do
        [ "$(pool_state)" = "$1" ] && return
        sleep 0.05
    done
    fail "$2: the pool is $(pool_state), and not $1"
}
await_word() { # WORD NAME: in a while a program says it in $dir/NAME
    for ((i = 0; i < 400; i++)); do
        grep -q "$1" "$dir/$2" && return
        sleep 0.05
    done
    fail "$2: no '$1': $(cat "$dir/$2.err")"
}
