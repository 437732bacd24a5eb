#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every .c file of wire, broker and client has tests/unit/<the same path>_test.c, or a line with
the reason in tools/dev/untested.txt."""
import os

import sources


def main():
    names = set(sources.all_files())
    excused = dict(sources.table("tools/dev/untested.txt"))
    problems = []
    for name in sorted(names):
        if not name.endswith(".c") or not name.startswith(("wire/", "broker/", "client/")):
            continue
        test = f"tests/unit/{os.path.splitext(name)[0]}_test.c"
        has_test = test in names
        if not has_test and name not in excused:
            problems.append(f"{name}: no {test}")
        if has_test and name in excused:
            problems.append(f"tools/dev/untested.txt: {name} has a test by now")
    for name, reason in excused.items():
        if not reason:
            problems.append(f"tools/dev/untested.txt: {name}: no reason given")
    sources.finish("check-tests", problems)


if __name__ == "__main__":
    main()
