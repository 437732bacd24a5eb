#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes go only along the arrows of tools/dev/arrows.txt, and no two modules include each
other, directly or round about. A module is a .c file and its headers: the one of the same name, and
those that say by their names to be its own (_private, _shared, _internal). Knots that arrows.txt
names are let pass, as long as no module joins them."""
import fnmatch
import os
import re

import sources

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
FOLDERS = ("wire", "broker", "client", "tools", "tests")


def resolve(style, name, files):
    """The project's file that an include names, or None if it is a system's."""
    if style == "<" and name.startswith("amb/"):
        return "client/include/" + name
    return name if name in files else None


def module_of(name):
    return re.sub(r"_(private|shared|internal)$", "", os.path.splitext(name)[0])


def owner(name, folders):
    """The longest folder of the table that holds the file."""
    fitting = [f for f in folders if name.startswith(f + "/")]
    return max(fitting, key=len) if fitting else None


def is_within(name, places):
    return any(name == p or name.startswith(p + "/") for p in places)


def find_cycles(graph):
    """Tarjan's strongly connected components with more than one member."""
    index, low, on_stack, stack, cycles = {}, {}, set(), [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            members = []
            while not members or members[-1] != node:
                members.append(stack.pop())
                on_stack.discard(members[-1])
            if len(members) > 1:
                cycles.append(sorted(members))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return cycles


def check_libraries(name, style, included, libraries):
    written = ("<" if style == "<" else "") + included
    for pattern, places in libraries:
        fits = (written.startswith(pattern) if pattern.startswith("<")
                else fnmatch.fnmatch(included, pattern))
        if fits and not any(fnmatch.fnmatch(name, p) for p in places):
            yield f"{name}: {included} belongs to {' '.join(places)} only"


def main():
    rows = sources.table("tools/dev/arrows.txt")
    knots = [set(rest.split()) for k, rest in rows if k == "knot"]
    folders = {k: rest.split() for k, rest in rows if not k.startswith(("<", "*")) and k != "knot"}
    libraries = [(k, rest.split()) for k, rest in rows if k.startswith(("<", "*"))]
    names = sources.c_files(*FOLDERS)
    files = set(names)
    problems, graph = [], {}
    for name in names:
        module = module_of(name)
        home = owner(name, folders)
        for style, included in INCLUDE.findall(sources.read(name)):
            if not name.startswith("tests/"):
                problems += check_libraries(name, style, included, libraries)
            target = resolve(style, included, files)
            if style == '"' and target is None and ("/" not in included or ".." in included):
                problems.append(f'{name}: "{included}": includes name files from the root')
            if target is None:
                continue
            if owner(target, folders) != home and not is_within(target, folders.get(home, ())):
                problems.append(f"{name}: {home} may not include {target}")
            graph.setdefault(module, set()).add(module_of(target))
    for module, targets in graph.items():
        targets.discard(module)
    for cycle in find_cycles(graph):
        if not any(knot.issuperset(cycle) for knot in knots):
            problems.append("modules include each other: " + " ".join(cycle))
    sources.finish("check-arrows", problems)


if __name__ == "__main__":
    main()
