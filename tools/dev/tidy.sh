#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy with .clang-tidy over the sources, or those given: tools/dev/tidy.sh [FILE]...
# Reads the compile commands of build/clang. Not part of the tests: it takes minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tidy=$(command -v clang-tidy-14 || command -v clang-tidy) || {
    echo "tidy: no clang-tidy (tools/deps.sh --for dev)" >&2
    exit 69
}
cmake --preset clang >/dev/null
cmake --build --preset clang >/dev/null # Generated headers.
if [ $# = 0 ]; then
    mapfile -t files < <(find wire broker client tools -name '*.c' | sort)
else
    files=("$@")
fi
printf '%s\0' "${files[@]}" |
    xargs -0 -r -n 4 -P "${AMB_JOBS:-$(nproc)}" nice "$tidy" -p build/clang --quiet
