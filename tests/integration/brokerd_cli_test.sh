#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# brokerd as operators and scripts see it: exit codes, error texts, profiles, signals, limits.
#   tests/integration/brokerd_cli_test.sh BROKERD
set -euo pipefail
export LC_ALL=C
brokerd=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/amb-brokerd-test.XXXXXX")
broker_pid=''
trap '[ -z "$broker_pid" ] || kill -9 "$broker_pid" 2>/dev/null; rm -rf "$tmp"' EXIT
conf=$tmp/b.conf
sock=$tmp/broker.sock

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    tail -n 20 "$tmp/out" "$tmp/err" >&2 || true
    exit 1
}
# expect CODE TEXT COMMAND...: the command ends with CODE and standard error holds TEXT.
expect() {
    local code=$1 text=$2 got=0
    shift 2
    timeout 20 "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || got=$?
    [ "$got" = "$code" ] || fail "$*: exit $got, not $code"
    [ -z "$text" ] || grep -qF -e "$text" "$tmp/err" || fail "$*: nothing about '$text'"
}
# refuse CONFIG TEXT: a file with this content is refused with 78, and no socket was opened.
refuse() {
    printf 'listen = ( "unix://%s" );\n%b' "$sock" "$1" >"$conf"
    expect 78 "$conf:$2" "$brokerd" --config "$conf"
    [ ! -e "$sock" ] || fail "a socket was opened in spite of: $2"
}
wait_until() {
    local tries=500
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "waited in vain for: $*"
        sleep 0.02
    done
}
# forget: what an earlier broker wrote. The child opens the files only after the shell goes on.
forget() {
    : >"$tmp/ready"
    : >"$tmp/log"
}
# start ARGUMENTS...: a broker on $sock that is ready.
start() {
    forget
    "$brokerd" --listen "unix://$sock" "$@" >"$tmp/ready" 2>"$tmp/log" </dev/null &
    broker_pid=$!
    wait_until grep -q '^ready ' "$tmp/ready"
}
# stop CODE: the broker has ended with CODE.
stop() {
    local got=0
    wait "$broker_pid" 2>/dev/null || got=$?
    broker_pid=''
    [ "$got" = "$1" ] || { cat "$tmp/log" >&2; fail "brokerd ended with $got, not $1"; }
}
small=(--dev -o memory.host.size=64M -o memory.host.segment=4M -o server.max_message=auto
    -o transports.trusted=)

# Usage.
expect 64 "brokerd: --frobnicate: no such option" "$brokerd" --frobnicate
expect 64 "brokerd: --listne: no such option (did you mean --listen?)" "$brokerd" --listne
[ "$(wc -l <"$tmp/err")" = 1 ] || fail 'more than one line'
expect 64 "brokerd: -x: no such option" "$brokerd" -x
expect 64 "brokerd: --config: needs a value" "$brokerd" --config
expect 64 "brokerd: -o: needs a value" "$brokerd" --dev -o
expect 64 "brokerd: -o 'workers': takes KEY=VALUE" "$brokerd" --dev -o workers
expect 64 "brokerd: stray: takes no arguments" "$brokerd" --dev stray
expect 64 "aaa..." "$brokerd" --dev "$(head -c 100000 /dev/zero | tr '\0' a)"
expect 0 '' "$brokerd" --help
grep -q 'usage: brokerd' "$tmp/out" || fail '--help'
expect 0 '' "$brokerd" --version
grep -Eq '^brokerd [0-9]+\.[0-9]+\.[0-9]+ ' "$tmp/out" || fail '--version'
got=0
"$brokerd" --help >&- 2>/dev/null || got=$?
[ "$got" = 1 ] || fail "--help with a closed standard output: $got"
if [ -w /dev/full ]; then
    got=0
    "$brokerd" --dev --print-config >/dev/full 2>/dev/null || got=$?
    [ "$got" = 1 ] || fail "--print-config on a full device: $got"
fi

