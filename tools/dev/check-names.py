#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One meaning a name: no tag (struct, union, enum), no constant and no function that others may call
is defined in two of wire, broker and client. And some words of the glossary are not given another
meaning by a field of a struct in broker or client. With --root DIR: of the project that lies there."""
import argparse
import re

import ctext
import sources

PARTS = ("wire", "broker", "client")
TAG = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
ENUM = re.compile(r"\benum\b\s*\w*\s*\{([^}]*)\}")
CONSTANT = re.compile(r"(?:^|,)\s*([A-Z]\w+)")
MACRO = re.compile(r"^[ \t]*#\s*define\s+([A-Z]\w+)", re.M)
FIELD = re.compile(r"^[ \t]+((?:const |struct |enum |_Atomic )*\w+(?: \w+)?)[ *]+(\w[\w, *]*);", re.M)
NUMBER = re.compile(r"\b(?:unsigned|size_t|u?int\d+_t)$")
# A field that uses the word otherwise, by its name and by "is it a number?"; what it should be.
WORDS = (
    (re.compile(r"(?:.*_)?left$"), False, "left is a number, of what is still to come"),
    (re.compile(r"(?:.*_)?due$"), None, "due is a matter of time: due_ns"),
    (re.compile(r"waiting$"), True, "waiting is a list: a number is waiting_count, or unanswered"),
)


def other_meanings(name, text):
    """Fields of a header's structs whose names give a word another meaning."""
    plain = ctext.DIRECTIVE.sub("", ctext.IGNORED.sub(ctext.blank, text))
    for kind, names in FIELD.findall(plain):
        is_number = NUMBER.search(kind) is not None
        for field in re.findall(r"\w+", names):
            for word, wrong, meaning in WORDS:
                if word.match(field) and wrong in (None, is_number):
                    yield f"{name}: {field}: {meaning}"


def names_of(name, text):
    """The names that a file defines for others."""
    unit = ctext.read(text)
    code = ctext.IGNORED.sub(ctext.blank, text)
    plain = ctext.DIRECTIVE.sub("", code)
    names = {f for f, is_static in unit.defined.items() if not is_static or name.endswith(".h")}
    names.discard("main")  # each program has one, and nobody calls it
    names.update(f"struct {n}" for n in TAG.findall(plain) if n.startswith("amb_"))
    if name.endswith(".h"):
        names.update(n for n in MACRO.findall(code) if n.startswith("AMB_"))
        for body in ENUM.findall(plain):
            names.update(n for n in CONSTANT.findall(body) if n.startswith("AMB_"))
    return names


def main():
    sources.options(argparse.ArgumentParser())
    homes = {}
    for name in sources.c_files(*PARTS):
        for defined in names_of(name, sources.read(name)):
            homes.setdefault(defined, {}).setdefault(name.split("/")[0], name)
    problems = [f"{n} has two meanings: {', '.join(sorted(places.values()))}"
                for n, places in sorted(homes.items()) if len(places) > 1]
    for name in sources.c_files("broker", "client"):
        if name.endswith(".h"):
            problems += other_meanings(name, sources.read(name))
    sources.finish("check-names", problems)


if __name__ == "__main__":
    main()
