#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Certificates change under load: again and again a broker gets another certificate, another key and
# another authority by SIGHUP, while a publisher and a subscriber stay connected over TLS. A spoilt
# file changes nothing, and `broker-ctl doctor` tells of it.
#
#   tools/tls-rotate.sh [--build FOLDER] [--changes N] [--observer FILE] [--keep]
#
#   --build FOLDER   of a build (build/release, else build/dev)
#   --changes N      changes of all files (20); before every fourth a spoilt file
#   --observer FILE  tests/support/observer.py: it looks at the broker meanwhile, and every answer must be right
#   --keep           leave the temporary folder
# Exit: 0 no session was lost and each change was in force, 1 something was not so, 64 usage.
set -euo pipefail
export LC_ALL=C
unset AMB_URL AMB_CONFIG

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
usage() {
    sed -n '7s/^# *\(tools\)/usage: \1/p' "$0" >&2
    exit 64
}
say() { printf 'tls-rotate: %s\n' "$*"; }
die() {
    printf 'tls-rotate: %s\n' "$*" >&2
    exit 1
}

build='' changes=20 observer='' keep=''
while [ $# -gt 0 ]; do
    case $1 in
    --keep) keep=1 ;;
    --build | --changes | --observer)
        [ $# -ge 2 ] || usage
        case $1 in
        --build) build=$2 ;;
        --changes) changes=$2 ;;
        --observer) observer=$2 ;;
        esac
        shift
        ;;
    *) usage ;;
    esac
    shift
done
[[ $changes =~ ^[1-9][0-9]*$ ]] || usage
for place in ${build:-"$root/build/release" "$root/build/dev"}; do
    if [ -x "$place/broker/brokerd" ] && [ -x "$place/tools/broker-ctl" ]; then
        build=$(cd "$place" && pwd)
        break
    fi
done
[ -n "$build" ] && [ -x "$build/broker/brokerd" ] || die "no build: cmake --preset dev, and build it"
command -v openssl >/dev/null || die "the program openssl is needed"
ctl=$build/tools/broker-ctl

tmp=$(mktemp -d "${TMPDIR:-/tmp}/ambroker-rotate.XXXXXX")
broker_pid='' pids=()
clean_up() {
    local pid
    for pid in ${pids[@]+"${pids[@]}"} $broker_pid; do
        kill "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    if [ -n "$keep" ]; then say "left $tmp"; else rm -rf "$tmp"; fi
}
trap clean_up EXIT
trap 'exit 1' INT TERM

# until_true SECONDS TEXT COMMAND...
until_true() {
    local end=$((SECONDS + $1)) text=$2
    shift 2
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || die "not in time: $text; the log ends: $(tail -n 3 "$tmp/log")"
        sleep 0.02
    done
}

# ---- two authorities, each with a certificate for the broker; clients know both ----

for side in a b; do
    mkdir "$tmp/$side"
    "$ctl" tls init --dir "$tmp/$side" --name 127.0.0.1 >/dev/null
done
cat "$tmp/a/ca.pem" "$tmp/b/ca.pem" >"$tmp/ca.pem"
(umask 077 && printf 'rotate\n' >"$tmp/token")
export AMB_CA=$tmp/ca.pem AMB_CREDENTIALS=$tmp/token

# A file is replaced as a whole; its mode goes along.
put() { cp -p "$1" "$2.new" && touch "$2.new" && mv "$2.new" "$2"; }
install_pair() {
    put "$tmp/$1/server.pem" "$tmp/server.pem"
    put "$tmp/$1/server.key" "$tmp/server.key"
}

install_pair a
cat >"$tmp/broker.conf" <<TEXT
tls = { certificate = "$tmp/server.pem"; key = "$tmp/server.key"; };
auth = { token_file = "$tmp/token"; };
TEXT

"$build/broker/brokerd" --dev --config "$tmp/broker.conf" --listen "unix://$tmp/sock" \
    --listen tls://127.0.0.1:0 >"$tmp/ready" 2>"$tmp/log" &
broker_pid=$!
until_true 60 "the broker is ready" grep -q 'tls://' "$tmp/ready"
url=$(grep -o 'tls://127[0-9.:]*' "$tmp/ready" | head -n 1)
ask() { "$ctl" --url "unix://$tmp/sock" -o json "$@"; }
# Does it tell of a file that is not in use?
doctor_tells() { { ask doctor || true; } | grep -qE 'is newer than what is in use|is not there any more'; }

# ---- the load ----

