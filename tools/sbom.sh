#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The parts of a build as SPDX 2.3 (JSON): each file that it installs with its hashes, and each library
# that these files load, with version, licence and package.
#   tools/sbom.sh BUILD [OUTPUT]
# BUILD: build/release, for example. OUTPUT: else standard output. The same build gives the same text.
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ] || [ ! -f "$1/CMakeCache.txt" ]; then
    sed -n 's/^#   \(tools.*\)/usage: \1/p' "$0" >&2
    exit 64
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cmake --install "$1" --prefix "$tree/installed" >"$tree/log" 2>&1 || { cat "$tree/log" >&2 && exit 70; }
"$root/tools/dev/sbom.py" --build "$1" --tree "$tree/installed" >"$tree/sbom"
"$root/tools/dev/check-sbom.py" "$tree/sbom" >"$tree/log" || { cat "$tree/log" >&2 && exit 70; }
if [ $# = 2 ]; then
    cp "$tree/sbom" "$2"
else
    cat "$tree/sbom"
fi
