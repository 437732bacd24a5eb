#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/test.sh on a project of three tests: one that passes, one that is skipped, and one that
# fails at its first run only. Such a test has failed, and its second run changes nothing of that.
# --all has the tests of whole systems, too, once.
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
add_test(NAME packages COMMAND true)
add_test(NAME images COMMAND true)
set_tests_properties(packages PROPERTIES LABELS system)
set_tests_properties(images PROPERTIES LABELS system-long)
if(STEADY)
    set_tests_properties(unsteady PROPERTIES DISABLED TRUE)
endif()
TEXT
# presets STEADY: all of them; each has its own folder.
presets() {
    python3 - "$1" >"$folder/CMakePresets.json" <<'PY'
import json, sys
names = ("dev", "release", "clang", "system", "nocuda", "asan", "tsan", "fuzz")
named = [{"name": name, "configurePreset": name} for name in names]
print(json.dumps({"version": 6, "buildPresets": named, "testPresets": named, "configurePresets": [
    {"name": name, "generator": "Ninja", "binaryDir": "${sourceDir}/build/" + name,
     "cacheVariables": {"STEADY": sys.argv[1]}} for name in names]}))
PY
}

# expect STATUS LAST-LINES OPTION...: what the script ends with.
expect() {
    local status=0 last
    env -u AMB_JOBS "$folder/tools/test.sh" --no-deps "${@:3}" >"$folder/output" 2>&1 || status=$?
    last=$(tail -n "$(wc -l <<<"$2")" "$folder/output")
    if [ "$status" != "$1" ] || [ "$last" != "$2" ]; then
        cat "$folder/output"
        printf 'FAIL: exit status %s for %s; the last lines for\n%s\n' "$status" "$1" "$2"
        exit 1
    fi
}

presets OFF
expect 1 'test: not passed: dev
test: failed, and passed when run again: unsteady
1 passed, 1 failed, 1 skipped' --preset dev
presets ON
expect 0 '1 passed, 0 failed, 1 skipped' --preset dev
expect 0 '10 passed, 0 failed, 8 skipped' --all
echo passed
