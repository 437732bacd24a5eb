#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# broker-bench as scripts see it: every way of measuring gives whole messages and JSON, comparing
# two results has an exit code.
#   tests/integration/bench_test.sh BUILD_FOLDER
set -euo pipefail
export LC_ALL=C
unset AMB_URL
build=$1
tmp=$(mktemp -d "${TMPDIR:-/tmp}/amb-bench-test.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    cat "$tmp/out" "$tmp/err" >&2 || true
    exit 1
}
# measure ARGUMENTS...: ends with 0; its JSON says ok, and nothing lost, and a path.
measure() {
    timeout 60 "$build/tools/broker-bench" "$@" --brokerd "$build/broker/brokerd" --touch -o json \
        >"$tmp/out" 2>"$tmp/err" </dev/null || fail "broker-bench $*: exit $?"
    python3 - "$tmp/out" "$*" <<'PYTHON' || fail "broker-bench $*"
import json, sys
r = json.load(open(sys.argv[1]))
bad = {k: r[k] for k in ("lost", "gaps", "disorder", "corrupt", "wrong", "unanswered") if r.get(k)}
assert r["status"] == "ok" and not bad and r["path"], (r["status"], bad)
assert r.get("samples", 1) > 0 and r["broker_cpu_s"] >= 0 and r["broker_peak_rss_bytes"] > 0
if "p50_us" in r:
    order = [r[k] for k in ("min_us", "p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us")]
    assert order == sorted(order) and order[0] > 0, order
PYTHON
}
# expect CODE COMMAND...
expect() {
    local code=$1 got=0
    shift
    "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || got=$?
    [ "$got" = "$code" ] || fail "$*: exit $got, not $code"
}

for link in ring stream; do
    measure throughput --link $link --size 64 --count 20000 --subs 2 --pubs 2
    measure throughput --link $link --size 64k --count 50 --lease
    measure latency --link $link --count 200
    measure latency --link $link --rate 2000 --count 200 --warm 10ms --subs 2 --pubs 2
done
measure throughput --size 1m --count 20 --post
# A worker that sleeps while a subscriber gives back what a publisher waits for: 16 messages a second.
measure throughput --size 1m --count 1500 --lease
python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["msgs_per_s"] > 100' "$tmp/out" ||
    fail "leases come back too late"

compare() { "$build/tools/broker-bench" compare "$tmp/a" "$tmp/b" "$@"; }
result() { printf '{"workload":"throughput","link":"ring","size":%d,"msgs_per_s":%s,"status":"ok"}' "$@"; }
result 64 100 >"$tmp/a"
result 64 95 >"$tmp/b"
expect 0 compare
expect 1 compare --tolerance 4
result 1024 95 >"$tmp/b"
expect 65 compare
printf 'no JSON' >"$tmp/b"
expect 65 compare
rm "$tmp/b"
expect 65 compare
expect 64 "$build/tools/broker-bench" compare "$tmp/a"
# One line says what is wrong, and what may have been meant.
expect 64 "$build/tools/broker-bench" throughput --lnk ring
[ "$(cat "$tmp/err")" = 'broker-bench: throughput --lnk: no such option (did you mean --link?)' ] ||
    fail "an option: $(cat "$tmp/err")"
expect 64 "$build/tools/broker-bench" throughput --subs 65
grep -q "throughput --subs '65': takes a number of processes, 1 to 64" "$tmp/err" || fail 'a range'
expect 0 "$build/tools/broker-bench" latency --help
grep -q -- '--n-warmup-iter' <<<"$("$build/tools/broker-bench" --help)" || fail '--help'
echo passed
