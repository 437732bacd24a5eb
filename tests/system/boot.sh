#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts the Debian of base.sh with systemd as process 1, in mount, PID, UTS, IPC, network and cgroup
# namespaces of its own, and waits until it ends. What it writes goes to memory and is gone with it. TERM ends
# it: its processes, mounts and control groups. So does the end of the process that started this.
#   tests/system/boot.sh BASE FOLDER DROPPED [SHARED=INSIDE]...
# BASE: of base.sh; it is only read. FOLDER: an empty one; the number of process 1 is put into FOLDER/pid.
# DROPPED: capabilities that nothing in there has, as "-sys_time,-sys_boot".
# SHARED: a folder of this machine that is seen there, read only, as INSIDE. As root.
set -euo pipefail

base=$(realpath "$1")
folder=$(realpath "$2")

# Mounts from here on are seen by nobody else.
if [ -z "${AMB_BOOT:-}" ]; then
    AMB_BOOT=outside exec setpriv --pdeathsig TERM unshare --mount --propagation private "$0" "$@"
fi

if [ "$AMB_BOOT" = outside ]; then
    child=
    group=
    remove() { find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || true; }
    remove_group() { # Its processes are about to end.
        local tries
        for tries in {1..200}; do
            [ -d "$group" ] || return 0
            remove "$group"
            sleep 0.05
        done
        echo "boot: $group is left after $tries tries" >&2
    }
    end() {
        trap - EXIT
        # Process 1 first: it ends after all others of its namespace, and unshare after it.
        kill -KILL "$(cat "$folder/pid" 2>/dev/null || echo "$child")" 2>/dev/null || true
        wait 2>/dev/null || true
        remove_group
    }
    trap end EXIT
    trap 'exit 143' TERM INT HUP
    rm -f "$folder/pid"
    mkdir "$folder/cgroup" "$folder/top"
    mount -t cgroup2 cgroup2 "$folder/cgroup"
    within=$folder/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
    for group in "$within"/ambroker-system-*; do # of one that was killed before it could do this
        [ -d "/proc/${group##*-}" ] || remove "$group"
    done
    group=$within/ambroker-system-$$
    mkdir "$group"
    (
        trap - EXIT TERM INT HUP
        echo "$BASHPID" >"$group/cgroup.procs"
        AMB_BOOT=inside exec setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child \
            --uts --ipc --net --cgroup --propagation private "$0" "$@"
    ) &
    child=$!
    wait "$child" 2>/dev/null
    exit 0
fi

# Process 1 of the new namespaces. /proc is still the one of outside, and so is this number in it.
read -r pid _ </proc/self/stat
dropped=$3
shift 3
mount -t tmpfs -o mode=755,size=3g tmpfs "$folder/top"
cd "$folder/top"
mkdir upper work root
mount -t overlay -o "lowerdir=$base,upperdir=upper,workdir=work" overlay root || cp -a "$base/." root/
cd root
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
mknod -m 666 dev/tty c 5 0
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
[ ! -e proc/sysrq-trigger ] || mount --bind dev/null proc/sysrq-trigger
for pair in "$@"; do
    mkdir -p ".${pair#*=}"
    mount --bind "${pair%%=*}" ".${pair#*=}"
    mount -o remount,bind,ro ".${pair#*=}"
done
echo "$pid" >"$folder/pid.new"
mv "$folder/pid.new" "$folder/pid"
mkdir -p run/former
pivot_root . run/former
umount -l /run/former
rmdir /run/former
hostname ambroker-system
exec env -i container=ambroker PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C setpriv "--bounding-set=$dropped" \
    /lib/systemd/systemd --system --log-target=journal --show-status=0 </dev/null
