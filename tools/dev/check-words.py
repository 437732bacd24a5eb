#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a file must have and may not have: the licence line, a final newline; no tabs in sources,
no blanks at a line's end, no path of a developer's machine, no TODO without an issue's number."""
import os
import re

import sources

SOURCES = (".c", ".h", ".py", ".sh", ".cmake", ".proto", ".map")
SOURCE_NAMES = ("CMakeLists.txt", "Dockerfile", "run")
TEXTS = SOURCES + (".md", ".txt", ".json", ".yaml", ".yml", ".conf", ".in", ".lock", ".service")
# Bytes, not words; programs that are kept as they were; this file, which names what it looks for.
SKIPPED = ("tests/fuzz/corpus/", "tests/api/programs/", "tools/dev/check-words.py")

OPEN_END = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")
# A home folder, unless the name in it says that it is an example.
HOME = re.compile(r"(?<![\w./$}])/(?:home|Users)/(?!user\b|NAME\b|\$)\w|(?<![\w./$}])/root/\w")


def check(name, text):
    is_source = name.endswith(SOURCES) or os.path.basename(name) in SOURCE_NAMES
    if is_source and "SPDX-License-Identifier: Apache-2.0" not in text[:400]:
        yield f"{name}: no SPDX line at its top"
    if text and not text.endswith("\n"):
        yield f"{name}: no newline at its end"
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{name}:{number}"
        if is_source and "\t" in line:
            yield f"{where}: tab"
        if line != line.rstrip() and not name.endswith(".md"):
            yield f"{where}: blanks at its end"
        if OPEN_END.search(line):
            yield f"{where}: TODO without an issue: write TODO(#12)"
        if HOME.search(line):
            yield f"{where}: path of a developer's machine"


def main():
    problems = []
    for name in sources.all_files():
        is_text = name.endswith(TEXTS) or os.path.basename(name) in SOURCE_NAMES
        if is_text and not name.startswith(SKIPPED):
            problems += check(name, sources.read(name))
    sources.finish("check-words", problems)


if __name__ == "__main__":
    main()
