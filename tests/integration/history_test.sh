#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# History, positions, policies and times to live: the programs of docs/examples that show them, and
# broker-ctl, against a broker that is restarted.
#   tests/integration/history_test.sh BUILD_FOLDER
set -euo pipefail
export LC_ALL=C
build=$1
examples=$build/docs/examples
dir=$(mktemp -d "${TMPDIR:-/tmp}/amb-history-XXXXXX")
broker=
finish() {
    [ -z "$broker" ] || kill "$broker" 2>/dev/null || true
    wait
    rm -rf "$dir"
}
trap finish EXIT
fail() {
    echo "FAILED: $*" >&2
    cat "$dir"/out* "$dir/log" >&2 || true
    exit 1
}
cat >"$dir/conf" <<CONF
topics = ( { match = "history.>"; retain = { messages = 100; }; },
           { match = "prices.>"; retain = { messages = 5; }; },
           { match = "values.>"; retain = { keys = 100; }; },
           { match = "\$SYS.>"; } );
CONF
start() {
    rm -f "$dir/ready"
    "$build/broker/brokerd" --dev --config "$dir/conf" -o server.workers=2 \
        --listen "unix://$dir/s" --listen tcp://127.0.0.1:0 >"$dir/ready" 2>>"$dir/log" &
    broker=$!
    for ((i = 0; i < 500; i++)); do
        grep -qs "^ready" "$dir/ready" && break
        sleep 0.02
    done
    read -r _ unix_url tcp_url <"$dir/ready"
}
stop() {
    kill "$broker"
    wait "$broker" || true
    broker=
}
ctl() { timeout 30 "$build/tools/broker-ctl" --url "$url" "$@"; }
price() { # price TEXT...
    for text in "$@"; do
        printf '%s' "$text" | ctl pub prices.a
    done
}
expect_lines() { # expect_lines FILE LINE...
    local file=$1
    shift
    diff <(printf '%s\n' "$@") "$file" || fail "$url: $file"
}

