#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Did a change make a cell of the target table slower? Two builds in turn, pair by pair.

    pairs.py OLD/peerbench NEW/peerbench [--pairs 5] [--seconds 0.6] [--cells PATTERN,...]
             [--json FILE]

OLD and NEW are what tests/bench/peerbench/build.sh makes of two builds. Of each cell of target.py
only Ambroker's own run is made: once with each build, in changing order, as often as --pairs says.
Printed: the median of the pairs' ratios, new to old, so that above 1 is better in every row; and how
far the middle half of the pairs lies apart. `slower` marks a median below 0.97 whose middle half
does not reach 1: a difference that the noise of the machine does not explain.
"""
import argparse
import fnmatch
import json
import os
import statistics
import subprocess
import sys

from target import OTHERS_MAX, cells

SLOWER = 0.97
WRONG = ("lost", "gaps", "disorder", "corrupt", "unanswered")


def run(program, cell, seconds):
    """The cell's figure, or None; and what was wrong."""
    command = [program, cell.ours, *cell.run, "--json"]
    if "--seconds" not in cell.run:
        command += ["--seconds", str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False,
                              env={**os.environ, **cell.env})
        result = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        print(f"{cell.name}: {type(error).__name__}", file=sys.stderr)
        return None, 0, False
    wrong = sum(result.get(key, 0) for key in WRONG)
    return result.get(cell.key), wrong, result.get("others", 0) <= OTHERS_MAX


def pair(cell, options, turn):
    """New to old, above 1 is better; None if either failed."""
    programs = [options.old, options.new]
    values = [None, None]
    clean = True
    for i in ((0, 1) if turn % 2 == 0 else (1, 0)):
        values[i], wrong, is_clean = run(programs[i], cell, options.seconds)
        clean = clean and is_clean
        if wrong:
            print(f"{cell.name}: {programs[i]}: {wrong} wrong", file=sys.stderr)
            return None, False
    if not values[0] or not values[1]:
        return None, False
    ratio = values[1] / values[0]
    return (ratio if cell.op == ">=" else 1 / ratio), clean


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--cells", default="*")
    parser.add_argument("--json")
    options = parser.parse_args()
    patterns = options.cells.split(",")
    chosen, seen = [], set()
    for cell in cells():
        same = (cell.ours, cell.run, cell.key, tuple(cell.env.items()))
        if same not in seen and any(fnmatch.fnmatch(cell.name, p) for p in patterns):
            seen.add(same)
            chosen.append(cell)
    ratios = {cell.name: [] for cell in chosen}
    for turn in range(options.pairs):
        for cell in chosen:
            ratio, clean = pair(cell, options, turn)
            if ratio is not None:
                ratios[cell.name].append((ratio, clean))
    rows = []
    print("| cell | pairs | new to old | middle half | |\n|---|---|---|---|---|")
    for name, found in ratios.items():
        values = [r for r, clean in found if clean] or [r for r, _ in found]
        if not values:
            rows.append({"cell": name, "pairs": 0})
            print(f"| {name} | 0 | - | - | failed |")
            continue
        median = statistics.median(values)
        low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else [median] * 3
        is_slower = median < SLOWER and high < 1
        rows.append({"cell": name, "pairs": len(values), "ratio": median, "low": low, "high": high,
                     "slower": is_slower})
        print(f"| {name} | {len(values)} | {median:.3f} | {low:.2f} to {high:.2f} | "
              f"{'slower' if is_slower else ''} |", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)
    sys.exit(1 if any(row.get("slower") or not row["pairs"] for row in rows) else 0)


if __name__ == "__main__":
    main()
