#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files and functions stay short enough to read: see the limits below."""
import re

import sources

FILE_NOTE, FILE_MAX = 600, 800
FUNCTION_NOTE, FUNCTION_MAX = 60, 100
NAME = re.compile(r"(\w+)\s*\(")


def function_name(lines, brace):
    """The name before the first parenthesis of the lines above the opening brace."""
    for number in range(brace - 1, max(brace - 12, -1), -1):
        if lines[number] and not lines[number][0].isspace():
            found = NAME.search(lines[number])
            return found.group(1) if found else "?"
    return "?"


def functions(lines):
    """(name, first line, number of lines) of each function: clang-format puts the braces of a
    function, and of nothing else, into the first column."""
    start = None
    for number, line in enumerate(lines):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start is not None:
            yield function_name(lines, start), start + 1, number - start + 1
            start = None


def main():
    problems, notes = [], []

    def judge(where, lines, note, most):
        text = f"{where}: {lines} lines (past {note} it is long, past {most} an error)"
        if lines > most:
            problems.append(text)
        elif lines > note:
            notes.append(text)

    for name in sources.c_files("wire", "broker", "client", "tools", "tests"):
        lines = sources.read(name).splitlines()
        judge(name, len(lines), FILE_NOTE, FILE_MAX)
        for function, line, count in functions(lines):
            judge(f"{name}:{line}: {function}", count, FUNCTION_NOTE, FUNCTION_MAX)
    sources.finish("check-size", problems, notes)


if __name__ == "__main__":
    main()
