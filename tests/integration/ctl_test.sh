#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# broker-ctl as scripts see it: exit codes, clear errors, files of hostile names, admin views.
#   tests/integration/ctl_test.sh BUILD_FOLDER
set -euo pipefail
export LC_ALL=C
build=$1
tmp=$(mktemp -d "${TMPDIR:-/tmp}/amb-ctl-test.XXXXXX")
broker_pid=''
trap '[ -z "$broker_pid" ] || kill "$broker_pid" 2>/dev/null; rm -rf "$tmp"' EXIT
url="unix://$tmp/broker.sock"

find_program() {
    local place
    for place in "$build" "$build/bin" "$build/tools" "$build/broker"; do
        [ ! -x "$place/$1" ] || { printf '%s\n' "$place/$1" && return; }
    done
    printf 'no %s\n' "$1" >&2
    exit 1
}
ctl() { timeout 30 "$ctl_path" --url "$url" "$@"; }
fail() {
    printf 'FAIL: %s\n' "$*" >&2
    cat "$tmp/out" "$tmp/err" >&2 || true
    exit 1
}
# expect CODE TEXT COMMAND...: the command ends with CODE and standard error holds TEXT.
expect() {
    local code=$1 text=$2 got=0
    shift 2
    "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || got=$?
    [ "$got" = "$code" ] || fail "$*: exit $got, not $code"
    grep -q -e "$text" "$tmp/err" || fail "$*: nothing about '$text'"
}
wait_until() {
    local tries=1500
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "waited in vain for: $*"
        sleep 0.02
    done
}
ctl_path=$(find_program broker-ctl)
brokerd=$(find_program brokerd)

# Without a broker.
expect 64 'a command is missing' "$ctl_path"
expect 64 'frobnicate: no command' "$ctl_path" frobnicate
expect 64 "status -o 'xml': takes table, json, jsonl or csv" "$ctl_path" -o xml status
expect 64 'pub TOPIC: is missing' "$ctl_path" pub
expect 64 'number of messages' "$ctl_path" pub t --count many
expect 64 'a time' "$ctl_path" sub t --timeout soon
expect 69 "connect $url: " ctl status
[ -e /run/ambroker ] || expect 69 'neither --url nor' env -u AMB_URL "$ctl_path" status
# A user who names no broker is told of his own one, and of nobody else's.
mkdir -p "$tmp/runtime"
[ -e /run/ambroker ] || {
    env XDG_RUNTIME_DIR="$tmp/runtime" "$brokerd" --dev >"$tmp/own" 2>"$tmp/log" </dev/null &
    broker_pid=$!
    wait_until grep -q '^ready ' "$tmp/own"
    own=$(sed -n 's/^ready //p' "$tmp/own")
    expect 69 "nor [$]AMB_URL; brokerd --dev: AMB_URL=$own)" env -u AMB_URL XDG_RUNTIME_DIR="$tmp/runtime" "$ctl_path" status
    AMB_URL=$own "$ctl_path" status >"$tmp/out"
    kill "$broker_pid"
    wait "$broker_pid"
    expect 69 'nor [$]AMB_URL)' env -u AMB_URL XDG_RUNTIME_DIR="$tmp/runtime" "$ctl_path" status
}
expect 64 'connect nonsense://x' "$ctl_path" --url nonsense://x status
[ "$("$ctl_path" --version | wc -l)" = 1 ] || fail '--version'
grep -q 'pub TOPIC' <<<"$("$ctl_path" --help)" || fail '--help'
[ "$("$ctl_path" help pub)" = "$("$ctl_path" pub --help)" ] || fail 'help pub'
grep -q wait-subscribers <<<"$("$ctl_path" help pub)" || fail 'help pub: an option'

"$brokerd" --dev --listen "$url" >"$tmp/ready" 2>"$tmp/log" </dev/null &
broker_pid=$!
wait_until grep -q '^ready ' "$tmp/ready"

# Admin views, for people and for programs.
for view in status topics subs clients workers memory transports; do
    ctl "$view" >"$tmp/out" 2>"$tmp/err" || fail "$view"
    grep -q '^{.*}$' <<<"$(ctl -o json "$view")" || fail "$view -o json"
done
# The doctor's status is 1 where it has warnings, as the counters' on a disk.
status=0
ctl -o json doctor >"$tmp/out" || status=$?
[ "$status" -le 1 ] && grep -q '^{.*}$' "$tmp/out" || fail "doctor: $status"

