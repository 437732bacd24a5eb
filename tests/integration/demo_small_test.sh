#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The small form of the demonstration, on the ring and then on every link: real processes, real
# files, every digest compared.
#   tests/integration/demo_small_test.sh BUILD_FOLDER
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1
timeout 120 "$root/tools/demo/run.sh" "$build" --small
timeout 120 "$root/tools/demo/run.sh" "$build" --small --all-links
