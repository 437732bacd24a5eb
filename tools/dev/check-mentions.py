#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Comments and pages mention what is there: each amb_* name is in the code, and each field named as
amb_topic.audience, struct amb_topic.audience or topic->audience.held is a member of its struct.

Where there is an amb_worker, worker->x is a field of it, or of a struct such as amb_ucx_worker.
Other variables may be of any struct. With --root DIR: of the project that lies there."""
import argparse
import re

import ctext
import sources

NAME = re.compile(r"\bamb_[a-z0-9_]*(?:[a-z0-9]\b|_\*)")
FIELD = re.compile(r"\b(?:(amb_\w+)\.|([a-z]\w*)->)([a-z_]\w*(?:(?:\.|->)[a-z_]\w*)*)")
STRUCT = re.compile(r"\b(?:struct|union)\s+(\w+)[^;{}()=]*\{")
INNER = re.compile(r"\b(?:struct|union)\b[^;{}]*\{")
POINTED = re.compile(r"\(\s*\*\s*(?:const\s+)?(\w+)(?:\[\w*\])?\s*\)\s*\(")
TYPE = re.compile(r"\b(?:struct|union)\s+(\w+)")
# File names behind a name: amb_version.h.
ENDINGS = {"h", "c", "md", "py", "so", "a", "proto", "in"}
# Names that the code has not, with the reason.
EXCUSED = {}


def end_of(text, at):
    """The place behind the brace that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


def members_of(body):
    """The members of a struct's body: by name the struct that each has as its type: its tag, the
    members of one without a tag, or None."""
    members = {}
    while (found := INNER.search(body)) is not None:
        end = end_of(body, found.end() - 1)
        inner = members_of(body[found.end():end - 1])
        declared, _, rest = body[end:].partition(";")
        names = re.findall(r"\w+", re.sub(r"\[[^]]*\]", "", declared))
        members.update({n: inner for n in names} if names else inner)
        body = body[:found.start()] + rest
    for part in body.split(";"):
        pointed = POINTED.search(part)
        if pointed is not None:
            members[pointed.group(1)] = None
            continue
        tag = TYPE.search(part)
        for declared in re.sub(r"\[[^]]*\]|:\s*\w+", "", part).split(","):
            names = re.findall(r"\w+", declared)
            if names:
                members[names[-1]] = tag.group(1) if tag is not None else None
    return members


def is_there(structs, tag, path):
    """Has the struct of this tag such a field? A member of a type that is not here ends the path."""
    kinds = structs.get(tag)
    for name in path:
        if kinds is None:
            return True
        if name not in kinds:
            return False
        inner = kinds[name]
        kinds = structs.get(inner) if isinstance(inner, str) else inner
    return True


def plain(text):
    """C without its comments, of which each line stays."""
    return ctext.IGNORED.sub(lambda m: ctext.blank(m) if m.group(0)[0] == "/" else m.group(0), text)


def code(names):
    """All names of the code, and the structs by tag."""
    known, structs = set(), {}
    for name in names:
        if not sources.is_c(name) and not name.endswith((".proto", ".cmake", "CMakeLists.txt", ".map")):
            continue
        text = sources.read(name)
        text = plain(text) if sources.is_c(name) else text
        known.update(re.findall(r"\bamb_\w+", text))
        if not sources.is_c(name):
            continue
        text = ctext.DIRECTIVE.sub("", ctext.ATTRIBUTE.sub("", text))
        for found in STRUCT.finditer(text):
            body = text[found.end():end_of(text, found.end() - 1) - 1]
            structs.setdefault(found.group(1), {}).update(members_of(body))
    return known, structs


def words_of(name):
    """(line, text) of each comment of a source, or of a page."""
    text = sources.read(name)
    if name.endswith(".md"):
        yield 1, text
    elif sources.is_c(name):
        for found in ctext.IGNORED.finditer(text):
            if found.group(0)[0] == "/":
                yield text.count("\n", 0, found.start()) + 1, found.group(0)


def look(known, structs, words):
    """(place, problem) of each mention of what is not there."""
    for found in NAME.finditer(words):
        name = found.group(0).rstrip("*")
        if name.endswith("_"):
            is_known = any(k.startswith(name) for k in known)
        else:
            is_known = name in known
        if not is_known and name not in EXCUSED:
            yield found.start(), f"{found.group(0)} is not in the code"
    for found in FIELD.finditer(words):
        tag, variable, fields = found.groups()
        path = re.split(r"\.|->", fields)
        if tag is not None and (tag not in structs or path[0] in ENDINGS):
            continue
        homes = structs if tag is None else [tag]
        if f"amb_{variable}" in structs:
            homes = [s for s in structs if s == variable or s.endswith(f"_{variable}")]
        if not any(is_there(structs, home, path) for home in homes):
            if found.group(0) not in EXCUSED:
                yield found.start(), f"{found.group(0)}: there is no such member"


def main():
    root = sources.options(argparse.ArgumentParser()).root
    names = sources.all_files()
    known, structs = code(names)
    problems = []
    for name in names:
        for line, words in words_of(name):
            problems += [f"{name}:{line + words.count(chr(10), 0, at)}: {problem}"
                         for at, problem in look(known, structs, words)]
    sources.finish("check-mentions", problems)


if __name__ == "__main__":
    main()