# What cannot be published or subscribed.
expect 65 'publish' ctl pub 'bad topic' --count 1
expect 65 'publish' ctl pub 'wild.>' --count 1
expect 65 'No such file' ctl pub t --file "$tmp/none"
# What no message can hold is not read, nor made, before it is refused.
truncate -s 8G "$tmp/large"
expect 65 'more than a message can have' ctl pub t --file "$tmp/large"
expect 64 "pub --size '8G': takes bytes" ctl pub t --size 8G
rm "$tmp/large"
expect 75 '0 of 1 subscribers' ctl pub t --count 1 --wait-subscribers 1 --timeout 1
expect 75 'no message' ctl sub t --timeout 1
expect 75 'publish t: ' ctl pub t --count 1000000000 --size 8 --timeout 1.5
expect 70 'out-dir' ctl sub t --out-dir "$tmp/none/deeper"

# From standard input to standard output.
ctl sub pipe --count 1 --timeout 20 >"$tmp/got" &
sub=$!
printf 'over the pipe' | ctl pub pipe --wait-subscribers 1 --timeout 20
wait "$sub"
[ "$(cat "$tmp/got")" = 'over the pipe' ] || fail 'standard input'

# What became of it: whom it was for, who has dealt with it, who has not.
told() { # FIELD: of the line that `pub --confirm` printed
    sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$tmp/told"
}
ctl sub orders --ack explicit --count 3 --timeout 20 >"$tmp/got" &
sub=$!
ctl -o json pub orders --count 3 --wait-subscribers 1 --confirm delivered --timeout 20 >"$tmp/told"
wait "$sub"
[ "$(told confirmed) $(told matched) $(told delivered) $(told dropped)" = '3 1 3 0' ] ||
    fail "confirmed: $(cat "$tmp/told")"
ctl sub orders --ack explicit --term 'no such order' --count 2 --timeout 20 >"$tmp/got" &
sub=$!
ctl -o json pub orders --count 2 --wait-subscribers 1 --confirm delivered --timeout 20 >"$tmp/told"
wait "$sub"
[ "$(told confirmed) $(told matched) $(told delivered) $(told dropped)" = '2 1 0 2' ] ||
    fail "terminated: $(cat "$tmp/told")"
[ "$(ctl topics orders | wc -l)" = 2 ] || fail 'topics PATTERN: not one row'
[[ "$(ctl -o json topics 'nothing.>')" = '{"topics":[]'* ]] || fail 'topics PATTERN: rows'
expect 64 'the pattern has an empty token' ctl topics 'a..b'
ctl -o json pub nobody --count 7 --confirm accepted >"$tmp/told"
[ "$(told confirmed) $(told matched)" = '7 0' ] || fail "accepted: $(cat "$tmp/told")"
expect 64 'accepted or delivered' ctl pub t --count 1 --confirm durable

# Compare and set; a name that counts on.
ctl pub cas --count 2 --expect-seq 1 || fail 'the first two'
expect 65 'publish cas' ctl pub cas --count 1 --expect-seq 2
ctl pub cas --count 1 --expect-seq 3 --name setter || fail 'the third'
expect 64 "pub --expect-seq '0': takes a number, from 1" ctl pub cas --count 1 --expect-seq 0

# One key, one member.
for i in 1 2; do
    "$ctl_path" --url "$url" sub keyed --group g --stats --timeout 20 >"$tmp/keyed$i" 2>&1 &
    keyed[i]=$!
done
has_members() { grep -q '"members": *2' <<<"$(ctl -o json queues)"; }
wait_until has_members
ctl pub keyed --count 9 --key k --confirm delivered --timeout 20
kill -INT "${keyed[@]}"
wait "${keyed[@]}" || fail "SIGINT: $?"
keyed=$(cat "$tmp/keyed1" "$tmp/keyed2" | awk "/^messages / {print \$2}" | sort | tr "\n" " ")
[ "$keyed" = '0 9 ' ] || fail "one key: $keyed"

# Names that would leave the folder.
ctl sub 'names.>' --count 5 --timeout 20 --out-dir "$tmp/dir" --stats >"$tmp/stats" &
sub=$!
for name in ../../up /etc/absolute .hidden $'a\nb'; do
    ctl pub names.a --count 1 --prop "name=$name" --wait-subscribers 1 --timeout 20
done
# Another topic, same sequence and name: nothing is overwritten.
ctl pub names.b --count 1 --prop name=up --wait-subscribers 1 --timeout 20
wait "$sub"
(cd "$tmp/dir" && find . -type f | sort) >"$tmp/list"
grep -E -q '^messages +5$' "$tmp/stats" || fail '--stats'
[ "$(wc -l <"$tmp/list")" = 5 ] || fail "files: $(cat "$tmp/list")"
grep -q -- '-absolute$' "$tmp/list" && grep -q -- '-hidden$' "$tmp/list" &&
    grep -q -- '-a_b$' "$tmp/list" && [ "$(grep -c -- '-up' "$tmp/list")" = 2 ] ||
    fail "names: $(cat "$tmp/list")"
