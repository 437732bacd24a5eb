#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pytest with the wheels that tools/deps.sh has unpacked.
#   with_wheels.sh FOLDER PYTHON ARGUMENT...
# Exit: pytest's; 77 where there are none.
set -euo pipefail
folder=$1 python=$2
shift 2
if [ ! -e "$folder/pytest" ]; then
    echo "skipped: no wheels in $folder (tools/deps.sh, Python 3.11)"
    exit 77
fi
PYTHONPATH=$folder exec "$python" -m pytest "$@"
