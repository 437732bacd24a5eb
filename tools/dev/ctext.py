# SPDX-License-Identifier: Apache-2.0
"""What a C file of this project defines, declares and calls, read from its text.

The house style makes that possible without a compiler: no K&R definitions, no macros that open a
brace at the top level, and each name of a function is spelled where it is called."""
import re

IGNORED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)", re.S)
NAME = re.compile(r"\b([a-z_]\w*)\s*\(")


class Unit:
    """One file: its functions by name, True where static; their heads and bodies; the names it
    declares; those it calls."""

    def __init__(self):
        self.defined, self.declared, self.called = {}, set(), set()
        self.heads, self.bodies = {}, {}


def blank(found):
    return '""' if found.group(0)[0] in "\"'" else "\n" * found.group(0).count("\n")


def top_level(text):
    """(head, body) of everything at the top level; body is None for what ends with a semicolon."""
    depth = begin = brace = 0
    for at, char in enumerate(text):
        if char == "{":
            brace = at if depth == 0 else brace
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                yield text[begin:brace].strip(), text[brace:at + 1]
                begin = at + 1
        elif char == ";" and depth == 0:
            yield text[begin:at].strip(), None
            begin = at + 1


def read(text):
    """The Unit of a file's text."""
    unit = Unit()
    text = DIRECTIVE.sub("", IGNORED.sub(blank, text))
    for head, body in top_level(text):
        head = ATTRIBUTE.sub("", head).strip()
        if "=" in head or not head.endswith(")") or head.startswith("typedef"):
            unit.called.update(NAME.findall(body or ""))
            continue
        found = NAME.search(head.replace("AMB_MUST_CHECK", ""))
        if found is None:
            continue
        is_static = "static" in head.split("(")[0].split()
        if body is not None:
            unit.defined[found.group(1)] = is_static
            unit.heads[found.group(1)] = head
            unit.bodies[found.group(1)] = body
            unit.called.update(NAME.findall(body))
        elif not is_static:
            unit.declared.add(found.group(1))
    return unit
