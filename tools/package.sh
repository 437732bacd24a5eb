#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian packages by CPack, with those of debug symbols, and prints their names and sizes.
#   tools/package.sh [OUTPUT]
# OUTPUT: a folder; else build/packages. `tools/deps.sh --ucx system` has brought what this needs.
# Exit: 0 they are there, 1 they are not, 64 usage, 69 something to make them with is missing.
set -euo pipefail

if [ $# -gt 1 ] || [[ "${1:-}" == -* ]]; then
    sed -n 's/^#   \(tools.*\)/usage: \1/p' "$0" >&2
    exit 64
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
output=$(realpath -m "${1:-$root/build/packages}")
for tool in cmake cpack dpkg-shlibdeps file objcopy; do
    command -v "$tool" >/dev/null || {
        echo "package: no $tool: run tools/deps.sh --ucx system first" >&2
        exit 69
    }
done
if ! pkg-config --exists ucx || [ ! -e "$root/build/deps/cuda-licences" ]; then
    echo 'package: run tools/deps.sh --ucx system first' >&2
    exit 69
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
export LC_ALL=C
# The date of the newest entry is that of all files, so the same sources give the same packages.
SOURCE_DATE_EPOCH=$(date -d "$(sed -n 's/^ -- .*  //p' etc/debian/changelog | head -n 1)" +%s)
export SOURCE_DATE_EPOCH

# quiet COMMAND...: its output only where it fails.
quiet() {
    "$@" >"$work/log" 2>&1 </dev/null || {
        tail -n 50 "$work/log" >&2
        exit 1
    }
}
# finish_symbols FILE: CPack's package of debug symbols with sums that name its files, with the licence and the
# Multi-Arch of the package that it is for, and with a name that apt takes.
finish_symbols() {
    local tree=$work/symbols name
    dpkg-deb -R "$1" "$tree"
    name=$(sed -n 's/^Package: //p' "$tree/DEBIAN/control")
    sed -i '/^Package-Type:/d; /^Multi-Arch:/d' "$tree/DEBIAN/control"
    if [ "$(dpkg-deb -f "$work/made/${name%-dbgsym}"_*.deb Multi-Arch)" = same ]; then
        sed -i '/^Priority:/a Multi-Arch: same' "$tree/DEBIAN/control"
    fi
    mkdir -p "$tree/usr/share/doc"
    ln -s "${name%-dbgsym}" "$tree/usr/share/doc/$name"
    (cd "$tree" && find usr/lib -type f -exec chmod 644 {} + -exec md5sum {} + >DEBIAN/md5sums)
    dpkg-deb --root-owner-group -Zxz -b "$tree" "${1%.ddeb}.deb" >/dev/null
    rm -rf "$tree" "$1"
}

quiet cmake --preset package
quiet cmake --build --preset package -j "${AMB_JOBS:-$(nproc)}" --target brokerd broker-ctl broker-bench amb
umask 022
quiet cpack --config build/package/CPackConfig.cmake -B "$work/made"
for file in "$work"/made/*.ddeb; do
    finish_symbols "$file"
done
mkdir -p "$output"
rm -f "$output"/{ambroker,ambroker-tools,ambroker-ucx,libamb0,libamb-dev}{,-dbgsym}_*.deb
mv "$work"/made/*.deb "$output/"
cd "$output"
for file in *.deb; do
    printf '%8d KiB  %s\n' "$(($(stat -c %s "$file") / 1024))" "$output/$file"
done
