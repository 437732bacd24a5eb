#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The walks of tools/dev/walks.txt, against the sources: what a message, an acknowledgement and a
lease pass on their way.

- a step is a function that its file defines, and a walk has STEPS_MAX steps,
- a step is called by the former one, through functions of the two steps' rooms alone, along an
  arrow; or something is handed over to it whose name stands on both sides, or is set to the step,
- a walk does not come back to a room that it has left,
- the pages named there have each step, in the order of its walk,
- followed by the calls, a parameter makes so many stops at most: a stop is a file that it comes to
  from another one, itself or what was made of it.

With --root DIR: of the project that lies there. With --show FILE:FUNCTION:PARAMETER: its stops."""
import argparse
import re

import ctext
import sources
from rooms import definers_of, may_use, module_of, owner, table_of

STEPS_MAX = 8
PRODUCT = ("wire", "broker", "client")
HANDED = ("mail", "order", "upcall", "list")
WORD = re.compile(r"[A-Za-z_]\w*")
CALL = re.compile(r"\b([a-z_]\w*)\s*\(")
ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\s*=(?!=)\s*([^;]*);", re.S)


class Walk:
    def __init__(self, name):
        self.name, self.steps = name, []


def read_walks(text):
    """The walks, the limits of stops as (most, file:function:parameter), and the pages."""
    walks, stops, pages = [], [], []
    for line in text.splitlines():
        line = line.split("#", 1)[0].rstrip()
        if line.startswith("stops "):
            _, most, what = line.split()
            stops.append((int(most), what))
        elif line.startswith("page "):
            pages.append(line.split()[1])
        elif line.endswith(":"):
            walks.append(Walk(line[:-1]))
        elif line:
            *how, place = line.split()
            walks[-1].steps.append((how, place))
    return walks, stops, pages


class House:
    """The sources, and who calls whom in them."""

    def __init__(self):
        self.units = {n: ctext.read(sources.read(n)) for n in sources.c_files(*PRODUCT)}
        self.definers = definers_of(self.units)
        self.folders = table_of(sources.table("tools/dev/arrows.txt"))

    def room(self, name):
        return owner(name, self.folders)

    def has(self, name, function):
        return name in self.units and function in self.units[name].bodies

    def find(self, name, function):
        """The file that defines what `name` calls so, if that is one."""
        if function in self.units[name].bodies:
            return name
        top = name.split("/")[0]
        found = {d for d in self.definers.get(function, ()) if d.split("/")[0] in (top, "wire")}
        return found.pop() if len(found) == 1 else None

    def calls(self, name, function):
        for called in CALL.findall(self.units[name].bodies[function]):
            home = self.find(name, called)
            if home is not None:
                yield home, called

    def reach(self, start, rooms):
        """All that start calls through functions of these rooms."""
        found, waiting = {start}, [start]
        while waiting:
            for place in self.calls(*waiting.pop()):
                if place not in found and self.room(place[0]) in rooms:
                    found.add(place)
                    waiting.append(place)
        return found


def check_step(house, how, before, place):
    """Problems of one step after the former one."""
    rooms = {house.room(before[0]), house.room(place[0])}
    if how == ["call"]:
        if place not in house.reach(before, rooms):
            yield f"is not called by {before[1]} through {' and '.join(sorted(rooms))}"
        elif len(rooms) == 2 and not may_use(place[0], house.folders,
                                             house.folders[house.room(before[0])]):
            yield f"is called against the arrows from {house.room(before[0])}"
    elif len(how) == 2 and how[0] in HANDED:
        name = re.compile(rf"\b{re.escape(how[1])}\b")
        mine = house.reach(before, {house.room(before[0])})
        if not any(name.search(house.units[f].bodies[function]) for f, function in mine):
            yield f"{how[1]} is not handed over by {before[1]}"
        modules = [n for n in house.units if module_of(n) == module_of(place[0])]
        given = re.compile(rf"\b{re.escape(how[1])}\s*=\s*{re.escape(place[1])}\b")
        if not any(name.search(sources.read(n)) for n in modules) and not any(
                given.search(body) for u in house.units.values() for body in u.bodies.values()):
            yield f"{how[1]} is not taken over by {place[0]}"
    else:
        yield f"comes by {' '.join(how) or 'nothing'}, which is no way"


def check_walk(house, walk):
    before, left = None, []
    if len(walk.steps) > STEPS_MAX:
        yield f"{walk.name}: {len(walk.steps)} steps, and {STEPS_MAX} may be"
    for how, step in walk.steps:
        place = tuple(step.rsplit(":", 1))
        if len(place) != 2 or not house.has(*place):
            yield f"{walk.name}: {step}: there is no such function"
            return
        room = house.room(place[0])
        if before is None:
            if how != ["start"]:
                yield f"{walk.name}: {step}: is the first step, and no start"
        else:
            for problem in check_step(house, how, before, place):
                yield f"{walk.name}: {step}: {problem}"
            if room != house.room(before[0]):
                left.append(house.room(before[0]))
        if room in left:
            yield f"{walk.name}: {step}: comes back to {room}"
        before = place


def check_page(page, walks):
    text = sources.read(page)
    for walk in walks:
        at = 0
        for _, step in walk.steps:
            found = text.find(step, at)
            if found < 0:
                yield f"{page}: {walk.name}: has no {step}, or not in this place"
                break
            at = found + len(step)


def arguments(text, at):
    """The arguments of the call whose parenthesis is at `at`."""
    depth, begin, found = 0, at + 1, []
    for i in range(at, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return found + [text[begin:i]]
        elif text[i] == "," and depth == 1:
            found.append(text[begin:i])
            begin = i + 1
    return found


def parameters(head):
    return [(WORD.findall(a) or [""])[-1] for a in arguments(head, head.index("("))]


def outside_calls(text):
    """The text without the calls in it."""
    found = CALL.search(text)
    while found is not None:
        size = sum(len(a) + 1 for a in arguments(text, found.end() - 1)) or 1
        text = text[:found.start()] + text[found.end() + size:]
        found = CALL.search(text)
    return text


def names_of(body, name):
    """The parameter, and what is it or a part of it in that function."""
    names, size = {name}, 0
    while len(names) != size:
        size = len(names)
        for to, text in ASSIGNED.findall(body):
            if names & set(WORD.findall(outside_calls(text))):
                names.add(to)
    return names


def follow(house, name, function, parameter, seen):
    """The functions that the parameter comes to, in the order of the calls."""
    if (name, function, parameter) in seen:
        return
    seen.add((name, function, parameter))
    yield name, function
    body = house.units[name].bodies[function]
    names = names_of(body, parameter)
    for found in CALL.finditer(body):
        home = house.find(name, found.group(1))
        if home is None:
            continue
        to = parameters(house.units[home].heads[found.group(1)])
        for i, text in enumerate(arguments(body, found.end() - 1)):
            if i < len(to) and names & set(WORD.findall(outside_calls(text))):
                yield from follow(house, home, found.group(1), to[i], seen)


def stops_of(house, what):
    """The stops, as file and function; None if there is no such parameter."""
    name, function, parameter = what.rsplit(":", 2)
    if not house.has(name, function) or parameter not in parameters(
            house.units[name].heads[function]):
        return None
    stops = []
    for place in follow(house, name, function, parameter, set()):
        if not stops or stops[-1][0] != place[0]:
            stops.append(place)
    return stops


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--show")
    args = sources.options(parser)
    house = House()
    if args.show is not None:
        for i, (name, function) in enumerate(stops_of(house, args.show) or ()):
            print(f"{i + 1:3} {name}:{function}")
        return
    walks, limits, pages = read_walks(sources.read("tools/dev/walks.txt"))
    problems = [problem for walk in walks for problem in check_walk(house, walk)]
    problems += [problem for page in pages for problem in check_page(page, walks)]
    for most, what in limits:
        stops = stops_of(house, what)
        if stops is None:
            problems.append(f"stops: {what}: there is no such parameter")
        elif len(stops) > most:
            problems.append(f"stops: {what}: makes {len(stops)} stops, and {most} may be")
    sources.finish("check-walks", problems)


if __name__ == "__main__":
    main()
