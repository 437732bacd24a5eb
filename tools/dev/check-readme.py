#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C programs in README.md compile, and in every page the links lead to files and the paths that
stand as code are there. docs/dependencies.md has a row for each package that tools/deps.sh installs.

    check-readme.py [--cc CC]"""
import argparse
import os
import re
import subprocess

import sources

PROGRAMS = ("README.md", "CONTRIBUTING.md")
# A file of ours that a page names, from the root.
PATH = re.compile(r"`((?:broker|client|wire|tools|tests|docs|cmake|etc|docker)/[\w./-]+"
                  r"\.(?:c|h|py|sh|txt|proto|md|cmake|conf|svg|json))`")


def check_links(page, text):
    folder = os.path.dirname(page)
    for link in re.findall(r"\]\(([^)#]+)", text):
        target = os.path.normpath(os.path.join(folder, link))
        if "://" not in link and not os.path.exists(os.path.join(sources.ROOT, target)):
            yield f"{page}: {link} is not there"
    for path in PATH.findall(text):
        if not os.path.exists(os.path.join(sources.ROOT, path)):
            yield f"{page}: {path} is not there"


def packages():
    """Those of tools/deps.sh: the words of its lists."""
    lists = re.findall(r"packages\+?=\((.*?)\)", sources.read("tools/deps.sh"), re.S)
    return [word for text in lists for word in re.sub(r"#.*", "", text).split()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="cc")
    args = parser.parse_args()
    command = [args.cc, "-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
               "-I" + os.path.join(sources.ROOT, "client/include"), "-fsyntax-only", "-xc", "-"]
    problems = []
    for page in PROGRAMS:
        text = sources.read(page)
        for program in re.findall(r"^```c\n(.*?)^```", text, re.M | re.S):
            done = subprocess.run(command, input=program.encode(), capture_output=True)
            if done.returncode != 0:
                problems.append(f"{page}: {program.splitlines()[0]}\n" + done.stderr.decode())
    for page in sources.all_files():
        if page.endswith(".md"):
            problems += check_links(page, sources.read(page))
    rows = sources.read("docs/dependencies.md")
    problems += [f"docs/dependencies.md: no row has `{name}`" for name in packages()
                 if f"`{name}`" not in rows]
    sources.finish("check-readme", problems)


if __name__ == "__main__":
    main()
