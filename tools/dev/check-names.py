#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One meaning a name: no tag (struct, union, enum), no constant and no function that others may call
is defined in two of wire, broker and client. With --root DIR: of the project that lies there."""
import argparse
import re

import ctext
import sources

PARTS = ("wire", "broker", "client")
TAG = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
ENUM = re.compile(r"\benum\b\s*\w*\s*\{([^}]*)\}")
CONSTANT = re.compile(r"(?:^|,)\s*([A-Z]\w+)")
MACRO = re.compile(r"^[ \t]*#\s*define\s+([A-Z]\w+)", re.M)


def names_of(name, text):
    """The names that a file defines for others."""
    unit = ctext.read(text)
    code = ctext.IGNORED.sub(ctext.blank, text)
    plain = ctext.DIRECTIVE.sub("", code)
    names = {f for f, is_static in unit.defined.items() if not is_static or name.endswith(".h")}
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
    sources.finish("check-names", problems)


if __name__ == "__main__":
    main()
