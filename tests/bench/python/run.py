#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ambroker's Python package beside other systems' Python clients: one harness, Python at both ends.

    run.py BUILD [--peers FOLDER] [--json FILE] [--add] [--rounds 1] [--seconds 1] [--cells PATTERN,...]
           [--systems PATTERN,...] [--keep FOLDER] [--list] [--table FILE]

BUILD has the package, brokerd and broker-bench. FOLDER is what install.sh made; without it the interpreter at hand
is taken with what it has. A system that is not here has a row that says so.

  pubsub     a writer and 1 or 8 readers, each a process. Every byte of 64 KiB and more is written and read; a message of
             64 B is compared with the one that is due. The writer stays within 16 MiB of the slowest reader.
  latency    half of a round trip
  send_recv  the same as two ends of ucxx.benchmarks.send_recv have it: an array there and back, into memory of their own
  face       pubsub by broker-bench, in C

A cell is WORKLOAD.SIZE.READERS.FORM.WAY: the form is sync or aio; the ways are call (a call a message), many (a call
for 512 of them) and lease (written in place). --cells and --systems take shell patterns. In a round all systems of
a cell take their turn before the next cell begins. Figures are medians of the rounds that had the least work of others
beside them; loss and damage are the worst of all. FILE is written anew after each run; --add takes the rows that it
has for rounds, too. --table FILE only shows the target table of such a file.

Each row has CPU seconds of each process, its peak of memory, the share of time in which its GIL is held, and `others`:
the share of the machine that other programs took. Exit status 1: something was lost, damaged or out of order, or one
of ours failed.
"""
import argparse
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import table  # noqa: E402
from cells import cells, name_of  # noqa: E402


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, nargs="?")
    parser.add_argument("--peers", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--cells", default="*")
    parser.add_argument("--systems", default="*")
    parser.add_argument("--keep")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", type=pathlib.Path)
    args = parser.parse_args()
    if args.build is None and not args.list and args.table is None:
        parser.error("BUILD is missing")
    return args


def with_peers(args, program=HERE / "run.py"):
    """Begins anew in the peers' interpreter, with the build's package."""
    wanted = args.peers / "bin/python" if args.peers else pathlib.Path(sys.executable)
    package = str(args.build.resolve() / "python")
    if os.environ.get("AMB_PYBENCH") != package:
        os.environ.update(AMB_PYBENCH=package, PYTHONPATH=package)
        os.execv(str(wanted), [str(wanted), str(program), *sys.argv[1:]])


def main():
    args = parse()
    if args.list:
        print("\n".join(name_of(cell) for cell in cells()))
        return 0
    if args.table:
        print(table.text(json.loads(args.table.read_text(encoding="utf-8"))["rows"]))
        return 0
    with_peers(args)
    import driver  # pylint: disable=import-outside-toplevel
    return driver.measure_and_show(args)


if __name__ == "__main__":
    sys.exit(main())