start
for url in "$unix_url" "$tcp_url"; do
    export AMB_URL=$url
    # The numbers begin anew with each broker, and this program counts on them.
    stop
    start
    [ "$url" = "unix://$dir/s" ] || url=$tcp_url
    export AMB_URL=$url
    timeout 60 "$examples/example-history" >"$dir/out" 2>"$dir/out2" || fail "$url: history"
    expect_lines "$dir/out" 'first: one two three four five' 'last: five' 'last 2: four five' \
        'from 3: three four five' 'since 1970: one two three four five'

    timeout 60 "$examples/example-latest" >"$dir/out" 2>"$dir/out2" || fail "$url: latest"
    expect_lines "$dir/out" 'frame 1, 0 skipped' 'frame 50, 48 skipped' 'frame 100, 49 skipped'

    timeout 60 "$examples/example-ttl" >"$dir/out" 2>"$dir/out2" || fail "$url: ttl"
    expect_lines "$dir/out" 'left' '1 came too late: expired' 'right'

    # The newest of each key.
    timeout 60 "$examples/example-lastvalues" >"$dir/out" 2>"$dir/out2" || fail "$url: lastvalues"
    expect_lines "$dir/out" 'rome 12' 'paris 10' 'oslo 3' '0 lost' 'oslo 4'
    ctl sub values.cities --start last --count 3 >"$dir/out"
    expect_lines "$dir/out" 12 10 4
    ctl sub values.cities --start last --count 3 --ack explicit >"$dir/out"
    expect_lines "$dir/out" 12 10 4

    # What is chosen of a topic, and how fast it comes.
    timeout 60 "$examples/example-filter" >"$dir/out" 2>"$dir/out2" || fail "$url: filter"
    grep -q "^refused: .*behind 7 bytes: a value is expected here" "$dir/out" || fail "$url: a bad filter"
    sed -i 1d "$dir/out"
    expect_lines "$dir/out" 'bought at 100.5, 0 lost' 'bought at 120, 0 lost' '10 trades in all'
    for kind in a b a c; do
        printf "$kind" | ctl pub history.kinds --prop kind=$kind
    done
    ctl sub history.kinds --start first --filter "kind = 'a'" --count 2 >"$dir/out"
    expect_lines "$dir/out" a a
    ctl sub history.kinds --start first --filter "kind != 'a'" --ack explicit --count 2 >"$dir/out"
    expect_lines "$dir/out" b c
    began=$(date +%s%N)
    ctl pub history.many --count 40 --size 10
    ctl sub history.many --start first --rate 20 --count 40 --stats >"$dir/out"
    took=$((($(date +%s%N) - began) / 1000000))
    [ "$took" -ge 1700 ] || fail "$url: 40 messages at 20 a second took $took ms"
    printf x | ctl pub history.paced
    sleep 0.7
    printf y | ctl pub history.paced
    began=$(date +%s%N)
    ctl sub history.paced --start first --replay original --count 2 >"$dir/out"
    took=$((($(date +%s%N) - began) / 1000000))
    expect_lines "$dir/out" x y
    [ "$took" -ge 690 ] || fail "$url: what came 0.7 s apart took $took ms"
    rc=0
    ctl sub history.kinds --filter 'kind =' >"$dir/out" 2>"$dir/out2" || rc=$?
    [ "$rc" != 0 ] && grep -q 'filter, behind 6 bytes' "$dir/out2" || fail "$url: a bad --filter: $rc"

    # A position outlives the process; what history has given up meanwhile is told.
    rm -f "$dir/position"
    price 1 2 3
    timeout 60 "$examples/example-position" "$dir/position" 2 >"$dir/out" || fail "$url: position"
    expect_lines "$dir/out" 'prices.a 1' 'prices.a 2'
    price 4
    timeout 60 "$examples/example-position" "$dir/position" 2 >"$dir/out" || fail "$url: position"
    expect_lines "$dir/out" 'prices.a 3' 'prices.a 4'
    price 5 6 7 8 9 10 11
    timeout 60 "$examples/example-position" "$dir/position" 1 >"$dir/out" || fail "$url: position"
    expect_lines "$dir/out" '(2 missed)' 'prices.a 7'
    # A topic that was not there when the position was taken is read from its beginning.
    printf 'new' | ctl pub prices.b
    timeout 60 "$examples/example-position" "$dir/position" 5 >"$dir/out" || fail "$url: position"
    grep -qx 'prices.b new' "$dir/out" || fail "$url: a new topic"
    grep -qx 'prices.a 11' "$dir/out" || fail "$url: the old one"

    # The same from the shell.
    ctl sub prices.a --start last:3 --count 3 --save "$dir/saved" >"$dir/out"
    expect_lines "$dir/out" 9 10 11
    price 12
    ctl sub prices.a --start "file:$dir/saved" --count 1 >"$dir/out"
    expect_lines "$dir/out" 12
    ctl sub prices.a --start seq:10 --count 3 >"$dir/out"
    expect_lines "$dir/out" 10 11 12
    for ago in 1h 100000h forever; do
        ctl sub prices.a --start ago:$ago --count 5 >"$dir/out"
        expect_lines "$dir/out" 8 9 10 11 12
    done
    ctl sub 'prices.>' --start last --count 2 >"$dir/out"
    grep -qx 12 "$dir/out" && grep -qx new "$dir/out" || fail "$url: last of each topic"
    rc=0
    ctl sub prices.a --start nowhere >"$dir/out" 2>"$dir/out2" || rc=$?
    [ "$rc" = 64 ] || fail "--start nowhere: $rc"
    rc=0
    ctl sub prices.a --start "file:$dir/conf" >"$dir/out" 2>"$dir/out2" || rc=$?
    [ "$rc" != 0 ] && grep -q 'position' "$dir/out2" || fail "--start file: of something else"

    # Who comes and goes. These are two topics, on workers of their own: the first of one may be late.
    timeout 60 "$examples/example-events" 6 >"$dir/events" &
    listener=$!
    while kill -0 $listener 2>/dev/null; do
        printf x | ctl pub unheard
    done
    wait $listener
    grep -q '^$SYS.client.gone {"client":.*"name":"broker-ctl".*"kind":"left"' "$dir/events" ||
        fail "gone"

    # Another life of the broker.
    stop
    start
    [ "$url" = "unix://$dir/s" ] || url=$tcp_url
    export AMB_URL=$url
    price again
    timeout 60 "$examples/example-position" "$dir/position" 1 >"$dir/out" || fail "$url: restart"
    expect_lines "$dir/out" '(the broker began anew)' 'prices.a again'
    echo "$url: ok"
done
