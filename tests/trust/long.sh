#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What takes hours: all that the promises of docs/reliability.md count in thousands. A row for each step, to be
# copied into that page: name, promises, command, result, seconds, date, commit.
#
#   tests/trust/long.sh [--short] [--build FOLDER] [--out FILE] [--only NAME]...
#
#   --short          a minute: the steps that no other test has, with small numbers
#   --build FOLDER   of a build (build/dev)
#   --out FILE       rows are appended to it (FOLDER/long.md); FILE.NAME.log: all of a run that failed
#   --only NAME      this step; may be repeated. NAME is the first word of a row
# AMB_FUZZ_STEP_S: seconds for each fuzz target of build/fuzz (600).
# Exit: 0 all steps passed, 1 some did not, 64 usage.
set -euo pipefail
export LC_ALL=C
unset AMB_URL AMB_CONFIG

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
usage() {
    sed -n '6s/^# *\(tests\)/usage: \1/p' "$0" >&2
    exit 64
}

build=build/dev out='' short='' only=()
while [ $# -gt 0 ]; do
    case $1 in
    --short) short=1 ;;
    --build | --out | --only)
        [ $# -ge 2 ] || usage
        case $1 in
        --build) build=$2 ;;
        --out) out=$2 ;;
        --only) only+=("$2") ;;
        esac
        shift
        ;;
    *) usage ;;
    esac
    shift
done
[ -x "$build/broker/brokerd" ] || {
    echo "long: no build in $build: cmake --preset dev, and build it" >&2
    exit 1
}
out=${out:-$build/long.md}
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
log=$(mktemp "${TMPDIR:-/tmp}/ambroker-long.XXXXXX")
trap 'rm -f "$log"' EXIT
trap 'exit 1' INT TERM
failed=()

