#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The packages of these sources are in build/packages, for tests/system: tools/package.sh, as root alone.
#   tests/system/packages.sh
# Exit: 0 they are there, 1 they do not build, 77 not root, or something to make them with is missing.
set -euo pipefail
if [ "$(id -u)" != 0 ]; then
    echo 'skipped: not root'
    exit 77
fi
code=0
"$(dirname "${BASH_SOURCE[0]}")/../../tools/package.sh" || code=$?
[ "$code" != 69 ] || exit 77
exit "$code"
