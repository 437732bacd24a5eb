#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds the release preset and runs the demonstration: real files from
# one publisher to four subscribers over three links (tools/demo/run.sh; its options are passed on).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
deps_options=()
if [ "${1:-}" = --no-install ]; then
    deps_options+=(--no-install)
    shift
fi
tools/deps.sh --for build ${deps_options[@]+"${deps_options[@]}"}

log=build/demo-build.log
printf 'demo: building (build/release)\n'
if ! { cmake --preset release -DAMB_TESTS=OFF &&
    nice cmake --build --preset release -j "${AMB_JOBS:-$(nproc)}"; } >"$log" 2>&1 </dev/null; then
    tail -n 60 "$log" >&2
    printf 'demo: the build failed; all of its output is in %s\n' "$log" >&2
    exit 1
fi
exec tools/demo/run.sh build/release "$@"
