#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a reader costs that has nothing to read: at most a thousandth of a core, synchronous and asyncio.

    idle.py [--build DIR] [--package DIR] [--seconds S] [--limit PERCENT]

Exit: 0 so it is, 1 it is not, 77 no package."""
import sys
import time

import program

SYNCHRONOUS = """
import sys
import ambroker
with ambroker.connect(sys.argv[1]) as conn:
    sub = conn.subscribe("nothing")
    print("ready")
    sub.next()
"""
ASYNCIO = """
import asyncio, sys
import ambroker.aio
async def main():
    async with ambroker.aio.connect(sys.argv[1]) as conn:
        sub = await conn.subscribe("nothing")
        print("ready")
        await sub.next()
asyncio.run(main())
"""
SETTLE = 2.0  # What a start leaves to be done, and the first second, which has shorter slices.


def main():
    given = program.options(__doc__, seconds=30.0, limit=0.1)
    readers = {"synchronous": SYNCHRONOUS}
    if program.module(given) and program.module(given, "ambroker.aio"):
        readers["asyncio"] = ASYNCIO
    costs = {}
    with program.rig(given, given.seconds + 120) as rig:
        url = rig.broker().url()
        children = {name: program.python(given, rig, text, url) for name, text in readers.items()}
        for child in children.values():
            child.expect("ready")
        time.sleep(SETTLE)
        began = time.monotonic()
        before = {name: child.cpu_seconds() for name, child in children.items()}
        time.sleep(given.seconds)
        elapsed = time.monotonic() - began
        for name, child in children.items():
            costs[name] = 100 * (child.cpu_seconds() - before[name]) / elapsed
            child.kill()
    for name, percent in costs.items():
        print(f"{name}: {percent:.3f} % of a core over {elapsed:.0f} s")
    if "asyncio" not in costs:
        print("asyncio: the package has none")
    if max(costs.values()) > given.limit:
        sys.exit(f"idle: at most {given.limit} % are promised")


if __name__ == "__main__":
    main()
