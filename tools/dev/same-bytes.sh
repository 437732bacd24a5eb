#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Do two builds give the same bytes? Twice the sources as git has them (files that are not committed too),
# in two folders of unlike names and lengths, in another time zone, with another umask and number of jobs;
# both installed, and compared file by file. Compilers' caches are left out.
#
#   tools/dev/same-bytes.sh [--preset release] [--jobs 2] [--plant] [--keep]
#
#   --plant   brokerd has the time of its build in it: ends with 0 only if that is found
#
# Exit: 0 the same bytes, 1 not, 64 usage, 70 a build failed, 77 no build/deps (tools/deps.sh).
set -euo pipefail

usage() {
    sed -n 's/^#   \(tools.*\)/usage: \1/p' "$0" >&2
    exit 64
}
preset=release jobs=${AMB_JOBS:-2} keep='' plant=''
while [ $# -gt 0 ]; do
    case $1 in
    --preset) preset=${2:?} && shift ;;
    --jobs) jobs=${2:?} && shift ;;
    --plant) plant=1 ;;
    --keep) keep=1 ;;
    *) usage ;;
    esac
    shift
done
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[ -d "$root/build/deps/ucx" ] || { echo 'same-bytes: skipped: no build/deps' && exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/amb-same-XXXXXX")
clean_up() {
    [ -n "$keep" ] && echo "same-bytes: left $work" || rm -rf "$work"
}
trap clean_up EXIT
unset CMAKE_C_COMPILER_LAUNCHER SOURCE_DATE_EPOCH CFLAGS LDFLAGS
export CCACHE_DISABLE=1

# copy FOLDER: the sources as they are now.
copy() {
    mkdir -p "$1/build"
    git -C "$root" ls-files -z -co --exclude-standard | (cd "$root" && tar --null -T - -cf -) |
        tar -xf - -C "$1"
    cp -a "$root/build/deps" "$1/build/"
}

# build FOLDER INSTALLED JOBS
build() {
    (cd "$1" && cmake --preset "$preset" -DAMB_TESTS=OFF && cmake --build --preset "$preset" -j "$3" &&
        cmake --install "build/$preset" --prefix "$2") >"$work/log" 2>&1 ||
        { tail -n 40 "$work/log" >&2 && exit 70; }
}
first=$work/a second=$work/a-longer-name/with/folders
(umask 022 && copy "$first")
(umask 027 && copy "$second")
if [ -n "$plant" ]; then
    for folder in "$first" "$second"; do
        printf '__attribute__((used)) static const char built[] = __DATE__ " " __TIME__;\n' >>"$folder/broker/main.c"
    done
fi
(export TZ=Pacific/Chatham LC_ALL=C && umask 022 && build "$first" "$work/one" "$jobs")
(export TZ=America/Caracas LC_ALL=C.UTF-8 && umask 027 && build "$second" "$work/another" 1)

(cd "$work/one" && find . -type f -o -type l | sort) >"$work/files"
(cd "$work/another" && find . -type f -o -type l | sort) | cmp - "$work/files"
differ=0
while read -r file; do
    if ! cmp -s "$work/one/$file" "$work/another/$file"; then
        echo "same-bytes: differs: $file"
        differ=$((differ + 1))
    fi
done <"$work/files"
found=$(grep -rlaF "$work" "$work/one" || true)
[ -z "$found" ] || { echo "same-bytes: the folder of the build is in: $found" && differ=$((differ + 1)); }
echo "same-bytes: $(wc -l <"$work/files") files, $differ differ"
if [ -n "$plant" ]; then
    [ "$differ" = 1 ] && ! cmp -s "$work/one/bin/brokerd" "$work/another/bin/brokerd"
else
    [ "$differ" = 0 ]
fi