"$ctl" --url "$url" --client-name reader sub load --stats >"$tmp/stats" 2>"$tmp/reader" &
pids+=($!)
"$ctl" --url "$url" --client-name writer pub load --size 1000 --rate 2000 --count 1000000000 \
    --wait-subscribers 1 >/dev/null 2>"$tmp/writer" &
pids+=($!)
# The sessions of both: a lost one would come again with another number.
sessions() {
    ask clients | tr '{' '\n' | grep -E '"name": ?"(reader|writer)"' | grep -oE '"id": ?[0-9]+' | sort
}
both() { [ "$(sessions | wc -l)" = 2 ]; }
until_true 60 "both clients have a session" both
before=$(sessions)
observer_pid=''
if [ -n "$observer" ]; then
    python3 "$observer" --ctl "$ctl" --least 10 "$tmp/sock" "$broker_pid" >"$tmp/looks" 2>"$tmp/observer" &
    observer_pid=$!
    pids+=("$observer_pid")
    until_true 60 "the observer looks" grep -qx ready "$tmp/looks"
fi

# ---- changes ----

served() {
    openssl s_client -connect "${url#tls://}" -tls1_3 -alpn amb/1 </dev/null 2>/dev/null |
        openssl x509 -noout -fingerprint -sha256
}
fingerprint() { openssl x509 -in "$1" -noout -fingerprint -sha256; }
said() { grep -cF "$1" "$tmp/log" || true; }
has_said_more() { [ "$(said "$1")" -gt "$2" ]; }
reload() {
    local count
    count=$(said "$1")
    kill -HUP "$broker_pid"
    until_true 60 "it says '$1'" has_said_more "$1" "$count"
}

# A certificate that is cut, a key of the other one, no certificate, a key that all may read.
spoil() {
    case $(($1 % 4)) in
    0) head -c 300 "$tmp/server.pem" >"$tmp/cut" && put "$tmp/cut" "$tmp/server.pem" ;;
    1) put "$tmp/$2/server.key" "$tmp/server.key" ;;
    2) rm "$tmp/server.pem" ;;
    3) touch "$tmp/server.key" && chmod 644 "$tmp/server.key" ;;
    esac
}

refused=0 side=a
for ((i = 1; i <= changes; i++)); do
    other=$([ $side = a ] && echo b || echo a)
    if ((i % 4 == 0)); then
        in_use=$(served)
        spoil $((i / 4)) $other
        reload "reload refused, the configuration in force stays"
        [ "$(served)" = "$in_use" ] || die "change $i: a spoilt file is in use"
        doctor_tells || die "change $i: doctor says nothing of a spoilt file"
        refused=$((refused + 1))
    fi
    "$ctl" tls renew --dir "$tmp/$other" >/dev/null
    rm -f "$tmp/$other"/server.pem.[0-9]*
    install_pair $other
    side=$other
    reload "in force from now on: files of tls"
    in_use=$(served)
    [ -n "$in_use" ] && [ "$in_use" = "$(fingerprint "$tmp/server.pem")" ] || die "change $i: another certificate is served"
    if ((i % 10 == 0)); then
        "$ctl" --url "$url" pub fine --count 1 --size 10 || die "change $i: a client does not get in"
    fi
done
doctor_tells && die "doctor tells of a file that is in use"

# ---- nobody was lost ----

[ "$(sessions)" = "$before" ] || die "sessions were lost: $(cat "$tmp/reader" "$tmp/writer")"
kill "${pids[1]}"
wait "${pids[1]}" || true
kill "${pids[0]}"
wait "${pids[0]}" || die "the subscriber has failed: $(cat "$tmp/reader")"
pids=(${observer_pid:+"$observer_pid"})
lost=$(grep -E '^ *lost' "$tmp/stats" | grep -oE '[0-9]+$' || echo 0)
messages=$(grep -E '^ *messages ' "$tmp/stats" | grep -oE '[0-9]+$' || echo 0)
if [ -n "$observer_pid" ]; then
    kill "$observer_pid" 2>/dev/null || true
    wait "$observer_pid" || die "an observer: $(tail -n 1 "$tmp/looks") $(tail -n 5 "$tmp/observer")"
    pids=()
    say "an observer: $(tail -n 1 "$tmp/looks")"
fi
[ "$lost" = 0 ] && [ "$messages" -gt 0 ] || die "messages were lost: $(cat "$tmp/stats")"
kill "$broker_pid"
wait "$broker_pid" || die "the broker has failed: $(tail -n 5 "$tmp/log")"
broker_pid=''
say "$changes changes in force, $refused spoilt files refused, $messages messages, 0 lost; 0 sessions lost"