# Configuration: each wrong file, refused before any socket opens.
[ -e /etc/ambroker ] || expect 78 '--dev needs none' "$brokerd"
expect 78 "$tmp/none.conf: cannot be read: No such file" "$brokerd" --config "$tmp/none.conf"
expect 78 "$tmp: is a directory" "$brokerd" --config "$tmp"
truncate -s 1G "$tmp/huge.conf"
expect 78 "file too large (got 1G, allowed 1M)" "$brokerd" --config "$tmp/huge.conf"
head -c 3000 /bin/ls >"$tmp/binary.conf"
expect 78 "$tmp/binary.conf:1: has a NUL byte" "$brokerd" --config "$tmp/binary.conf"
refuse 'server = { workers = ; };' '2: syntax error'
refuse 'server = { workers = "4"; };' '2: server.workers: wrong type (got "4", allowed "auto" or a number, 0 to 64)'
refuse 'server = { workers = -4; };' '2: server.workers: out of range (got -4,'
refuse '\nserver = { wrokers = 4; };' '3: server.wrokers: unknown key (did you mean server.workers?)'
refuse 'limits = { heartbeat = 5; };' '2: limits.heartbeat: a time needs a unit (got 5,'
refuse 'memory = { cuda = ( ); };' '2: memory.cuda: wrong type (got a single value or a list, allowed a group { ... })'
refuse 'topics = ( { match = "a"; },\n{ match = "a"; } );' '3: topics[1]: topics[0] has the same match'
refuse 'transports = { trusted = ( "none7" ); };' '2: transports.trusted: no such interface (got "none7", allowed '
refuse 'transports = { infiniband = "on"; };' '2: transports.infiniband: '
refuse '@include "/etc/passwd"\n' '2: @include: "/etc/passwd" is not relative'
refuse 'auth = { token_file = "/etc/passwd"; };' '2: auth.token_file: /etc/passwd can be read by others'
for url in tcp://127.0.0.1:65536 tcp://127.0.0.1:-1 http://x:1 tcp://0.0.0.0:4733; do
    printf 'listen = ( "%s" );' "$url" >"$conf"
    expect 78 "$conf:1: listen: " "$brokerd" --config "$conf"
done
grep -q 'server.insecure = true' "$tmp/err" || fail 'no word about server.insecure'
expect 78 "-o server.workers: server.workers: not a number (got \"x\"" \
    "$brokerd" --dev -o server.workers=x
expect 78 'environment AMBROKER_SERVER_WORKERS: server.workers: out of range' \
    env AMBROKER_SERVER_WORKERS=99 "$brokerd" --dev
expect 78 '--listen: listen: ' "$brokerd" --dev --listen tcp://127.0.0.1:99999

# Each fault has its line, also before a start.
printf 'listen = ( "unix://%s" );\nserver = { workers = 300;\n nothing = 1; };\n' "$sock" >"$conf"
printf 'topics = ( { match = "a"; ttl = "-1s"; },\n { match = "b"; full = "sometimes"; } );\n' >>"$conf"
for action in --test-config --print-config ''; do
    # shellcheck disable=SC2086
    expect 78 "$conf:2: server.workers: out of range" "$brokerd" --config "$conf" -o log.level=loud $action
    for text in "$conf:3: server.nothing: unknown key" "$conf:4: topics[0].ttl: out of range" \
        "$conf:5: topics[1].full: unknown word" '-o log.level: log.level: unknown word'; do
        grep -qF -e "$text" "$tmp/err" || fail "nothing about '$text'"
    done
    [ "$(wc -l <"$tmp/err")" = 5 ] || fail "not a line for each fault"
done
expect 78 '' "$brokerd" --config "$conf" --doctor --output csv
[ "$(grep -c config-wrong "$tmp/out")" = 4 ] || fail 'not a finding for each fault'
printf 'limits = { heartbeat = "9s"; peer_timeout = "10s"; };\nauth = { token_file = "%s"; };' "$tmp/none" >"$conf"
expect 78 "$conf:1: limits.heartbeat: more than half" "$brokerd" --config "$conf" --test-config
grep -qF "$conf:2: auth.token_file: " "$tmp/err" || fail 'rules over several keys are not told each'
{ printf 'limits = {'; printf ' x%s = 1;' {1..40}; printf ' };'; } >"$conf"
expect 78 'brokerd: and 8 faults more' "$brokerd" --config "$conf" --test-config

