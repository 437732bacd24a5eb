#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheel in a bare Debian 12: a root of debootstrap's smallest variant with python3-venv and ss, no
# compiler. `pip install` of it, the program of README.md prints its message, no port is open, and a
# program that is killed leaves no brokerd a second later. As root.
#
#   tests/python/fresh.sh [--base DIR] [--carry PATH]... [--keep] WHEEL
#
#   --base DIR     such a root, copied; else one is made. It stays as it is
#   --carry PATH   a file or folder of this machine that apt needs to reach its registry from here
#   --keep         leave the root
# Exit: 0 all of it is so, 1 it is not, 64 usage, 77 no debootstrap or no right to use it.
set -euo pipefail

usage() {
    sed -n 's/^#   \(tests.*\)/usage: \1/p' "$0" >&2
    exit 64
}

# --- inside: in namespaces of its own, these mounts and processes are seen by nobody else ----------

if [ -n "${AMB_FRESH_INSIDE:-}" ]; then
    root=$AMB_FRESH_INSIDE
    mount -t proc proc "$root/proc"
    exec env -i HOME=/srv PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C TERM=dumb \
        chroot "$root" bash /srv/script
fi

base='' keep='' carry=()
while [ $# -gt 0 ]; do
    case $1 in
    --base) base=${2:?} && shift ;;
    --carry) carry+=("${2:?}") && shift ;;
    --keep) keep=1 ;;
    -*) usage ;;
    *) break ;;
    esac
    shift
done
[ $# = 1 ] && [ -f "$1" ] || usage
wheel=$1
if [ "$(id -u)" != 0 ] || { [ -z "$base" ] && ! command -v debootstrap >/dev/null; }; then
    echo 'fresh: skipped: needs root and debootstrap'
    exit 77
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(mktemp -d "${TMPDIR:-/tmp}/amb-fresh-XXXXXX")
clean_up() {
    if [ -n "$keep" ]; then
        echo "fresh: left $root"
    else
        rm -rf --one-file-system "$root" "$root.log"
    fi
}
trap clean_up EXIT
if [ -n "$base" ]; then
    cp -a "$base/." "$root/"
else
    debootstrap --variant=minbase --include=python3-venv,iproute2,procps bookworm "$root" \
        "${AMB_DEBIAN:-http://deb.debian.org/debian}" >"$root.log" 2>&1 || {
        tail -n 20 "$root.log" >&2
        exit 1
    }
fi
for path in ${carry[@]+"${carry[@]}"}; do
    mkdir -p "$root$(dirname "$path")"
    cp -rL "$path" "$root$(dirname "$path")/"
done
cp "$wheel" "$root/srv/"
python3 - "$here/../../README.md" >"$root/srv/program.py" <<'PYTHON'
import re, sys
text = open(sys.argv[1], encoding="utf-8").read()
program, = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
print(program, end="")
PYTHON
cat >"$root/srv/script" <<'SCRIPT'
set -euo pipefail
fail() { echo "fresh: $*" >&2; exit 1; }
for tool in gcc cc ld cmake; do
    ! command -v $tool >/dev/null || fail "there is $tool"
done
before=$(ss -ltnH | sort)
python3 -m venv /srv/venv
/srv/venv/bin/pip install --quiet --no-index /srv/*.whl
cd /tmp
lines=$(grep -c . /srv/program.py)
[ "$lines" -le 5 ] || fail "the program of README.md has $lines lines"
printed=$(timeout 60 /srv/venv/bin/python /srv/program.py)
echo "fresh: the program prints: $printed"
[ "$printed" = hello ] || fail "README.md promises another text"
for name in brokerd broker-ctl broker-bench; do
    /srv/venv/bin/$name --version >/dev/null || fail "$name does not start"
done
cat >/srv/waits.py <<'PYTHON'
import ambroker
broker = ambroker.Broker()
connection = ambroker.connect(broker.url)
print(broker.pid, flush=True)
connection.subscribe("nothing").next()
PYTHON
mkfifo /srv/told
/srv/venv/bin/python /srv/waits.py >/srv/told &
program=$!
read -r pid </srv/told
kill -0 "$pid" || fail "no brokerd has number $pid"
# The network is the machine's: what was there before, or is another program's, is none of ours.
ports=$(ss -ltnpH | grep -F "pid=$pid," || true)
[ -z "$ports" ] || fail "brokerd listens on $ports"
[ "$before" = "$(ss -ltnH | sort)" ] || echo "fresh: ports of other programs have changed meanwhile"
kill -9 "$program"
wait "$program" 2>/dev/null || true
for _ in 1 2 3 4 5 6 7 8 9 10; do
    if ! pgrep -x brokerd >/dev/null; then
        echo "fresh: no port, and no brokerd is left"
        exit 0
    fi
    sleep 0.1
done
fail "brokerd is there a second after its program was killed"
SCRIPT
AMB_FRESH_INSIDE=$root unshare --mount --pid --fork --kill-child --propagation private \
    "${BASH_SOURCE[0]}"
