#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How plain is the English of comments and pages? Draws sentences by chance and measures them.

    draw-sentences.py [--seed N] [--count 50]     draws, prints each with its place, and judges
    draw-sentences.py --all [PATH ...]            everything against the rules, and a count a file

A sentence has at most 25 words, and its subject is a noun: it does not begin with "What", "Who" or
"Whoever", and neither does a clause in it. A draw passes with one long sentence and none of the
other kind. --ratchet compares the whole tree with tools/dev/prose.txt: a room's count may fall, and
not rise."""
import argparse
import collections
import os
import random
import sys

import prose
import sources

LONG_MAX = 1
TABLE = "tools/dev/prose.txt"


def sentences(paths):
    for name in sources.all_files():
        if not paths or any(name == p or name.startswith(p.rstrip("/") + "/") for p in paths):
            if os.path.splitext(name)[1] in (".c", ".h", ".cpp", ".cc", ".hpp", ".cu", ".md"):
                yield from prose.of_file(name, sources.read(name))


def show(sentence):
    marks = ("L" if sentence.is_long else "-") + ("F" if sentence.is_free else "-")
    text = sentence.text.replace("\ue000", " ").replace("\ue001", ".")
    print(f"{marks} {sentence.words:3} {sentence.name}:{sentence.line}: {text}")


def draw(every, seed, count):
    drawn = random.Random(seed).sample(every, min(count, len(every)))
    for sentence in sorted(drawn, key=lambda s: (s.name, s.line)):
        show(sentence)
    long, free = sum(s.is_long for s in drawn), sum(s.is_free for s in drawn)
    print(f"draw-sentences: seed {seed}, {len(drawn)} of {len(every)} sentences: {long} of more "
          f"than {prose.WORDS_MAX} words, {free} with a free relative clause as a subject")
    return 1 if long > LONG_MAX or free > 0 else 0


def list_all(every):
    counts = collections.Counter()
    for sentence in every:
        if sentence.is_long or sentence.is_free:
            show(sentence)
            counts[sentence.name] += 1
    for name, count in sorted(counts.items(), key=lambda item: (item[1], item[0])):
        print(f"{count:5} {name}")
    long, free = sum(s.is_long for s in every), sum(s.is_free for s in every)
    print(f"draw-sentences: {len(every)} sentences: {long} of more than {prose.WORDS_MAX} words, "
          f"{free} with a free relative clause as a subject")
    return 1 if counts else 0


def room_of(name):
    return os.path.dirname(name) or "."


def ratchet(every):
    limits = {room: int(count) for room, count in sources.table(TABLE)}
    counts, problems, notes = collections.Counter(), [], []
    for sentence in every:
        counts[room_of(sentence.name)] += sentence.is_long or sentence.is_free
    for room in sorted({room_of(s.name) for s in every}):
        limit = limits.get(room, 0)
        if counts[room] > limit:
            problems.append(f"{room}: {counts[room]} sentences are too long or begin with a clause, "
                            f"and {limit} may: draw-sentences.py --all {room}")
        elif counts[room] < limit:
            notes.append(f"{room}: {counts[room]} of {limit}: write that into {TABLE}")
    sources.finish("check-prose", problems, notes)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", help="look at the project that lies there")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--ratchet", action="store_true")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args()
    if options.root is not None:
        sources.ROOT = os.path.abspath(options.root)
    every = list(sentences(options.paths))
    if options.ratchet:
        ratchet(every)
    sys.exit(list_all(every) if options.all else draw(every, options.seed, options.count))


if __name__ == "__main__":
    main()
