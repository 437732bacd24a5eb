#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demonstration: one publisher passes real files of this system to four subscribers, each a
# process of its own, over three links through one brokerd; every SHA-256 must arrive as it left.
#
#   tools/demo/run.sh BUILD_FOLDER [--small] [--all-links] [--url URL]
#                     [--pub-prefix CMD] [--sub-prefix CMD] [--keep]
#
#   --small         few and small files, all four subscribers on the Unix socket
#   --all-links     --small with the links of the large form
#   --url URL       a brokerd that runs already (no CPU time then); implies the links of URL
#   --pub-prefix    a command to run the publisher under: another user, another namespace
#   --sub-prefix    the same for the subscribers
#   --keep          leave the temporary folder
# Exit: 0 everything arrived whole, 1 something did not, 64 usage.
set -euo pipefail
export LC_ALL=C

usage() {
    sed -n '6,7s/^# *\(tools\|\[\)/\1/p' "$0" | paste -sd ' ' - | sed 's/^/usage: /' >&2
    exit 64
}
say() { printf 'demo: %s\n' "$*"; }
die() {
    printf 'demo: %s\n' "$*" >&2
    exit 1
}

[ $# -ge 1 ] && [ -d "$1" ] || usage
build=$(cd "$1" && pwd)
shift
small='' all_links='' url='' keep=''
pub_prefix=() sub_prefix=()
while [ $# -gt 0 ]; do
    case $1 in
    --small) small=1 ;;
    --all-links) all_links=1 ;;
    --keep) keep=1 ;;
    --url | --pub-prefix | --sub-prefix)
        [ $# -ge 2 ] || usage
        case $1 in
        --url) url=$2 ;;
        --pub-prefix) read -ra pub_prefix <<<"$2" ;;
        --sub-prefix) read -ra sub_prefix <<<"$2" ;;
        esac
        shift
        ;;
    *) usage ;;
    esac
    shift
done
[ -n "$small" ] || all_links=1

# ---- programs and a place to work ----

find_program() {
    local place
    for place in "$build" "$build/bin" "$build/tools" "$build/broker"; do
        if [ -x "$place/$1" ]; then
            printf '%s\n' "$place/$1"
            return
        fi
    done
    die "no $1 in $build: build it first"
}
ctl=$(find_program broker-ctl)
bench=$(find_program broker-bench)
brokerd=$([ -n "$url" ] || find_program brokerd)

tmp=$(mktemp -d "${TMPDIR:-/tmp}/ambroker-demo.XXXXXX")
# Others (--pub-prefix) must get in; what is in here is public: copies of world-readable files.
chmod 755 "$tmp"
broker_pid='' pids=()
clean_up() {
    local pid
    exec 9>&- # ends what no signal reaches
    for pid in ${pids[@]+"${pids[@]}"} $broker_pid; do
        kill "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    if [ -n "$keep" ]; then
        say "left $tmp"
    else
        rm -rf "$tmp"
    fi
}
trap clean_up EXIT
trap 'exit 1' INT TERM

# ---- the files ----

# Ranges of sizes in bytes and how many of each, spread over whatever this Debian system has.
make_list() {
    local picks pick min max count
    if [ -n "$small" ]; then
        picks='0:4095:16 4096:65535:12 65536:1048575:4'
    else
        picks='0:4095:60 4096:65535:80 65536:1048575:70 1048576:8388607:35 8388608:67108864:8'
    fi
    # Public files, with names that a list of lines does not trip over.
    (find /usr/bin /usr/sbin /usr/lib /usr/share /etc -xdev -type f -perm -004 -printf '%s %p\n' \
        2>/dev/null || true) | grep -E '^[0-9]+ [A-Za-z0-9/._+-]+/[A-Za-z0-9][A-Za-z0-9._+-]*$' |
        sort -k2 >"$tmp/found"
    for pick in $picks; do
        IFS=: read -r min max count <<<"$pick"
        awk -v want="$count" -v min="$min" -v max="$max" '
            $1 >= min && $1 <= max { line[++n] = $2 }
            END {
                step = n > want ? n / want : 1
                for (i = 0; i < want && i * step < n; i++) print line[int(i * step) + 1]
            }' "$tmp/found"
    done >"$tmp/files"
    rm "$tmp/found"
}

