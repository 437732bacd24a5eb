#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/test.sh on a project of three tests: one that passes, one that is skipped, and one that
# fails at its first run only. Such a test has failed, and its second run changes nothing of that.
#   tests/dev/test_script_test.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir "$folder/tools"
cp "$root/tools/test.sh" "$folder/tools/"
cat >"$folder/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(steady NONE)
enable_testing()
add_test(NAME steady COMMAND true)
add_test(NAME elsewhere COMMAND sh -c "exit 77")
add_test(NAME unsteady COMMAND sh -c "[ -e again ] || { touch again; false; }")
set_tests_properties(steady elsewhere unsteady PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
if(STEADY)
    set_tests_properties(unsteady PROPERTIES DISABLED TRUE)
endif()
TEXT
preset() {
    cat >"$folder/CMakePresets.json" <<TEXT
{ "version": 6,
  "configurePresets": [ { "name": "dev", "generator": "Ninja", "binaryDir": "\${sourceDir}/build",
                          "cacheVariables": { "STEADY": "$1" } } ],
  "buildPresets": [ { "name": "dev", "configurePreset": "dev" } ],
  "testPresets": [ { "name": "dev", "configurePreset": "dev" } ] }
TEXT
}

# expect STATUS LAST-LINES: what the script ends with.
expect() {
    local status=0 last
    env -u AMB_JOBS "$folder/tools/test.sh" --no-deps --preset dev >"$folder/output" 2>&1 || status=$?
    last=$(tail -n "$(wc -l <<<"$2")" "$folder/output")
    if [ "$status" != "$1" ] || [ "$last" != "$2" ]; then
        cat "$folder/output"
        printf 'FAIL: exit status %s for %s; the last lines for\n%s\n' "$status" "$1" "$2"
        exit 1
    fi
}

preset OFF
expect 1 'test: not passed: dev
test: failed, and passed when run again: unsteady
1 passed, 1 failed, 1 skipped'
preset ON
expect 0 '1 passed, 0 failed, 1 skipped'
echo passed