# What is right.
: >"$conf"
expect 0 '' "$brokerd" --config "$conf" --test-config
grep -qF "$conf: the configuration is valid" "$tmp/out" || fail '--test-config'
printf 'server = { workers = 1; }; limits = { max_topics = 1; max_subscriptions = 1; };' >"$conf"
expect 0 '' env AMBROKER_LIMITS_MAX_TOPICS=2 AMBROKER_LIMITS_MAX_SUBSCRIPTIONS=2 \
    "$brokerd" --config "$conf" -o limits.max_topics=3 --print-config
for line in 'workers = 1; # .*b.conf:1' 'max_topics = 3; # -o limits.max_topics' \
    'max_subscriptions = 2; # environment AMBROKER_LIMITS_MAX_SUBSCRIPTIONS' \
    'max_publishers = 1024; # default'; do
    grep -q "    $line\$" "$tmp/out" || fail "--print-config lacks: $line"
done
sed 's/ #.*//' "$tmp/out" >"$tmp/printed.conf"
expect 0 '' "$brokerd" --config "$tmp/printed.conf" --print-config
sed 's/ #.*//' "$tmp/out" | cmp - "$tmp/printed.conf" || fail 'a printed configuration differs'
expect 0 '' "$brokerd" --config "$root/etc/broker.conf" --test-config
for profile in tcp nvlink; do
    expect 0 '' "$brokerd" --config "$root/etc/profiles/$profile.conf" --test-config
done
expect 0 '' "$brokerd" --config "$root/etc/profiles/infiniband.conf" --test-config \
    -o transports.trusted=lo

# Limits of the process.
expect 78 'the descriptor limit is too small' bash -c 'ulimit -n 20; exec "$@"' - \
    "$brokerd" --dev --test-config
grep -q '(got ulimit -n 20, allowed at least ' "$tmp/err" || fail 'needed descriptors not named'
# Not with AddressSanitizer, which needs terabytes of addresses.
if (ulimit -v 1000000; exec "$brokerd" --version >"$tmp/out" 2>&1); then
    expect 78 '(got ulimit -v 1000000, allowed at least ' bash -c 'ulimit -v 1000000; exec "$@"' - \
        "$brokerd" "${small[@]}" --listen "unix://$sock" -o memory.host.size=4G \
        -o memory.host.grow_on_demand=false
fi
expect 0 '' bash -c 'ulimit -l 0; exec "$@"' - "$brokerd" --dev --test-config

# Life: ready, a second one on the same socket, reload, graceful end.
start "${small[@]}"
grep -qxF "ready unix://$sock" "$tmp/ready" || fail "ready line: $(cat "$tmp/ready")"
expect 69 "$sock" "$brokerd" "${small[@]}" --listen "unix://$sock"
kill -0 "$broker_pid" || fail 'the first broker has ended'
kill -HUP "$broker_pid"
wait_until grep -q 'the configuration is valid and unchanged' "$tmp/log"
# Limits that have changed meanwhile are not those that it runs with: "auto" stays what it was.
before=$(grep -c 'the configuration is valid and unchanged' "$tmp/log")
python3 -c 'import resource as r, sys; r.prlimit(int(sys.argv[1]), r.RLIMIT_NOFILE, (700, 700))' \
    "$broker_pid"
kill -HUP "$broker_pid"
reloaded() { [ "$(grep -c 'reload' "$tmp/log")" -gt "$before" ]; }
wait_until reloaded
[ "$(grep -c 'the configuration is valid and unchanged' "$tmp/log")" -gt "$before" ] ||
    fail "a reload with another ulimit -n: $(grep reload "$tmp/log" | tail -n 1)"
kill -USR1 "$broker_pid"
kill -PIPE "$broker_pid"
kill -TERM "$broker_pid"
stop 0

# A reload answers in the log and never ends the broker.
printf 'log = { level = "info"; };\n' >"$conf"
start "${small[@]}" --config "$conf"
printf 'log = { level = "debug"; };\n' >"$conf"
kill -HUP "$broker_pid"
wait_until grep -q 'in force from now on: log.level "info" -> "debug" (.*:1)' "$tmp/log"
printf 'log = { level = "debug"; }; limits = { max_subscriptions = 5; window = "1M"; };\n' >"$conf"
kill -HUP "$broker_pid"
wait_until grep -q 'in force from now on: limits.max_subscriptions 10000 -> 5 (.*:1), limits.window "[0-9]*M" -> "1M" (.*:1)' "$tmp/log"
printf 'log = { level = "debug"; }; server = { counters_objects = 64; };\n' >"$conf"
kill -HUP "$broker_pid"
wait_until grep -q 'these need a restart: server.counters_objects 16384 -> 64 (.*:1)' "$tmp/log"
printf 'log = { level = 5; };\n' >"$conf"
kill -HUP "$broker_pid"
wait_until grep -q 'reload refused, the configuration in force stays: .*:1: log.level: wrong' "$tmp/log"
kill -USR2 "$broker_pid"
stop 0

