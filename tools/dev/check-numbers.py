#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Numbers in pages are those of the sources. A page marks a number in one of two ways:

    at most 131,072<!-- AMB_LOG_ENTRIES_MAX --> entries      a comment behind the number and its unit
    | name | value | ...                                     a table whose head has these two cells

A name is a macro or an enumerator of the sources, a configuration key (its default), or an expression
of such names. Where two files give a macro different values, the page says which file it means:
<!-- NAME path -->. With --root DIR: of the project that lies there."""
import argparse
import re

import sources

FOLDERS = ("wire", "broker", "client", "tools", "tests")
SCHEMAS = ("broker/config/config_schema.c", "broker/config/config_schema_rule.c")
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+((?:[^\n\\]|\\\n)+)", re.M)
ENUMERATOR = re.compile(r"^\s+([A-Z][A-Z0-9_]+)\s*=\s*([^,\n/}]+)", re.M)
KEY = re.compile(r'\.path = "([\w.]+)"((?:(?!\.path =).)*)', re.S)
DEFAULT = re.compile(r'\.default_text = "([^"]*)"')
NUMBER = r"(\d[\d,]*(?:\.\d+)?|[a-z]+)"
UNIT = r"(KiB|MiB|GiB|TiB|ns|µs|us|ms|s|min|h|B|bytes|%|per cent)"
MARK = re.compile(NUMBER + r"(?:\s" + UNIT + r")?\**\s?<!--\s+([A-Za-z_][^>:]*?)\s+-->")
COMMENT = re.compile(r"<!--\s+([A-Za-z_][^>:]*?)\s+-->")
VALUE = re.compile(NUMBER + r"(?:\s" + UNIT + r")?$")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "ns": 1, "µs": 10**3,
         "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
WORDS = {word: at for at, word in enumerate(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen".split())}
SUFFIXES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "ns": 1, "us": 10**3,
            "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}


class Unknown(Exception):
    pass


def default_of(text):
    """The number that a key's default says, or None: not every key is a number."""
    found = re.fullmatch(r"(\d+)(K|M|G|T|ns|us|ms|s|m|h|d)?", text)
    return found and int(found.group(1)) * SUFFIXES.get(found.group(2), 1)


class Names:
    """What the sources say of names: {name: {text of its value: a file that says so}}."""

    def __init__(self):
        self.texts, self.defaults = {}, {}
        for name in sources.c_files(*FOLDERS):
            text = sources.read(name)
            for key, value in DEFINE.findall(text) + ENUMERATOR.findall(text):
                value = re.sub(r"/\*.*|//.*|\\\n", "", value).strip()
                self.texts.setdefault(key, {}).setdefault(value, name)
            if name in SCHEMAS:
                for path, rest in KEY.findall(text):
                    found = DEFAULT.search(rest)
                    if found is not None:
                        self.defaults[path] = found.group(1)

    def value(self, expression, place=None, depth=0):
        """The value of an expression of names and numbers."""
        if depth > 16:
            raise Unknown(f"{expression} goes on for ever")

        def of_name(found):
            name = found.group(0)
            if name in self.defaults:
                number = default_of(self.defaults[name])
                if number is None:
                    raise Unknown(f"{name} has the default {self.defaults[name]!r}")
                return str(number)
            texts = self.texts.get(name, {})
            if place is not None and depth == 0:
                texts = {t: file for t, file in texts.items() if file == place}
            values = {self.value(text, None, depth + 1) for text in texts}
            if len(values) != 1:
                raise Unknown(f"{name} is not known" if not values else
                              f"{name} has several values: name a file of "
                              + " ".join(sorted(texts.values())))
            return str(values.pop())

        text = re.sub(r"\b(?:U?INT(?:32|64)_C|\((?:u?int\w*_t|size_t|unsigned)\))", "", expression)
        text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)(?:[uUlL]+)\b", r"\1", text)
        text = NAME.sub(of_name, re.sub(r"\b0x[0-9a-fA-F]+", lambda m: str(int(m.group(0), 16)), text))
        if not re.fullmatch(r"[\d\s()+*/<>|%-]+", text):
            raise Unknown(f"{expression} is no constant")
        return eval(text.replace("/", "//"), {"__builtins__": {}})  # digits and signs alone


def said(number, unit):
    """The value that a page says, or None."""
    if number in WORDS:
        amount = WORDS[number]
    elif number[0].isdigit():
        amount = float(number.replace(",", ""))
    else:
        return None
    return amount * UNITS.get(unit, 1)


def compare(where, names, number, unit, expression):
    expression, _, place = expression.partition(" broker/")
    place = "broker/" + place if place else None
    if place is None and (found := re.match(r"(\S+) ((?:wire|client|tools|tests)/\S+)$", expression)):
        expression, place = found.groups()
    try:
        actual = names.value(expression, place)
    except (Unknown, SyntaxError, ZeroDivisionError) as problem:
        yield f"{where}: {problem}"
        return
    if said(number, unit) != actual:
        yield f"{where}: {expression} is {actual:,}, and the page says {number} {unit or ''}".rstrip()


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def check_table(where, names, head, line):
    cells = dict(zip(head, cells_of(line)))
    name, value = cells["name"].strip("` "), cells["value"].strip("` ")
    found = VALUE.match(value)
    if found is None:
        yield f"{where}: {value!r} is no number"
    else:
        yield from compare(where, names, found.group(1), found.group(2), name)


def line_of(text, found):
    return text.count("\n", 0, found.start()) + 1


def check(page, text, names):
    """Returns the problems of a page and how many numbers it marks."""
    problems, marked, head = [], 0, None
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{page}:{number}"
        if line.lstrip().startswith("|"):
            cells = cells_of(line)
            if "name" in cells and "value" in cells:
                head = cells
            elif head is not None and not set(line) <= set("|-: "):
                marked += 1
                problems += check_table(where, names, head, line)
        else:
            head = None
    ends = set()
    for mark in MARK.finditer(text):
        marked += 1
        ends.add(mark.end())
        problems += compare(f"{page}:{line_of(text, mark)}", names, mark.group(1), mark.group(2),
                            " ".join(mark.group(3).split()))
    for comment in COMMENT.finditer(text):
        if comment.end() not in ends:
            problems.append(f"{page}:{line_of(text, comment)}: a comment that marks no number: "
                            + comment.group(0))
    return problems, marked


def main():
    sources.options(argparse.ArgumentParser())
    names, problems, marked = Names(), [], 0
    for page in sources.all_files():
        if page.endswith(".md"):
            found, count = check(page, sources.read(page), names)
            problems += found
            marked += count
    print(f"{marked} numbers are marked")
    sources.finish("check-numbers", problems)


if __name__ == "__main__":
    main()
