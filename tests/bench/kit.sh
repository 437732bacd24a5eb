#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tables of docs/performance.md on a machine that has neither network nor compiler.
#   tests/bench/kit.sh pack BUILD PEERBENCH KIT   gathers a build, its peers and their libraries into a folder
#   KIT/kit.sh run KIT OUT                        there: results as OUT/*.json, OUT/*.jsonl and OUT/log
# PEERBENCH is what tests/bench/peerbench/build.sh made. run takes at most LIMIT_S seconds (300): each part has
# a share of it, and keeps what it has measured when its time is over. It needs python3.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    sed -n '4,7s/^# \{0,1\}//p' "$0" >&2
    exit 64
}

SERVERS="nats-server redis-server mosquitto iox-roudi"
# The most telling ones first: what the time does not suffice for is left out.
CELLS="1to1.64,1to1.1k,touch.64k*,touch.1m,touch.1m.tcp,touch.1m.lease,handover.64k,handover.1m,handover2.1m"
CELLS="$CELLS,latency.64*,latency.1m.lease,fanout16.1m.lease,4to1.1k"

pack() {
    local build=$1 bench=$2 kit=$3 server file size
    . "$here/../gpu/kit.sh"
    [ ! -e "$kit" ] || [ -e "$kit/kit.sh" ] || { echo "$kit: there already, and no kit" >&2; exit 1; }
    rm -rf "$kit"
    mkdir -p "$kit/broker" "$kit/tools" "$kit/tests" "$kit/lib" "$kit/bin" "$kit/bench"
    cp "$build/broker/brokerd" "$kit/broker/"
    cp "$build/tools/broker-ctl" "$kit/tools/"
    cp "$build/tests/acks-bench" "$kit/tests/"
    cp "$bench/peerbench" "$kit/bin/"
    for server in $SERVERS; do
        file=$(PATH=$PATH:/usr/sbin command -v "$server") || {
            echo "without $server: it is not installed here" >&2
            continue
        }
        cp -L "$file" "$kit/bin/"
    done
    pack_libraries "$kit" "$kit"/broker/* "$kit"/tools/* "$build/tests/acks-bench" "$bench/peerbench" "$kit"/bin/*
    cp "$here/target.py" "$here/workers.py" "$here/acks.py" "$kit/bench/"
    cp "$here/kit.sh" "$kit/"
    find "$kit" -type f \( -name '*.so*' -o -perm -u+x ! -name '*.sh' ! -name '*.py' \) \
        -exec strip --strip-unneeded {} + 2>/dev/null || true
    size=$(du -sm "$kit" | cut -f1)
    echo "$size MiB in $kit"
    [ "$size" -le 60 ] || { echo "that is more than 60 MiB" >&2; exit 1; }
}

# Runs a command for a part of the time, in percent. One that is cut short has written what it has.
part() { # percent command...
    local seconds=$(($1 * limit / 100)) code=0
    shift
    echo "== for at most $seconds s: $*"
    timeout -k 5 -s INT "$seconds" "$@" || code=$?
    echo "== exit $code"
}

run() {
    local kit=$1 out=$2
    mkdir -p "$out"
    kit=$(cd "$kit" && pwd)
    out=$(cd "$out" && pwd)
    limit=${LIMIT_S:-300}
    export LD_LIBRARY_PATH=$kit/lib PATH=$kit/bin:$PATH AMB_BENCH_BROKERD=$kit/broker/brokerd
    export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
    {
        uname -srm
        nproc
        sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1
        peerbench versions
        part 34 "$kit/bench/target.py" "$kit/bin/peerbench" --rounds 1 --no-repeat --seconds 0.4 --cells "$CELLS" \
            --json "$out/targets.json"
        part 34 "$kit/bench/target.py" "$kit/bin/peerbench" --rounds 1 --seconds 0.4 --beside only --cells "$CELLS" \
            --json "$out/targets-beside.json"
        part 28 "$kit/bench/workers.py" "$kit" --rounds 1 --seconds 0.3 --sizes 64,65536,1024 \
            --systems nats,ambroker,ambroker-tcp --workers 1,2,4,8,15,16 --runs "$out/workers.jsonl"
    } 2>&1 | tee "$out/log"
}

case ${1:-} in
    pack)
        [ $# -eq 4 ] || usage
        pack "$2" "$3" "$4"
        ;;
    run)
        [ $# -eq 3 ] || usage
        run "$2" "$3"
        ;;
    *) usage ;;
esac