# A killed broker leaves its socket file; the next one takes the place.
start "${small[@]}"
kill -9 "$broker_pid"
stop 137
[ -S "$sock" ] || fail 'the socket file of a killed broker is gone'
start "${small[@]}"
kill -INT "$broker_pid"
stop 0

# Nobody reads its output, and nobody can: it serves all the same.
"$brokerd" "${small[@]}" --listen "unix://$sock" >&- 2>&- </dev/null &
broker_pid=$!
wait_until test -S "$sock"
wait_until "$brokerd" --version >/dev/null
kill -0 "$broker_pid" || fail 'ended without standard output'
kill -TERM "$broker_pid"
stop 0

# --until-eof: it ends with its standard input, and with the program that held the other end.
expect 64 '--until-eof: standard input is closed' bash -c 'exec "$@" <&-' - \
    "$brokerd" "${small[@]}" --until-eof
expect 0 'standard input has ended' "$brokerd" "${small[@]}" --listen "unix://$sock" --until-eof
grep -qxF "ready unix://$sock" "$tmp/out" || fail "no ready line before an end at once"
mkfifo "$tmp/pipe"
# start_on_pipe ARGUMENTS...: a broker whose standard input is the pipe, whose writer has gone on.
start_on_pipe() {
    forget
    "$brokerd" "${small[@]}" --listen "unix://$sock" "$@" \
        >"$tmp/ready" 2>"$tmp/log" <"$tmp/pipe" 7>&- &
    broker_pid=$!
}
exec 7<>"$tmp/pipe"
start_on_pipe --until-eof
wait_until grep -q '^ready ' "$tmp/ready"
echo 'any line is dropped' >&7
kill -HUP "$broker_pid"
wait_until grep -q 'the configuration is valid and unchanged' "$tmp/log"
kill -0 "$broker_pid" || fail 'a line on standard input ended the broker'
exec 7>&-
stop 0
grep -q 'standard input has ended' "$tmp/log" || fail 'no word about the end of standard input'
[ ! -e "$sock" ] || fail 'the end of standard input left the socket'
# A writer that is killed says nothing, and need not.
sleep 60 >"$tmp/pipe" &
writer_pid=$!
start_on_pipe --until-eof
wait_until grep -q '^ready ' "$tmp/ready"
kill -9 "$writer_pid"
stop 0
# Asked to by a signal first, the end of the input does not make it harder.
exec 7<>"$tmp/pipe"
start_on_pipe --until-eof
wait_until grep -q '^ready ' "$tmp/ready"
kill -TERM "$broker_pid"
exec 7>&-
stop 0
# Without the option that end means nothing.
start "${small[@]}"
kill -0 "$broker_pid" || fail 'ended with /dev/null for an input'
kill -TERM "$broker_pid"
stop 0

# --dev: a private folder of its own, and only a private one.
mkdir "$tmp/run"
forget
XDG_RUNTIME_DIR=$tmp/run "$brokerd" --dev >"$tmp/ready" 2>"$tmp/log" </dev/null &
broker_pid=$!
wait_until grep -q '^ready ' "$tmp/ready"
folder=$tmp/run/ambroker-$(id -u)
grep -qxF "ready unix://$folder/broker.sock" "$tmp/ready" || fail "$(cat "$tmp/ready")"
[ "$(stat -c %a "$folder")" = 700 ] || fail "mode of $folder"
kill -TERM "$broker_pid"
stop 0
chmod 755 "$folder"
expect 69 'must be a folder of this user that is closed to others' \
    env "XDG_RUNTIME_DIR=$tmp/run" "$brokerd" --dev
expect 69 'cannot be made: No such file' env "XDG_RUNTIME_DIR=$tmp/nowhere" "$brokerd" --dev
echo 'brokerd: all as expected'
