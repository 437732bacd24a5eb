#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The arrows of the code, against tools/dev/arrows.txt:

- includes and calls go only along the arrows between rooms, which make no circle,
- headers do not include each other in a circle,
- functions do not call each other in a circle of more than CIRCLE_MAX modules, in one program,
- a function is declared in a header of the module that defines it.

A module is a .c file and its headers: the one of the same name, and those that say by their names
to be its own (_private, _shared, _internal). Headers that arrows.txt names under `shared` are let
pass. With --root DIR: of the project that lies there."""
import argparse
import fnmatch
import re

import ctext
import sources
from rooms import definers_of, is_within, may_use, module_of, owner, table_of

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
FOLDERS = ("wire", "broker", "client", "tools", "tests")
PRODUCT = ("wire", "broker", "client", "tools")
CIRCLE_MAX = 4
# Declares what many files define, and its own inline functions use that.
PUBLIC = ("client/include/amb/amb",)
INTERFACE = "client/include"  # calls of what it declares are its users' arrows to it


def resolve(style, name, files):
    """The project's file that an include names, or None if it is a system's."""
    if style == "<" and name.startswith("amb/"):
        return "client/include/" + name
    return name if name in files else None


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


def check_includes(names, folders, libraries):
    files, graph, problems = set(names), {}, []
    for name in names:
        home = owner(name, folders)
        for style, included in INCLUDE.findall(sources.read(name)):
            if not name.startswith("tests/"):
                problems += check_libraries(name, style, included, libraries)
            target = resolve(style, included, files)
            if style == '"' and target is None and ("/" not in included or ".." in included):
                problems.append(f'{name}: "{included}": includes name files from the root')
            if target is None:
                continue
            if owner(target, folders) != home and not may_use(target, folders, folders[home]):
                problems.append(f"{name}: {home} may not include {target}")
            if name.endswith(".h"):
                graph.setdefault(name, set()).add(target)
    for cycle in find_cycles(graph):
        problems.append("headers include each other: " + " ".join(cycle))
    return problems


def check_rooms(folders):
    """The arrows themselves."""
    graph = {room: {owner(place.rstrip("/") + "/", folders) for place in places} - {room, None}
             for room, places in folders.items()}
    for cycle in find_cycles(graph):
        yield "rooms use each other: " + " ".join(cycle)


def sees_interface_alone(home, folders):
    """Of its top folder the room may use the public interface, and no room behind that."""
    top = home.split("/")[0] + "/"
    return [p for p in folders.get(home, ()) if p.startswith(top)] == [INTERFACE]


def check_calls(units, folders):
    """Circles of calls, and calls against the arrows, within each of the product's top folders; wire
    counts for all of them."""
    graph = {}
    definers = definers_of(units)
    public = {function for name in units if name.startswith(INTERFACE + "/")
              for function in re.findall(r"\b(amb_\w+)\(", sources.read(name))}
    for name, unit in units.items():
        top = name.split("/")[0]
        is_user = sees_interface_alone(owner(name, folders) or "", folders)
        for function in unit.called - set(unit.defined):
            for other in definers.get(function, ()):
                if other.split("/")[0] not in (top, "wire") or module_of(other) == module_of(name):
                    continue
                if is_user and function in public:
                    continue
                graph.setdefault(module_of(name), set()).add(module_of(other))
                home = owner(name, folders)
                if (owner(other, folders) != home and module_of(name) not in PUBLIC
                        and not may_use(other, folders, folders.get(home, ()))
                        and not may_use(header_of(other), folders, folders.get(home, ()))):
                    yield f"{name}: {home} may not call {function} of {other}"
    for circle in find_cycles(graph):
        if len(circle) > CIRCLE_MAX:
            yield (f"{len(circle)} modules call each other in a circle, and {CIRCLE_MAX} may: "
                   + " ".join(circle))


def header_of(name):
    return module_of(name) + ".h"


def check_declarations(units, shared):
    """A function of one definer in the same program is declared by its module alone."""
    definers = definers_of(units)
    for name, unit in units.items():
        if not name.endswith(".h") or is_within(name, shared):
            continue
        for function in sorted(unit.declared):
            homes = {module_of(d) for d in definers.get(function, ())
                     if d.split("/")[0] == name.split("/")[0]}
            if homes and module_of(name) not in homes:
                yield f"{name}: {function} is defined in {' '.join(sorted(homes))}"


def main():
    sources.options(argparse.ArgumentParser())
    rows = sources.table("tools/dev/arrows.txt")
    shared = [place for k, rest in rows if k == "shared" for place in rest.split()]
    folders = table_of(rows)
    libraries = [(k, rest.split()) for k, rest in rows if k.startswith(("<", "*"))]
    problems = check_includes(sources.c_files(*FOLDERS), folders, libraries)
    units = {name: ctext.read(sources.read(name)) for name in sources.c_files(*PRODUCT)}
    problems += check_rooms(folders)
    problems += check_calls(units, folders)
    problems += check_declarations(units, shared)
    sources.finish("check-arrows", problems)


if __name__ == "__main__":
    main()
