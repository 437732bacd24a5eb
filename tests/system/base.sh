#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A small Debian 12 in a folder, by debootstrap: what the packages of tools/package.sh depend on, systemd, a
# compiler, lintian. boot.sh starts it; it stays as it is. As root, minutes; nothing is done where it is there.
#   tests/system/base.sh FOLDER
# $AMB_DEBIAN: the URL of a mirror.
# Exit: 0 it is there, 1 debootstrap failed, 64 usage, or FOLDER is something else, which stays; 77 not root, no
# debootstrap, or no mirror.
set -euo pipefail

[ $# = 1 ] || {
    sed -n 's/^#   \(tests.*\)/usage: \1/p' "$0" >&2
    exit 64
}
if [ -e "$1" ] && [ ! -e "$1/.stamp" ]; then # of another one it would be removed
    echo "base: $1 is there, and not of this script" >&2
    exit 64
fi
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo 'skipped: needs root, and debootstrap'
    exit 77
fi
packages=(
    systemd systemd-sysv adduser
    libconfig9 libprotobuf-c1 libjansson4 libsmartcols1 libssl3 libjemalloc2 libmicrohttpd12 libucx0
    curl perl-openssl-defaults python3-minimal gcc libc6-dev pkgconf cmake ninja-build lintian
)
folder=$1
stamp="bookworm ${packages[*]}"
[ "$(cat "$folder/.stamp" 2>/dev/null)" != "$stamp" ] || exit 0
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
[ "$(cat "$folder/.stamp" 2>/dev/null)" != "$stamp" ] || exit 0

rm -rf --one-file-system "$folder" "$folder.new"
(
    IFS=,
    debootstrap --variant=minbase --include="${packages[*]}" bookworm "$folder.new" \
        "${AMB_DEBIAN:-http://deb.debian.org/debian}"
) >"$folder.log" 2>&1 || {
    tail -n 20 "$folder.log" >&2
    if grep -qE "Failed getting release file|Couldn't download" "$folder.log"; then
        echo 'skipped: no mirror of Debian can be reached ($AMB_DEBIAN)'
        exit 77
    fi
    exit 1
}
rm -f "$folder.new"/var/cache/apt/archives/*.deb "$folder.new/usr/sbin/policy-rc.d"
chmod 755 "$folder.new"
# With a number of its own systemd does not take each start for the first one.
echo 0123456789abcdef0123456789abcdef >"$folder.new/etc/machine-id"
echo ambroker-system >"$folder.new/etc/hostname"
printf '127.0.0.1 localhost ambroker-system\n::1 localhost\n' >"$folder.new/etc/hosts"
# Nothing happens there by the hour: tests look for what has changed.
for timer in apt-daily apt-daily-upgrade dpkg-db-backup e2scrub_all fstrim systemd-tmpfiles-clean; do
    ln -s /dev/null "$folder.new/etc/systemd/system/$timer.timer"
done
mkdir -p "$folder.new/srv/packages"
echo "$stamp" >"$folder.new/.stamp"
mv "$folder.new" "$folder"
