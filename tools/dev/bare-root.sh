#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# README.md followed word for word in a bare Debian: a root of its own by debootstrap's smallest
# variant, a clone of these sources, and the commands that README.md has (readme-script.py). As root.
# What runs there sees neither this machine's files nor its /dev; it shares the network.
#
#   tools/dev/bare-root.sh [--base DIR] [--with-sys] [--with-tests | --ci] [--carry PATH]... [--keep]
#
#   --base DIR     a root that debootstrap has made, copied; else one is made. It stays as it is
#   --with-sys     with /sys; else there is none, as in some containers
#   --with-tests   tools/test.sh too, ten minutes in all; with /sys, for UCX finds no TCP without it
#   --ci           .ci/run in place of tools/test.sh: all that continuous integration runs
#   --carry PATH   a file or folder of this machine that the root shall have as well: what apt and pip
#                  need to reach their registries from here
#   --keep         leave the root
# Exit: 0 README.md works there, 1 it does not, 64 usage, 69 no debootstrap or no right to use it.
set -euo pipefail

usage() {
    sed -n 's/^#   \(tools.*\)/usage: \1/p' "$0" >&2
    exit 64
}
base='' sys='' keep='' carry=() script_options=(--no-tests)
while [ $# -gt 0 ]; do
    case $1 in
    --base) base=${2:?} && shift ;;
    --carry) carry+=("${2:?}") && shift ;;
    --with-sys) sys=1 ;;
    --with-tests) script_options=() sys=1 ;;
    --ci) script_options=(--ci) sys=1 ;;
    --keep) keep=1 ;;
    *) usage ;;
    esac
    shift
done

if [ -z "${AMB_BARE_ROOT_INSIDE:-}" ]; then
    [ "$(id -u)" = 0 ] || { echo 'bare-root: needs root' >&2 && exit 69; }
    if [ -z "$base" ] && ! command -v debootstrap >/dev/null; then
        echo 'bare-root: needs debootstrap' >&2
        exit 69
    fi
    sources=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
    root=$(mktemp -d "${TMPDIR:-/tmp}/amb-bare-root-XXXXXX")
    # Whatever is mounted there, and runs there, ends with the namespaces, before this.
    clean_up() {
        if [ -n "$keep" ]; then
            echo "bare-root: left $root"
        else
            rm -rf --one-file-system "$root"
        fi
    }
    trap clean_up EXIT
    began=$SECONDS
    if [ -n "$base" ]; then
        cp -a "$base/." "$root/"
    else
        debootstrap --variant=minbase bookworm "$root" "${AMB_DEBIAN:-http://deb.debian.org/debian}" \
            >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2 && exit 1; }
        rm -f "$root.log"
    fi
    chmod 755 "$root" # Tests have users of their own, who must get to their programs.
    [ -e "$root/etc/hosts" ] || printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts" # As an installer does.
    for path in /etc/resolv.conf ${carry[@]+"${carry[@]}"}; do
        mkdir -p "$root$(dirname "$path")"
        cp -rL "$path" "$root$(dirname "$path")/"
    done
    git clone --quiet --no-hardlinks "file://$sources" "$root/srv/sources"
    "$sources/tools/dev/readme-script.py" ${script_options[@]+"${script_options[@]}"} \
        >"$root/srv/readme-script"
    echo "bare-root: the root is there after $((SECONDS - began)) s"
    code=0
    AMB_BARE_ROOT_INSIDE=$root AMB_BARE_ROOT_SYS=$sys unshare --mount --pid --fork --kill-child \
        --propagation private "${BASH_SOURCE[0]}" || code=$?
    if [ "$code" = 0 ]; then
        echo "bare-root: README.md works, $((SECONDS - began)) s in all"
    else
        echo "bare-root: README.md does not work there: exit $code" >&2
        exit 1
    fi
    exit 0
fi

# In namespaces of its own: these mounts are seen by nobody else. Its root is the root of its mounts, as
# everywhere: a process that enters a namespace of a test's gets that one, whatever its own was.
root=$AMB_BARE_ROOT_INSIDE
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" # as each Debian has it: the broker's counters are there
mount -t devpts -o ptmxmode=0666 devpts "$root/dev/pts" # tests of programs that print to a terminal
if [ -n "$AMB_BARE_ROOT_SYS" ]; then
    mount -t sysfs -o ro sysfs "$root/sys"
fi
cd "$root"
pivot_root . mnt
exec env -i HOME=/srv PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C TERM=dumb \
    chroot . bash -c 'umount -l /mnt && cd /srv/sources && exec bash /srv/readme-script'
