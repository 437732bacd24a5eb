#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md as a script: its sh blocks, word for word and in one shell, its C programs saved where
it says, and at the end a look whether its text blocks have been printed.

    readme-script.py [--build FOLDER] [--no-tests | --ci] | bash

--build FOLDER   a build that is there: stands for build/release, and nothing is installed by a
                 package manager, configured or compiled but the programs of README.md
--no-tests       without tools/test.sh
--ci             with .ci/run in its place
Needs HOME, a folder that may be filled; runs in the top folder of the sources."""
import argparse
import os
import re
import shlex

import sources

NEEDS_NO_BUILD = r"tools/(deps|demo)\.sh|cmake --(preset|build)"

HEAD = """set -euo pipefail
exec 3>&1 >"$HOME/printed"
fail() { printf 'readme: %s\\n' "$*" >&2; exit 1; }
end() {
    local code=$?
    if [ "$code" != 0 ]; then
        printf 'readme: ended with %s; the last that was printed:\\n' "$code" >&2
        tail -n 200 "$HOME/printed" >&2
    fi
    for pid in $(jobs -p); do kill "$pid" 2>/dev/null || true; done
}
trap end EXIT
mkdir -p "$HOME/hello"
"""

EXPECT = """for ((i = 0; ; i++)); do
    ! grep -qxF {line} "$HOME/printed" || break
    [ "$i" -lt 300 ] || fail 'not printed: '{line}
    sleep 0.1
done
"""


def command_lines(block, args):
    for line in block.splitlines():
        if args.no_tests and line.startswith("tools/test.sh"):
            continue
        if args.build and re.match(NEEDS_NO_BUILD, line):
            continue
        if args.ci and line.startswith("tools/test.sh"):
            line = ".ci/run"
        yield line.replace("build/release", shlex.quote(args.build)) if args.build else line


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--ci", action="store_true")
    args = parser.parse_args()
    if args.build:
        args.build = os.path.abspath(args.build)
    print(HEAD, end="")
    text = sources.read("README.md")
    for kind, block in re.findall(r"^```(sh|c|text)\n(.*?)^```", text, re.M | re.S):
        if kind == "c":
            name = re.match(r"/\* (\w+\.c):", block).group(1)
            print(f"cat >\"$HOME/hello/{name}\" <<'END OF {name}'\n{block}END OF {name}")
        elif kind == "text":
            for line in block.splitlines():
                print(EXPECT.format(line=shlex.quote(line)), end="")
        else:
            for line in command_lines(block, args):
                print("printf '+ %s\\n' " + shlex.quote(line) + " >&3")
                print(line)
    print("for job in $(jobs -p); do wait \"$job\" || true; done")
    print("printf 'readme: passed\\n' >&3")


if __name__ == "__main__":
    main()
