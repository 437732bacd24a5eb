#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The programs of docs/examples against a broker, on each link that a plain URL gives.
#   tests/integration/examples_test.sh BUILD_FOLDER
set -euo pipefail
build=$1
examples=$build/docs/examples
dir=$(mktemp -d /tmp/amb-examples-XXXXXX)
broker=
readers=()
finish() {
    for pid in "${readers[@]}" $broker; do
        kill "$pid" 2>/dev/null || true
    done
    wait
    rm -rf "$dir"
}
trap finish EXIT
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# wait_for SECONDS COMMAND...: until it succeeds
wait_for() {
    local tries=$(($1 * 20))
    shift
    for ((i = 0; i < tries; i++)); do
        if "$@"; then
            return 0
        fi
        sleep 0.05
    done
    return 1
}
has_lines() { [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }

"$build/broker/brokerd" --dev --listen "unix://$dir/s" --listen tcp://127.0.0.1:0 \
    >"$dir/ready" 2>"$dir/log" &
broker=$!
wait_for 10 grep -q '^ready' "$dir/ready" || fail "brokerd does not start: $(cat "$dir/log")"
read -r _ unix_url tcp_url <"$dir/ready"

for url in "$unix_url" "$tcp_url"; do
    export AMB_URL=$url
    # Who is started in the background makes its file when it comes to it.
    find "$dir" -maxdepth 1 -type f ! -name ready ! -name log -delete
    readers=()
    "$examples/example-subscribe" >"$dir/greetings" 2>"$dir/errors" &
    readers+=($!)
    "$examples/example-epoll" >"$dir/sensors" 2>>"$dir/errors" &
    readers+=($!)

    # Until the subscriber is there, messages go to nobody.
    publish_until_seen() {
        "$examples/example-publish" && has_lines "$dir/greetings" 1
    }
    wait_for 10 publish_until_seen || fail "$url: no greeting arrived: $(cat "$dir/errors")"
    grep -qx 'greetings: hello' "$dir/greetings" || fail "$url: $(head -1 "$dir/greetings")"

    sense() {
        printf x | "$build/tools/broker-ctl" --url "$url" pub sensor.a.b >/dev/null 2>&1 &&
            has_lines "$dir/sensors" 1
    }
    wait_for 10 sense || fail "$url: no sensor value arrived: $(cat "$dir/errors")"
    grep -q ' sensor.a.b 1 bytes' "$dir/sensors" || fail "$url: $(head -1 "$dir/sensors")"

    timeout 60 "$examples/example-million" >"$dir/million" || fail "$url: $(cat "$dir/million")"
    grep -q '^1000000 accepted' "$dir/million" || fail "$url: $(cat "$dir/million")"

    # In a loop that never waits, few sources and many. How often they rest is the machine's matter:
    # a broker that has a core for itself may keep up with them.
    for sources in '3 100000' '300 2000'; do
        # shellcheck disable=SC2086
        timeout 60 "$examples/example-room" $sources >"$dir/room" || fail "$url: $(cat "$dir/room")"
        grep -Eq 'of each of [0-9]+, [0-9]+ rests, ok$' "$dir/room" || fail "$url: $(cat "$dir/room")"
    done

    "$examples/example-keep" >"$dir/keep" || fail "$url: $(cat "$dir/keep")"
    grep -qx 'abcde ok' "$dir/keep" || fail "$url: $(cat "$dir/keep")"

    # The same calls from C++, where it was built.
    if [ -x "$examples/example-hello" ]; then
        timeout 20 "$examples/example-hello" >"$dir/hello" 2>&1 || fail "$url: $(cat "$dir/hello")"
        grep -qx 'greetings: hello, from C++; settled 1 of 1' "$dir/hello" ||
            fail "$url: $(cat "$dir/hello")"
    fi

    # An image of 64 MiB, read by a thread that outlives its connection; in place where it can be.
    "$examples/example-map" >"$dir/image" 2>>"$dir/errors" &
    readers+=($!)
    image=$!
    lease_until_seen() {
        has_lines "$dir/image" 1 && return # It ends when it has its image: look for that first.
        kill -0 "$image" 2>/dev/null || has_lines "$dir/image" 1 ||
            fail "$url: map has ended: $(cat "$dir/errors" "$dir/log")"
        "$examples/example-lease" && has_lines "$dir/image" 1
    }
    wait_for 30 lease_until_seen || fail "$url: no image arrived: $(cat "$dir/errors")"
    wait "$image" || fail "$url: map ended with $?: $(cat "$dir/errors")"
    unset 'readers[-1]'
    way=mapped
    [ "$url" = "$unix_url" ] || way=tcp
    wanted="camera.front: 67108864 bytes of image/raw, 67108864 of them 5a, came by $way"
    grep -qx "$wanted" "$dir/image" || fail "$url: $(cat "$dir/image")"

    # Into memory of the program's own; it ends when nothing has come for 3 s.
    "$examples/example-allocator" >"$dir/frames" 2>>"$dir/errors" &
    framed=$!
    frame() {
        head -c 5000 /dev/zero | "$build/tools/broker-ctl" --url "$url" pub frames >/dev/null 2>&1 &&
            has_lines "$dir/frames" 1
    }
    wait_for 10 frame || fail "$url: no frame arrived: $(cat "$dir/errors")"
    wait "$framed" || fail "$url: allocator ended with $?: $(cat "$dir/errors")"
    grep -qx '5000 bytes in slot 0' "$dir/frames" || fail "$url: $(cat "$dir/frames")"

    # Two layers come, and a row of one.
    "$examples/example-lazy" >"$dir/rows" 2>>"$dir/errors" &
    layers=$!
    layer() {
        for name in embed lm_head; do
            head -c 200000 /dev/zero | "$build/tools/broker-ctl" --url "$url" pub \
                --wait-subscribers 1 --timeout 10 --prop "layer=$name" "weights.$name" \
                >/dev/null 2>&1
        done
        has_lines "$dir/rows" 3
    }
    wait_for 10 layer || fail "$url: no row: $(cat "$dir/rows" "$dir/errors")"
    wait "$layers" || fail "$url: lazy ended with $?: $(cat "$dir/errors")"
    [ "$(tail -n 3 "$dir/rows" | tr '\n' ';')" = \
        'weights.embed: embed, 200000 bytes;weights.lm_head: lm_head, 200000 bytes;row 7: ok 0;' ] ||
        fail "$url: $(cat "$dir/rows")"

    # Nobody answers, and says so; then somebody does.
    "$examples/example-request" >"$dir/sums" && fail "$url: somebody answers: $(cat "$dir/sums")"
    grep -q 'nobody answers' "$dir/sums" || fail "$url: $(cat "$dir/sums")"
    "$examples/example-request" serve 2>>"$dir/errors" &
    readers+=($!)
    asked() { "$examples/example-request" >"$dir/sums"; }
    wait_for 10 asked || fail "$url: no sum: $(cat "$dir/sums")"
    [ "$(tr '\n' ';' <"$dir/sums")" = "now: 42;later: 2;" ] || fail "$url: $(cat "$dir/sums")"

    # The broker's own user may look at it, on this host.
    if [ "$url" = "$unix_url" ]; then
        timeout 20 "$examples/example-admin" >"$dir/status" || fail "$url: admin"
        grep -q '^{.*}$' "$dir/status" || fail "$url: $(cat "$dir/status")"
        "$examples/example-admin" nonsense >"$dir/status" 2>&1 && fail "$url: admin nonsense"
    fi

    # Two lives of one meter; two writers of one ledger; a member for each key.
    timeout 20 "$examples/example-named" 3 >"$dir/meter" || fail "$url: $(cat "$dir/meter")"
    timeout 20 "$examples/example-named" 2 >>"$dir/meter" || fail "$url: $(cat "$dir/meter")"
    awk '{sub(":", "", $4); if (NR == 1) {next_one = $4 + 1} else if ($2 != next_one) {exit 1}}' \
        "$dir/meter" || fail "$url: $(cat "$dir/meter")"
    timeout 20 "$examples/example-cas" >"$dir/ledger" || fail "$url: $(cat "$dir/ledger")"
    [ "$(tr '\n' ';' <"$dir/ledger")" = \
        'opened;bob was too late: yes;alice: 10;bob: 17;' ] || fail "$url: $(cat "$dir/ledger")"
    timeout 20 "$examples/example-keyed" >"$dir/keys" || fail "$url: $(cat "$dir/keys")"

    # What is urgent overtakes what waits.
    timeout 20 "$examples/example-priority" >"$dir/reports" || fail "$url: $(cat "$dir/reports")"
    [ "$(tr '\n' ';' <"$dir/reports")" = \
        'low: report;high: stop!;low: report;low: report;' ] ||
        fail "$url: $(cat "$dir/reports")"

    # Two orders were dealt with, one was not.
    timeout 20 "$examples/example-confirm" >"$dir/orders" || fail "$url: $(cat "$dir/orders")"
    grep -qx 'after 100 ms: timed out' "$dir/orders" &&
        [ "$(awk '/delivered/ {got += $6; not += $8} END {print got, not}' "$dir/orders")" = '2 1' ] ||
        fail "$url: $(cat "$dir/orders")"

    # A signal ends both loops, with 0: amb_stop.
    for pid in "${readers[@]}"; do
        kill -TERM "$pid"
        wait "$pid" || fail "$url: an example ended with $?: $(cat "$dir/errors")"
    done
    readers=()
    echo "$url: ok, $(cat "$dir/million")"
done

# A broker that goes ends nobody: what waits goes on with the next one.
AMB_URL=$unix_url "$examples/example-reconnect" >"$dir/prices" 2>"$dir/errors" &
readers=($!)
priced() {
    printf 7 | "$build/tools/broker-ctl" --url "$unix_url" pub prices.a >/dev/null 2>&1 &&
        grep -q '^prices.a: 7' "$dir/prices"
}
wait_for 10 priced || fail "no price: $(cat "$dir/prices" "$dir/errors")"
kill -KILL "$broker"
wait "$broker" 2>/dev/null || true
wait_for 5 grep -q '^lost' "$dir/prices" || fail "the reader does not notice"
"$build/broker/brokerd" --dev --listen "unix://$dir/s" >"$dir/ready" 2>"$dir/log" &
broker=$!
wait_for 10 grep -q '^restored' "$dir/prices" || fail "the reader is not back: $(cat "$dir/prices")"
: >"$dir/prices"
wait_for 10 priced || fail "no price: $(cat "$dir/prices" "$dir/errors")"
grep -q 'nobody knows what was missed' "$dir/prices" || fail "no gap: $(cat "$dir/prices")"
kill -TERM "${readers[0]}"
wait "${readers[0]}" || fail "the reader ended with $?: $(cat "$dir/errors")"
readers=()
echo "reconnect: ok"

# One that is asked to end says so, and nothing is lost on the way to the next.
AMB_URL=$unix_url "$examples/example-lameduck" >"$dir/ticks" 2>"$dir/errors" &
readers=($!)
ticking() { grep -q ticks <<<"$("$build/tools/broker-ctl" --url "$unix_url" topics)"; }
wait_for 10 ticking || fail "no tick: $(cat "$dir/errors")"
kill -TERM "$broker"
wait "$broker" || fail "brokerd ended with $?: $(cat "$dir/log")"
wait_for 5 grep -q 'the broker will end' "$dir/ticks" || fail "no notice: $(cat "$dir/ticks")"
"$build/broker/brokerd" --dev --listen "unix://$dir/s" >"$dir/ready" 2>"$dir/log" &
broker=$!
wait_for 10 grep -q 'there is another one' "$dir/ticks" || fail "not back: $(cat "$dir/ticks")"
kill -TERM "${readers[0]}"
wait "${readers[0]}" || fail "lameduck ended with $?: $(cat "$dir/ticks" "$dir/errors")"
readers=()
grep -q 'ticks, ok' "$dir/ticks" || fail "ticks: $(cat "$dir/ticks")"
echo "lameduck: ok"
