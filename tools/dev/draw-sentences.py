#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How plain is the English of comments and pages? Draws sentences by chance and measures them.

    draw-sentences.py [--seed N] [--count 50]     draws, prints each with its place, and judges
    draw-sentences.py --all [PATH ...]            everything against the rules, and a count a file

A sentence has at most 25 words, and its subject is a noun: it does not begin with "What", "Who" or
"Whoever", and neither does a clause in it. A draw passes with one long sentence and none of the
other kind; --all, which is a test, with none at all."""
import argparse
import collections
import random
import sys

import prose
import sources

LONG_MAX = 1


def sentences(paths):
    for name in sources.all_files():
        if not paths or any(name == p or name.startswith(p.rstrip("/") + "/") for p in paths):
            yield from prose.of_file(name)


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("paths", nargs="*")
    options = sources.options(parser)
    every = list(sentences(options.paths))
    sys.exit(list_all(every) if options.all else draw(every, options.seed, options.count))


if __name__ == "__main__":
    main()
