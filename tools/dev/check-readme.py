#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C programs in README.md compile, and its links lead to files: check-readme.py [--cc CC]."""
import argparse
import os
import re
import subprocess

import sources

PAGES = ("README.md", "CONTRIBUTING.md")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="cc")
    args = parser.parse_args()
    command = [args.cc, "-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
               "-I" + os.path.join(sources.ROOT, "client/include"), "-fsyntax-only", "-xc", "-"]
    problems = []
    for page in PAGES:
        text = sources.read(page)
        for program in re.findall(r"^```c\n(.*?)^```", text, re.M | re.S):
            done = subprocess.run(command, input=program.encode(), capture_output=True)
            if done.returncode != 0:
                problems.append(f"{page}: {program.splitlines()[0]}\n" + done.stderr.decode())
        for link in re.findall(r"\]\(([^)#]+)", text):
            if "://" not in link and not os.path.exists(os.path.join(sources.ROOT, link)):
                problems.append(f"{page}: {link} is not there")
    sources.finish("check-readme", problems)


if __name__ == "__main__":
    main()
