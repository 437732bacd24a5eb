#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# README.md's first hour on a build that is there: installed into a folder of the test's, moved from
# there, and used by README's own programs. tools/dev/bare-root.sh is the long form.
#   tests/integration/readme_test.sh BUILD_FOLDER
set -euo pipefail
build=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v pkg-config >/dev/null || { echo 'no pkg-config here' && exit 77; }
home=$(mktemp -d "${TMPDIR:-/tmp}/amb-readme-XXXXXX")
trap 'rm -rf "$home"' EXIT
export HOME=$home
unset AMB_URL AMB_CREDENTIALS AMB_TRUSTED PKG_CONFIG_PATH LD_LIBRARY_PATH
tools/dev/readme-script.py --no-tests --build "$build" >"$home/script"
grep -q '^cmake --install' "$home/script" || { echo 'README.md installs nothing' && exit 1; }
timeout 120 bash "$home/script"

# The folder that was installed into is moved: what pkg-config says moves along.
mv "$home/ambroker" "$home/moved"
export PKG_CONFIG_PATH=$home/moved/lib/pkgconfig
cd "$home/hello"
# shellcheck disable=SC2046 # words
cc publish.c -o publish $(pkg-config --cflags --libs amb)
libraries=$(ldd publish)
grep -q "libamb.so.0 => $home/moved/" <<<"$libraries" || { echo "$libraries" && exit 1; }
echo 'moved: passed'