add_made_files() {
    : >"$tmp/empty"
    printf '%s\n' "$tmp/empty" >>"$tmp/files"
    if [ -z "$small" ]; then
        say 'making 64 MiB of real files in one and 512 MiB of random bytes'
        # The pipe's writer ends with SIGPIPE once head has enough.
        (find /usr/lib /usr/share /usr/bin -xdev -type f -perm -004 -print0 2>/dev/null |
            xargs -0 cat 2>/dev/null || true) | head -c 67108864 >"$tmp/64-MiB-of-real-files"
        head -c 536870912 /dev/urandom >"$tmp/512-MiB-of-random-bytes"
        printf '%s\n' "$tmp/64-MiB-of-real-files" "$tmp/512-MiB-of-random-bytes" >>"$tmp/files"
    else
        head -c 4194304 /dev/urandom >"$tmp/4-MiB-of-random-bytes"
        printf '%s\n' "$tmp/4-MiB-of-random-bytes" >>"$tmp/files"
    fi
    chmod 644 "$tmp"/*
}

free_kib=$(df -Pk "$tmp" | awk 'NR == 2 { print $4 }')
need_kib=$([ -n "$small" ] && echo 131072 || echo 2621440)
[ "$free_kib" -ge "$need_kib" ] ||
    die "$tmp has $free_kib KiB free, the files need $need_kib: set TMPDIR"

make_list
add_made_files
file_count=$(wc -l <"$tmp/files")
byte_count=$(xargs -d '\n' stat -c %s <"$tmp/files" | awk '{ sum += $1 } END { printf "%.0f", sum }')
if [ -z "$small" ] && [ "$file_count" -lt 200 ]; then
    die "only $file_count files found on this system"
fi
say "$file_count files, $byte_count bytes; hashing them"
xargs -d '\n' sha256sum <"$tmp/files" | sed -E 's,^([0-9a-f]{64})  .*/,\1  ,' >"$tmp/expected"

# ---- brokerd ----

wait_until() { # SECONDS COMMAND...
    local tries=$(($1 * 50))
    shift
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.02
    done
}
is_ready() {
    [ "$(wc -l <"$tmp/ready")" -ge 1 ] || ! kill -0 "$broker_pid" 2>/dev/null
}

if [ -z "$url" ]; then
    socket="unix://$tmp/broker.sock"
    [ ${#pub_prefix[@]} -eq 0 ] && [ ${#sub_prefix[@]} -eq 0 ] || socket="$socket?mode=0666"
    "$brokerd" --dev --listen "$socket" --listen tcp://127.0.0.1:0 -o server.workers=2 \
        >"$tmp/ready" 2>"$tmp/broker.log" </dev/null &
    broker_pid=$!
    if ! wait_until 20 is_ready || ! grep -q '^ready ' "$tmp/ready"; then
        cat "$tmp/broker.log" >&2
        die 'brokerd did not get ready'
    fi
    unix_url="unix://$tmp/broker.sock"
    tcp_url=$(tr ' ' '\n' <"$tmp/ready" | grep '^tcp:' | head -n 1)
    say "brokerd $broker_pid, 2 workers: $(sed 's/^ready //' "$tmp/ready")"
else
    unix_url=$url tcp_url=''
fi

# CPU seconds of brokerd so far.
broker_cpu() {
    [ -n "$broker_pid" ] || { echo 0; return; }
    sed 's/.*) //' "/proc/$broker_pid/stat" |
        awk -v tick="$(getconf CLK_TCK)" '{ printf "%.2f\n", ($12 + $13) / tick }'
}

# ---- four subscribers, one publisher ----

# Clients stay, to be looked at, until their standard input ends: that reaches them under any prefix.
mkfifo "$tmp/hold"
exec 9<>"$tmp/hold"

export AMB_TRUSTED=lo
sub_urls=("$unix_url" "$unix_url" "$unix_url" "$unix_url")
sub_names=(unix-1 unix-2 unix-3 unix-4)
links=(ring stream ucx)
if grep -q '"ucx": *"off"' <<<"$("$ctl" --url "$unix_url" -o json status)"; then
    links=(ring stream) # No UCX here, or no /sys, where it looks for interfaces.
fi
if [ -n "$all_links" ] && [ -n "$tcp_url" ]; then
    sub_urls=("$unix_url" "$unix_url" "$tcp_url?link=stream" "$tcp_url?link=ucx")
    sub_names=(unix-1 unix-2 tcp-stream tcp-ucx)
    if [ ${#links[@]} = 2 ]; then
        say 'the broker has no ucx links here: the fourth subscriber comes by a stream'
        sub_urls[3]="$tcp_url?link=stream"
        sub_names[3]=tcp-stream-2
    fi
fi
for i in 0 1 2 3; do
    out_dir=()
    if [ "$i" = 0 ] && [ ${#sub_prefix[@]} -eq 0 ]; then
        out_dir=(--out-dir "$tmp/received")
    fi
    ${sub_prefix[@]+"${sub_prefix[@]}"} "$ctl" --url "${sub_urls[$i]}" \
        --client-name "${sub_names[$i]}" --timeout 600 sub demo.files --count "$file_count" \
        --sha256 --stats --hold --slow block --slow-block 600 ${out_dir[@]+"${out_dir[@]}"} \
        >"$tmp/sub-$i" 2>"$tmp/sub-$i.err" <"$tmp/hold" 9>&- &
    pids+=($!)
done

pub_files=()
while IFS= read -r file; do
    pub_files+=(--file "$file")
done <"$tmp/files"

cpu_before=$(broker_cpu)
${pub_prefix[@]+"${pub_prefix[@]}"} "$ctl" --url "$unix_url" --client-name publisher --timeout 600 \
    pub demo.files --wait-subscribers 4 "${pub_files[@]}" --stats --hold \
    >"$tmp/pub" 2>"$tmp/pub.err" <"$tmp/hold" 9>&- &
pids+=($!)

# The statistics come last: everything is there, or a process has ended too early (see below).
has_arrived() {
    local pid name
    for pid in "${pids[@]}"; do
        kill -0 "$pid" 2>/dev/null || return 0
    done
    for name in sub-0 sub-1 sub-2 sub-3; do
        [ "$(tail -n 1 "$tmp/$name" | cut -c 1-5)" = path. ] || return 1
    done
    grep -q '^subscribers' "$tmp/pub"
}
say_errors() {
    cat "$tmp/pub.err" "$tmp"/sub-?.err >&2
    [ -z "$broker_pid" ] || tail -n 20 "$tmp/broker.log" >&2
}
if ! wait_until 600 has_arrived; then
    say_errors
    die 'not everything arrived within 600 s'
fi
cpu_after=$(broker_cpu)

# Everybody is still connected.
"$ctl" --url "$unix_url" transports >"$tmp/transports" || true
failed=''
exec 9>&-
for i in "${!pids[@]}"; do
    wait "${pids[$i]}" || failed="$failed process-$i:$?"
done
pids=()
if [ -n "$failed" ]; then
    say_errors
    die "ended with an error:$failed"
fi

# ---- is it all the same? ----

for i in 0 1 2 3; do
    # "DIGEST  SEQ-NAME": in the order sent, so the lists are compared line by line.
    grep -E '^[0-9a-f]{64}  ' "$tmp/sub-$i" | sed -E 's/  [0-9]+-/  /' >"$tmp/got-$i"
    if ! cmp -s "$tmp/expected" "$tmp/got-$i"; then
        diff "$tmp/expected" "$tmp/got-$i" | head -n 20 >&2 || true
        die "${sub_names[$i]}: what arrived is not what was sent"
    fi
    grep -q -E '^lost +0$' "$tmp/sub-$i" || die "${sub_names[$i]}: lost messages"
done
if [ -d "$tmp/received" ]; then
    (cd "$tmp/received" && grep -E '^[0-9a-f]{64}  ' "$tmp/sub-0" | sha256sum --check --quiet) ||
        die 'the files written differ from what was received'
    [ "$(find "$tmp/received" -type f | wc -l)" -eq "$file_count" ] || die 'files are missing'
    say "${sub_names[0]} wrote $file_count files; sha256sum finds each as it was sent"
    rm -rf "$tmp/received"
fi
say "4 subscribers x $file_count messages: every SHA-256 equals the sent one, in order, none lost"

# ---- what it took ----

stat_of() { awk -v key="$2" '$1 == key { print $2 }' "$tmp/$1"; }
printf '\n%-12s %10s %10s %6s  %s\n' client messages/s GB/s lost 'how they came'
printf '%-12s %10s %10s\n' publisher "$(stat_of pub messages_per_s)" "$(stat_of pub gb_per_s)"
for i in 0 1 2 3; do
    printf '%-12s %10s %10s %6s  %s\n' "${sub_names[$i]}" "$(stat_of "sub-$i" messages_per_s)" \
        "$(stat_of "sub-$i" gb_per_s)" "$(stat_of "sub-$i" lost)" \
        "$(grep '^path\.' "$tmp/sub-$i" | sed -E 's/^path\.([a-z]+) +/\1 /' | paste -sd ';' -)"
done
printf '\nlinks and lanes:\n'
cat "$tmp/transports"
printf '\n'
for i in 0 1 2 3; do
    printf '%s %s\n' "$(stat_of "sub-$i" messages_per_s)" "$(stat_of "sub-$i" gb_per_s)"
done | awk '{ m += $1; g += $2 } END {
    printf "demo: all four with hashing: %.0f messages/s, %.2f GB/s\n", m, g }'
[ -z "$broker_pid" ] || awk -v b="$byte_count" -v c="$cpu_before" -v d="$cpu_after" 'BEGIN {
    printf "demo: broker CPU %.2f s: %.3f s per GB delivered\n", d - c, (d - c) * 1e9 / (4 * b) }'

if [ -z "$small" ] && [ -n "$broker_pid" ]; then
    printf '\nwithout hashing, one publisher to one subscriber (broker-bench, 1 s each):\n'
    printf '%-8s %10s %12s %8s %14s %14s\n' link size messages/s GB/s 'CPU s/Mmsg' 'CPU s/GB'
    for link in "${links[@]}"; do
        for size in 64 1M; do
            target=$([ "$link" = ring ] && echo "$unix_url" || echo "$tcp_url")
            "$bench" throughput --url "$target" --link "$link" --broker-pid "$broker_pid" \
                --size "$size" --seconds 1 >"$tmp/bench" || die "broker-bench failed on $link"
            awk -v link="$link" -v size="$size" '{ v[$1] = $2 } END {
                printf "%-8s %10s %12s %8.2f %14s %14s\n", link, size, v["msgs_per_s"],
                    v["mb_per_s"] / 1000, v["broker_cpu_s_per_mmsg"], v["broker_cpu_s_per_gb"] }' \
                "$tmp/bench"
        done
    done
fi

# ---- the end ----

if [ -n "$broker_pid" ]; then
    kill -TERM "$broker_pid"
    pid=$broker_pid broker_pid=''
    wait "$pid" || die "brokerd ended with $? after TERM"
    say 'brokerd drained and ended with 0'
fi
say 'passed'