is_wanted() {
    local name
    [ ${#only[@]} != 0 ] || return 0
    for name in "${only[@]}"; do
        [ "$name" = "$1" ] && return 0
    done
    return 1
}

# step NAME PROMISES TIMES PATTERN COMMAND...: runs it so often. Its result is what PATTERN matches of what
# the last run has said.
step() {
    local name=$1 promises=$2 times=$3 pattern=$4 begin=$SECONDS result=passed code i
    shift 4
    is_wanted "$name" || return 0
    printf '== %s: %s x %s\n' "$name" "$times" "$*"
    for ((i = 1; i <= times; i++)); do
        code=0
        "$@" >"$log" 2>&1 || code=$?
        if [ "$code" = 77 ]; then
            result='not run: skipped here'
            break
        elif [ "$code" != 0 ]; then
            grep -m 1 '^seed' "$log" || true
            tail -n 60 "$log"
            cp "$log" "$out.$name.log"
            result="FAILED in run $i"
            failed+=("$name")
            break
        fi
        grep -E "$pattern" "$log" || true
    done
    # A test that pytest skips is no failure, and no result.
    if grep -qE '^=+ [0-9]+ skipped' "$log"; then result='not run: skipped here'; fi
    printf '| %s | %s | %s x `%s` | %s: %s | %s | %s | %s |\n' "$name" "$promises" "$times" "$*" "$result" \
        "$(grep -E "$pattern" "$log" | tail -n 4 | tr '\n|' ';/' || true)" "$((SECONDS - begin))" \
        "$(date -u +%F)" "$commit" >>"$out"
}

python=(python3)
pytest=("$(command -v pytest-3 || command -v pytest)" --build "$build")
links=ring,stream,ucx,tls
delivery=("${python[@]}" tests/delivery/delivery.py "$build" --confirm delivered --max 65536 --links "$links")

if [ -n "$short" ]; then
    step deaths P3 1 'deaths|returned' "${python[@]}" tests/stress/death.py "$build" --rounds 8 --links ring,stream,tls
    step brokers P13 1 killed "${python[@]}" tests/stress/broker_death.py "$build" --rounds 2 --links "$links"
    step restarts P12 1 ended "${delivery[@]}" --restarts 2 --end term --messages 60000 --pause 0.4
    step stops 'P4, P5' 1 'stopped for|noticed' "${pytest[@]}" tests/integration/stopped_test.py --time 3 --links tls -k reader
    step holes P4 1 ' holes:|sessions lost' "${pytest[@]}" tests/trust/holes_test.py --rounds 1 --links stream,tls
    step few P10 1 'rounds|does not start' "${python[@]}" tests/trust/few.py "$build" --rounds 2
    step cap P7 1 'most memory' "${python[@]}" tests/trust/cap.py "$build" --time 3 --topics 20
else
    step deaths P3 1 'deaths|returned' "${python[@]}" tests/stress/death.py "$build" --rounds 10000 --links "$links" \
        --seconds 7200
    step brokers P13 1 killed "${python[@]}" tests/stress/broker_death.py "$build" --rounds 500 --links "$links" \
        --seconds 3600
    step order P1 1 posted "${python[@]}" tests/delivery/delivery.py "$build" --messages 1250000 --max 16777216 \
        --links "$links" --seconds 7200
    step slow P6 1 'GB/s' "${pytest[@]}" tests/integration/policies_test.py --flow 1000000000 --size 65536 --time 50 --fast 1
    if [ -x build/tsan/broker/brokerd ]; then # A report ends its process with 66, and so the test.
        race=(env UCX_MEM_MMAP_HOOK_MODE=none
            TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:intercept_tls_get_addr=0:atexit_sleep_ms=10)
        step races P15 3 posted "${race[@]}" "${python[@]}" tests/delivery/delivery.py build/tsan --policy ack \
            --links "$links" --kills 40 --reloads 80 --pause 1.5 --messages 150000 --max 65536 --seconds 7200
        step races-topics P15 1 publishers "${race[@]}" build/tsan/tests/stress-churn build/tsan/broker/brokerd 60
    fi
    step kills 'P2, P13' 20 killed "${delivery[@]}" --restarts 10 --kills 10 --messages 120000
    step restarts P12 20 ended "${delivery[@]}" --restarts 10 --end term --messages 120000
    step stops 'P4, P5' 5 'stopped for|noticed' "${pytest[@]}" tests/integration/stopped_test.py --time 10 --links "$links" \
        -k 'subscribers or reader'
    step holes P4 1 ' holes:|sessions lost' "${pytest[@]}" tests/trust/holes_test.py --rounds 17
    step few P10 1 'rounds|does not start' "${python[@]}" tests/trust/few.py "$build" --rounds 20
    step cap P7 1 'most memory' "${python[@]}" tests/trust/cap.py "$build" --time 180 --topics 1000
    step doors 'P8, P18' 1 'rounds|honest|p99' "${python[@]}" tests/trust/doors.py "$build" --rounds 5000
    step wire T1 1 'MiB|noticed' "${python[@]}" tests/trust/wire.py "$build" --megabytes 512 --changes 450
    step rotate P14 1 'in force' tools/tls-rotate.sh --build "$build" --changes 1000 \
        --observer tests/support/observer.py
    step reloads P14 1 'reloads:' "${python[@]}" tests/trust/reloads.py "$build" --rounds 1000
    step attach P9 1 swapped env AMB_ATTACH_TRIES=1000 "$build/tests/unit-broker-handshake_tls"
    step prove P9 1 'replayed|refusals of' env AMB_RELAYS=1000 AMB_REFUSALS=1000 "$build/tests/unit-broker-prove"
    step sequences P9 1 sequences env AMB_SEQUENCES=1000000 "$build/tests/unit-broker-login_sequences"
    step aborts P20 1 aborts "${python[@]}" tests/trust/aborts.py "$build" --rounds 100 --links "$links"
    step hardship 'B28, B29' 1 'SIGHUP|passed' "${pytest[@]}" -s tests/integration/hardship_test.py
    step memory 'T3' 1 'rounds|searches|found|seen' "${python[@]}" tests/trust/memory.py "$build" --rounds 200 --workers 2
    step torture-client P11 1 failed "${python[@]}" tests/trust/torture.py "$build" --only client --step 1
    step torture-broker P11 1 failed "${python[@]}" tests/trust/torture.py "$build" --only broker --step 1
    step torture-each P11 1 'commands in' "${python[@]}" tests/trust/torture_each.py "$build" --rounds 100
    step torture-ucp P11 1 'calls in|failed' "${python[@]}" tests/trust/torture.py "$build" --only ucp --step 1
    step seeds P16 1 'seeds,' "$build/tests/simulate" --seeds 1000000
    step gpu-torture P17 1 '"clients"' tests/gpu/torture.sh "$build" 10000 0
    for target in build/fuzz/tests/fuzz-[a-z]*; do
        name=${target##*/fuzz-}
        if [ -x "$target" ] && [[ $name != replay-* ]]; then
            mkdir -p "build/fuzz/tests/corpus/$name"
            step "fuzz-$name" P8 1 'number_of_executed_units|Done' "$target" \
                -max_total_time="${AMB_FUZZ_STEP_S:-600}" -max_len=4096 -print_final_stats=1 -verbosity=0 \
                -artifact_prefix=build/fuzz/tests/corpus/ "build/fuzz/tests/corpus/$name" "tests/fuzz/corpus/$name"
        fi
    done
fi

if [ ${#failed[@]} != 0 ]; then
    printf 'long: not passed: %s\n' "${failed[*]}"
    exit 1
fi
printf 'long: passed; rows are in %s\n' "$out"
