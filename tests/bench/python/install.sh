#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts the peers' Python clients, in the versions of peers.txt, into a virtual environment of their own.
#   install.sh FOLDER [PYTHON]
# It takes 550 MB. The registry is the one that pip is configured for. run.py --peers FOLDER uses it. The servers
# are Debian's packages nats-server and redis-server, or any others in PATH.
set -euo pipefail
if [ $# -lt 1 ]; then
    sed -n '3,7s/^# \?//p' "$0" >&2
    exit 64
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$1 python=${2:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "install.sh: $python is older than 3.11" >&2
    exit 1
fi
"$python" -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --no-deps \
    --requirement "$here/peers.txt"
"$folder/bin/pip" check
for server in nats-server redis-server; do
    command -v "$server" >/dev/null || echo "install.sh: no $server in PATH: its peer will be left out"
done
