#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, runs the tests. Ends with the sum over all presets and with
# exit status 0 only if every test passed at its first run. Tests that fail are run again to tell
# more of them; the second run changes neither the sum nor the exit status.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tools/test.sh [--ci] [--preset P]... [--all] [--no-install] [--no-deps]
  (nothing)      the preset dev: lint, unit, fuzz, integration and python tests
  --ci           the same, and again: dev on the system's UCX: links; asan: unit, fuzz, integration;
                 tsan: unit; system: unit, links; as root the packages, in a Debian of their own
  --preset P     only that preset of CMakePresets.json, all its tests; may be repeated
  --all          all presets, all their tests, and of dev those of stress, packages and images (as root)
  --no-install   install no packages
  --no-deps      do not even look for what is missing
TEXT
}

presets=()
all=0
ci=0
deps=1
deps_options=()
while [ $# -gt 0 ]; do
    case $1 in
        --preset) presets+=("${2:?--preset needs a name}"); shift ;;
        --preset=*) presets+=("${1#*=}") ;;
        --all) all=1 ;;
        --ci) ci=1 ;;
        --no-install) deps_options+=(--no-install) ;;
        --no-deps) deps=0 ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; exit 64 ;;
    esac
    shift
done

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
jobs=${AMB_JOBS:-$(nproc)}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

total_passed=0
total_failed=0
total_skipped=0
broken=()
unsteady=()
ahead=

# count_results: adds the figures of ctest's output in $log to the totals.
count_results() {
    local line failed number skipped
    line=$(grep -E '^[0-9]+% tests passed' "$log" | tail -n 1 || true)
    if [ -z "$line" ]; then
        return 0
    fi
    failed=$(sed -E 's/.*, ([0-9]+) tests? failed.*/\1/' <<<"$line")
    number=$(sed -E 's/.*out of ([0-9]+).*/\1/' <<<"$line")
    skipped=$(grep -cE '^[[:space:]]*[0-9]+ - .* \(Skipped\)' "$log" || true)
    total_failed=$((total_failed + failed))
    total_skipped=$((total_skipped + skipped))
    total_passed=$((total_passed + number - failed - skipped))
}

# look_again CTEST-OPTIONS...: runs the tests that have just failed once more, one after the other.
# A test that passes now depends on luck or on load: the last lines name it.
look_again() {
    local name
    printf '\n-- what failed, once more (this counts for nothing)\n'
    ctest "$@" --rerun-failed -j 1 2>&1 </dev/null | tee "$log" || true
    while read -r name; do
        unsteady+=("$name")
    done < <(sed -nE 's/^.*Test +#[0-9]+: ([^ ]+) .*   Passed .*$/\1/p' "$log")
}

# run_ctest NAME CTEST-OPTIONS...
run_ctest() {
    local name=$1
    shift
    if ctest "$@" 2>&1 </dev/null | tee "$log"; then
        count_results
        return 0
    fi
    count_results
    broken+=("$name")
    look_again "$@"
}

# run_tests PRESET JOBS CTEST-OPTIONS...
run_tests() {
    local preset=$1 parallel=$2
    shift 2
    run_ctest "$preset" --preset "$preset" -j "$parallel" "$@"
}

# build_ahead PRESET...: builds them in the background, while tests wait, on time that nothing else
# wants. What fails here fails again in build, which says so.
build_ahead() {
    local preset
    for preset in "$@"; do
        if cmake --preset "$preset" -DAMB_TESTS=ON; then
            chrt --idle 0 cmake --build --preset "$preset" -j "$jobs" || true
        fi
    done >/dev/null 2>&1 </dev/null &
    ahead=$!
}

# build PRESET: configures and builds it; false if that fails.
build() {
    printf '\n== %s ==\n' "$1"
    if [ -n "$ahead" ]; then
        wait "$ahead" || true
        ahead=
    fi
    if cmake --preset "$1" -DAMB_TESTS=ON >"$log" 2>&1 </dev/null; then
        if nice cmake --build --preset "$1" -j "$jobs" >"$log" 2>&1 </dev/null; then
            return 0
        fi
    fi
    tail -n 100 "$log"
    printf 'test: %s does not build\n' "$1"
    broken+=("$1 (build)")
    return 1
}

# has_tests PRESET LABELS: whether there are any.
has_tests() {
    # No pipe: grep -q ends before ctest does, which fails by that now and then (pipefail).
    grep -qE 'Total Tests: [1-9]' <<<"$(ctest --preset "$1" -N -L "$2" 2>/dev/null)"
}

# part PRESET QUICK SLOW [NEXT...]: the tests of those labels. The quick ones need a processor each;
# the slow ones wait most of their time, so twice as many run side by side (and those of amb_alone
# alone), and beside them the presets NEXT are built.
part() {
    local preset=$1 quick=$2 slow=$3
    shift 3
    build "$preset" || return 0
    run_tests "$preset" "$jobs" -L "$quick"
    if [ $# != 0 ]; then
        build_ahead "$@"
    fi
    if [ -n "$slow" ] && has_tests "$preset" "$slow"; then
        run_tests "$preset" "$((2 * jobs))" -L "$slow"
    fi
}

# full PRESET [NEXT...]: all but what takes long or needs hardware.
full() {
    local preset=$1
    shift
    part "$preset" '^(lint|unit|fuzz)$' '^(integration|python)$' "$@"
}

ucx=wheel
if [ "$ci" = 1 ] || [ "$all" = 1 ] || [[ " ${presets[*]-} " == *" system "* ]]; then
    ucx=system
fi
if [ "$all" = 1 ] || [[ " ${presets[*]} " =~ \ (fuzz|clang)\  ]]; then
    deps_options+=(--for dev)
fi
if [ "$deps" = 1 ]; then
    tools/deps.sh --ucx "$ucx" ${deps_options[@]+"${deps_options[@]}"}
fi

if [ "$all" = 1 ]; then
    for preset in dev release clang system nocuda asan tsan fuzz; do
        full "$preset"
    done
    if grep -qE 'Total Tests: [1-9]' <<<"$(ctest --test-dir build/dev -N -L '^stress$')"; then
        run_ctest dev --test-dir build/dev --output-on-failure -j 1 -L '^stress$'
    fi
    run_ctest systems --test-dir build/dev --output-on-failure -j 1 -L '^system(-long)?$'
elif [ ${#presets[@]} != 0 ]; then
    for preset in "${presets[@]}"; do
        full "$preset"
    done
elif [ "$ci" = 1 ]; then
    full dev asan
else
    full dev
fi
if [ "$ci" = 1 ]; then
    # One build, the other UCX.
    AMB_UCX_LIBRARY=system run_tests dev "$jobs" -L '^(links|wire/link/ucx(lib)?)$'
    part asan '^(unit|fuzz)$' '^integration$' tsan system
    part tsan '^unit$' ''
    part system '^unit$' '^links$'
    run_ctest packages --test-dir build/dev --output-on-failure -j "$jobs" -L '^system$'
fi

printf '\n'
if [ ${#broken[@]} != 0 ]; then
    printf 'test: not passed: %s\n' "${broken[*]}"
fi
if [ ${#unsteady[@]} != 0 ]; then
    printf 'test: failed, and passed when run again: %s\n' "${unsteady[*]}"
fi
printf '%d passed, %d failed, %d skipped\n' "$total_passed" "$total_failed" "$total_skipped"
[ ${#broken[@]} = 0 ] && [ "$total_failed" = 0 ] && [ "$total_passed" != 0 ]
