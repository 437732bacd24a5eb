#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C file is as clang-format 14 writes it (other releases differ). With --fix rewrites them.
#   check-format.sh [--fix] [FILE...]      without a FILE all
# Exit status 77, "skipped", where clang-format 14 is not installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

format=clang-format-14
if ! command -v "$format" >/dev/null; then
    format=clang-format
    if ! command -v "$format" >/dev/null || ! "$format" --version | grep -q 'version 14\.'; then
        echo "check-format: skipped, no clang-format 14 (tools/deps.sh --for dev)"
        exit 77
    fi
fi
if [ "${1:-}" = --fix ]; then
    action=(-i)
    shift
else
    action=(--dry-run -Werror)
fi
if [ $# != 0 ]; then
    exec "$format" "${action[@]}" --style=file "$@"
fi
folders=()
for folder in wire broker client tools tests docs; do
    if [ -d "$folder" ]; then
        folders+=("$folder")
    fi
done
find "${folders[@]}" -type f \( -name '*.c' -o -name '*.h' \) -print0 |
    xargs -0 -r -n 40 "$format" "${action[@]}" --style=file