[ "$(find "$tmp" -name up -o -name absolute | wc -l)" = 0 ] || fail 'a name left the folder'

# A signal ends an endless subscriber in order.
ctl_pid=''
"$ctl_path" --url "$url" sub endless --sha256 --stats >"$tmp/stats" &
ctl_pid=$!
ctl pub endless --count 10 --size 1k --wait-subscribers 1 --timeout 20
has_ten() { [ "$(wc -l <"$tmp/stats")" -ge 10 ]; }
wait_until has_ten
kill -INT "$ctl_pid"
wait "$ctl_pid" || fail "SIGINT: $?"
grep -E -q '^messages +10$' "$tmp/stats" || fail 'SIGINT: no statistics'

# Lines leave as they come: at this rate a buffer of the library's would be full after 20 s.
mkfifo "$tmp/lines"
"$ctl_path" --url "$url" sub trickle >"$tmp/lines" 2>"$tmp/err" &
ctl_pid=$!
"$ctl_path" --url "$url" pub trickle --count 100000 --size 8 --rate 20 >"$tmp/out" 2>&1 &
trickle=$!
exec 7<"$tmp/lines"
IFS= read -r -t 15 -u 7 -n 1 _ || fail 'a line waits for more'
# Its reader goes: a quiet end, with messages under way,
exec 7<&-
code=0
wait "$ctl_pid" || code=$?
[ "$code:$(cat "$tmp/err")" = 0: ] || fail "its reader has gone: exit $code, $(cat "$tmp/err")"
kill "$trickle"
wait "$trickle" || true
# and when none comes any more;
timeout 30 "$ctl_path" --url "$url" sub still 2>"$tmp/err" | head -n 1 >"$tmp/out" &
ctl_pid=$!
ctl pub still --count 1 --wait-subscribers 1 --timeout 20
wait "$ctl_pid" || fail 'sub | head'
no_still() { ! grep -q still <<<"$(ctl -o json subs)"; }
wait_until no_still
[ ! -s "$tmp/err" ] || fail "sub | head: $(cat "$tmp/err")"
# all other output the same. A full disk is an error.
exec 7> >(true)
wait $!
for view in status topics --help; do
    code=0
    ctl $view >&7 2>"$tmp/err" || code=$?
    [ "$code:$(cat "$tmp/err")" = 0: ] || fail "$view into a closed pipe: exit $code"
done
exec 7>&-
code=0
ctl status >/dev/full 2>"$tmp/err" || code=$?
[ "$code" = 70 ] && grep -q 'standard output: cannot write' "$tmp/err" || fail "/dev/full: exit $code"

# A lost broker ends every call.
"$ctl_path" --url "$url" sub lost >"$tmp/out" 2>"$tmp/err" &
ctl_pid=$!
ctl pub lost --count 1 --wait-subscribers 1 --timeout 20
kill -KILL "$broker_pid"
code=0
wait "$ctl_pid" || code=$?
[ "$code" = 69 ] || fail "a lost broker: exit $code, not 69"
broker_pid=''

# A publisher with a name waits for the next broker, and each of its messages is accepted once.
start_broker() {
    : >"$tmp/ready" # here, for what the former one has said is there until the next one begins
    "$brokerd" --dev --listen "$url" >"$tmp/ready" 2>"$tmp/log" </dev/null &
    broker_pid=$!
    wait_until grep -q '^ready ' "$tmp/ready"
}
is_published() { grep -q '"again"' <<<"$(ctl -o json topics 2>/dev/null)"; }
for option in '--name meter' --reconnect; do
    start_broker
    # shellcheck disable=SC2086 # two words
    "$ctl_path" --url "$url" pub again $option --count 300 --rate 100 --stats --timeout 60 \
        >"$tmp/out" 2>"$tmp/err" &
    ctl_pid=$!
    wait_until is_published
    kill -KILL "$broker_pid"
    wait "$broker_pid" 2>/dev/null || true
    start_broker
    code=0
    wait "$ctl_pid" || code=$?
    grep -E -q '^messages +300$' "$tmp/out" || fail "pub $option: not all are sent, exit $code"
    if [ "$option" = '--name meter' ]; then
        [ "$code" = 0 ] && grep -E -q '^failed +0$' "$tmp/out" || fail "pub $option: exit $code"
    fi
    kill -KILL "$broker_pid"
    wait "$broker_pid" 2>/dev/null || true
    broker_pid=''
done
echo passed
