#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A picture of the folders and the includes between them, as SVG:

    draw-structure.py [--commit REV] OUT.svg

Each house (broker, client, wire, tools) is a stack of its rooms, from top to bottom floor. A room's
height says how many lines it has. An arc on the right is includes of a lower room by a higher one; a
red one on the left goes upwards. Floors are the order of tools/dev/arrows.txt, or without rooms there,
the order with the fewest includes upwards. Arrows between houses have the sum of their includes."""
import argparse
import importlib.util
import math
import os
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape

import ctext
import sources

HOUSES = ("broker", "wire", "client", "tools")
# client/include/amb/types.h has the types that both ends share.
SHARED = (("wire", "client"),)
FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"
BOX, GAP, BACK, PAD, HEAD = 262, 12, 40, 18, 62
ARCS_LEAST, ARCS_A_ROOM = 120, 17
LABEL_LEAST = 10  # includes: an arc of a high house has a number from here on
INK, PALE, LINE, RED = "#22303c", "#6b7a88", "#5b86b0", "#c62828"
FILLS = {"broker": "#eaf1f8", "wire": "#f3eef9", "client": "#eaf6ef", "tools": "#fbf3e6"}
EDGES = {"broker": "#9db8d2", "wire": "#bda9d6", "client": "#9ccbb0", "tools": "#dcc08c"}


def load_arrows():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check-arrows.py")
    spec = importlib.util.spec_from_file_location("check_arrows", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unpack(commit, folder):
    archive = subprocess.run(["git", "-C", sources.ROOT, "archive", commit],
                             capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)


def room_of(name, arrows, table):
    """The room of a file: by the table, which may count a folder to the one above it; or without a
    line there its folder. The headers that are installed are one room."""
    if name.startswith("client/include/"):
        return "client/include"
    owner = arrows.owner(name, table)
    return owner if owner is not None and "/" in owner else os.path.dirname(name)


class Structure:
    """What there is: files and lines a room, includes between rooms, circles of calls a house."""

    def __init__(self, arrows, table):
        names = [n for n in sources.c_files(*HOUSES) if "/compat/" not in n]
        known, texts = set(names), {n: sources.read(n) for n in names}
        self.files, self.lines, self.includes = {}, {}, {}
        for name in names:
            room = room_of(name, arrows, table)
            self.files[room] = self.files.get(room, 0) + 1
            self.lines[room] = self.lines.get(room, 0) + texts[name].count("\n")
            for style, included in arrows.INCLUDE.findall(texts[name]):
                target = arrows.resolve(style, included, known)
                if target in known:
                    pair = (room, room_of(target, arrows, table))
                    self.includes[pair] = self.includes.get(pair, 0) + 1
        units = {n: ctext.read(text) for n, text in texts.items()}
        self.circles = self.find_circles(arrows, units)

    @staticmethod
    def find_circles(arrows, units):
        definers, graph, largest = arrows.definers_of(units), {}, {}
        for name, unit in units.items():
            for function in unit.called - set(unit.defined):
                for other in definers.get(function, ()):
                    ends = arrows.module_of(name), arrows.module_of(other)
                    if ends[0] != ends[1] and ends[0].split("/")[0] == ends[1].split("/")[0]:
                        graph.setdefault(ends[0], set()).add(ends[1])
        for circle in arrows.find_cycles(graph):
            house = circle[0].split("/")[0]
            largest[house] = max(largest.get(house, 0), len(circle))
        return largest


def floors_of(house, structure, table):
    """The rooms of a house from top to bottom."""
    rooms = sorted(r for r in structure.files if r.split("/")[0] == house)
    rank = {room: at for at, room in enumerate(table)}
    if all(room in rank for room in rooms):
        return sorted(rooms, key=lambda room: -rank[room])
    left, floors = set(rooms), []
    while left:  # Next comes the room that the fewest includes of those that are left go up to.
        def upwards(room):
            return sum(structure.includes.get((other, room), 0) for other in left - {room})
        room = min(sorted(left), key=lambda r: (upwards(r), -sum(
            structure.includes.get((r, other), 0) for other in left - {r})))
        floors.append(room)
        left.remove(room)
    return floors


def text(x, y, size, words, fill=INK, anchor="start", weight="normal", halo=None):
    if halo is not None:
        behind = text(x, y, size, words, f"{halo}' stroke='{halo}' stroke-width='4", anchor, weight)
        return behind + "\n" + text(x, y, size, words, fill, anchor, weight)
    return (f"<text x='{x:.0f}' y='{y:.0f}' font-size='{size}' fill='{fill}' "
            f"text-anchor='{anchor}' font-weight='{weight}'>{escape(words)}</text>")


def thickness(count):
    return 0.8 + 1.1 * math.log2(1 + count) / 2


class House:
    def __init__(self, name, structure, table):
        self.name, self.structure = name, structure
        self.rooms = floors_of(name, structure, table)
        self.height = {room: max(34, 20 + structure.lines[room] / 110) for room in self.rooms}
        self.arcs = max(ARCS_LEAST, ARCS_A_ROOM * len(self.rooms)) if len(self.rooms) > 1 else 96
        self.is_down = {(a, b): self.rooms.index(a) < self.rooms.index(b)
                        for a in self.rooms for b in self.rooms
                        if a != b and structure.includes.get((a, b))}
        self.back = BACK if not all(self.is_down.values()) else 0
        self.size = (BOX + 2 * PAD + self.back + self.arcs,
                     HEAD + sum(self.height.values()) + GAP * (len(self.rooms) - 1) + PAD)

    def draw(self, x, y):
        self.x, self.y = x, y
        out = [f"<rect x='{x}' y='{y}' width='{self.size[0]}' height='{self.size[1]:.0f}' rx='10' "
               f"fill='{FILLS[self.name]}' stroke='{EDGES[self.name]}'/>"]
        files = sum(self.structure.files[r] for r in self.rooms)
        lines = sum(self.structure.lines[r] for r in self.rooms)
        out.append(text(x + PAD, y + 26, 18, self.name + "/", weight="bold"))
        circle = self.structure.circles.get(self.name, 0)
        out.append(text(x + PAD, y + 46, 12, f"{files} files, {lines:,} lines; largest circle of calls: "
                        + (f"{circle} modules" if circle else "none"), PALE))
        top, left = y + HEAD, x + PAD + self.back
        places = {}
        for room in self.rooms:
            places[room] = (top, self.height[room])
            out += self.draw_room(room, left, top)
            top += self.height[room] + GAP
        return out + self.draw_arcs(places, left)

    def draw_room(self, room, left, top):
        height = self.height[room]
        within = self.structure.includes.get((room, room), 0)
        label = room[len(self.name) + 1:] or ("the hall" if self.structure.files[room] > 30
                                              else "its root")
        middle = top + height / 2
        return [f"<rect x='{left}' y='{top:.0f}' width='{BOX}' height='{height:.0f}' rx='5' "
                f"fill='white' stroke='{EDGES[self.name]}' stroke-width='1.3'/>",
                text(left + 10, middle - 1, 13, label, weight="bold"),
                text(left + 10, middle + 13, 10.5, f"{self.structure.files[room]} files, "
                     f"{self.structure.lines[room]:,} lines, {within} includes within", PALE)]

    def draw_arcs(self, places, left):
        """Arcs leave a box in its lower half and come in its upper half: longer ones further out."""
        out, labels, ends = [], [], {room: ([], []) for room in self.rooms}
        for (a, b), down in self.is_down.items():
            if down:
                ends[a][0].append(b)
                ends[b][1].append(a)
        at = {}
        for room, (outs, ins) in ends.items():
            top, height = places[room]
            outs.sort(key=self.rooms.index, reverse=True)
            ins.sort(key=self.rooms.index, reverse=True)
            # From above to below: comers, the nearest first; then those that leave, the furthest first.
            for i, other in enumerate(ins):
                at[(other, room, 1)] = top + height * (0.06 + 0.42 * (i + 0.5) / len(ins))
            for i, other in enumerate(outs):
                at[(room, other, 0)] = top + height * (0.52 + 0.42 * (i + 0.5) / len(outs))
        longest = max(len(self.rooms) - 1, 1)
        order = sorted(self.is_down, key=lambda p: self.structure.includes[p])
        for a, b in order:
            count = self.structure.includes[(a, b)]
            span = abs(self.rooms.index(a) - self.rooms.index(b))
            reach = (20 + (self.arcs - 34) * (span / longest) ** 0.8) * 4 / 3
            hint = f"<title>{a} includes {b}: {count}</title>"
            if self.is_down[(a, b)]:
                x, y1, y2 = left + BOX, at[(a, b, 0)], at[(a, b, 1)]
                shade = min(0.95, 0.16 + 0.15 * math.log2(count))
                if count >= (LABEL_LEAST if len(self.rooms) > 4 else 1):
                    labels.append(text(x + reach * 0.75, (y1 + y2) / 2 + 4, 10, str(count), INK, "middle",
                                       halo=FILLS[self.name]))
                out.append(f"<path d='M{x} {y1:.1f} C{x + reach:.0f} {y1:.1f} {x + reach:.0f} {y2:.1f} "
                           f"{x + 5} {y2:.1f}' stroke='{LINE}' stroke-opacity='{shade:.2f}' fill='none' "
                           f"stroke-width='{thickness(count):.1f}' marker-end='url(#down)'>{hint}</path>")
            else:
                y1 = places[a][0] + places[a][1] * 0.3
                y2 = places[b][0] + places[b][1] * 0.7
                x, reach = left, min(reach, BACK * 4 / 3 + 6)
                out.append(f"<path d='M{x} {y1:.1f} C{x - reach:.0f} {y1:.1f} {x - reach:.0f} {y2:.1f} "
                           f"{x - 5} {y2:.1f}' stroke='{RED}' fill='none' stroke-width="
                           f"'{thickness(count):.1f}' marker-end='url(#up)'>{hint}</path>")
                labels.append(text(x - reach * 0.75 + 3, (y1 + y2) / 2 + 4, 10, str(count), RED))
        return out + labels


def between(a, b, structure):
    return sum(count for (x, y), count in structure.includes.items()
               if x.split("/")[0] == a and y.split("/")[0] == b)


def link(x1, y1, x2, y2, count, is_back=False, label=(0, -8)):
    colour, mark = (RED, "up") if is_back else (INK, "house")
    return [f"<path d='M{x1:.0f} {y1:.0f} L{x2:.0f} {y2:.0f}' stroke='{colour}' stroke-opacity='0.75' "
            f"stroke-width='{thickness(count):.1f}' fill='none' marker-end='url(#{mark})'/>",
            text((x1 + x2) / 2 + label[0], (y1 + y2) / 2 + label[1], 12, str(count), colour, "middle",
                 "bold")]


def picture(structure, table, title):
    houses = {name: House(name, structure, table) for name in HOUSES}
    gap, margin, top = 92, 24, 84
    broker, wire, client, tools = (houses[n] for n in HOUSES)
    column = tools.size[1] + 74 + client.size[1]
    height = max(broker.size[1], wire.size[1] + 60, column)
    out = broker.draw(margin, top + height - broker.size[1])
    x = margin + broker.size[0] + gap
    out += wire.draw(x, top + height - wire.size[1])
    x += wire.size[0] + gap
    out += client.draw(x, top + height - client.size[1])
    out += tools.draw(x, top + height - client.size[1] - 74 - tools.size[1])
    width = x + max(client.size[0], tools.size[0]) + margin
    level = top + height - min(wire.size[1], client.size[1], broker.size[1]) / 2
    ends = {"broker": (broker.x + broker.size[0], level), "client": (client.x, level)}
    for a, b, at in (("broker", "wire", (ends["broker"], (wire.x - 4, level))),
                     ("client", "wire", (ends["client"], (wire.x + wire.size[0] + 4, level)))):
        there, back = between(a, b, structure), between(b, a, structure)
        if there:
            out += link(*at[0], *at[1], there)
        if back:
            (x1, y1), (x2, y2) = at
            out += link(x2, y2 + 46, x1, y1 + 46, back, (b, a) not in SHARED)
    middle = tools.x + tools.size[0] / 2
    out += link(middle, tools.y + tools.size[1], middle, client.y - 4,
                between("tools", "client", structure), label=(20, 4))
    count = between("tools", "wire", structure)
    if count:
        out += link(tools.x, tools.y + tools.size[1] - 20, wire.x + wire.size[0] + 2, wire.y + 18, count,
                    label=(-14, -4))
    key = (f"A box is a folder, its height the lines. Blue: includes of a lower floor, thicker where "
           f"there are more; red: upwards. Black: includes from house to house.")
    marks = "".join(
        f"<marker id='{name}' viewBox='0 0 8 8' refX='6' refY='4' markerWidth='{size}' "
        f"markerHeight='{size}' markerUnits='userSpaceOnUse' orient='auto'>"
        f"<path d='M0 0.8 L8 4 L0 7.2 z' fill='{colour}'/></marker>"
        for name, colour, size in (("down", LINE, 7), ("up", RED, 8), ("house", INK, 12)))
    return "\n".join(
        ["<!-- SPDX-License-Identifier: Apache-2.0; drawn by tools/dev/draw-structure.py -->",
         f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{top + height + margin:.0f}' "
         f"viewBox='0 0 {width:.0f} {top + height + margin:.0f}' {FONT}>", f"<defs>{marks}</defs>",
         f"<rect width='100%' height='100%' fill='white'/>",
         text(margin, 36, 22, title, weight="bold"), text(margin, 60, 12.5, key, PALE),
         *out, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--commit", help="draw that commit, not the files that are here")
    parser.add_argument("--title")
    parser.add_argument("out")
    options = parser.parse_args()
    arrows, out = load_arrows(), os.path.abspath(options.out)
    sys.setrecursionlimit(10000)
    with tempfile.TemporaryDirectory() as folder:
        if options.commit is not None:
            unpack(options.commit, folder)
            sources.ROOT = folder
        table = [room for room, _ in sources.table("tools/dev/arrows.txt")
                 if room.split("/")[0] in HOUSES]
        structure = Structure(arrows, table)
    title = options.title or ("Ambroker at commit " + options.commit if options.commit
                              else "Ambroker: houses and rooms")
    with open(out, "w", encoding="utf-8") as stream:
        stream.write(picture(structure, table, title))


if __name__ == "__main__":
    main()
