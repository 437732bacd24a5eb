#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The workload of Dask-CUDA's local-cudf-merge on host memory: workers partition two tables by key, exchange all to all,
and join what they got. In one process each, with asyncio.

    merge.py BUILD [--peers FOLDER] [--json FILE] [--workers 4] [--rows 500000] [--rounds 5] [--seconds-most 60]
             [--exchanges PATTERN,...]

A table has a key and a value of 64 bits. Each key of the left table is in the right table once, so the join has
as many rows as the left, and its sums are known: both are checked. Exchanges:

  ambroker        a topic for each worker; partitions are written in leased memory and joined where they lie
  ambroker-comm   Dask's Comm over channels (comm.py): its serialization, its frames
  dask-tcp        Dask's own Comm, tcp://
  ucxx-tcp        tags, endpoints from each to each

A round begins when all are ready. Shown are medians: the whole round, and the exchange in it, of the slowest worker.
"""
import argparse
import asyncio
import fnmatch
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run as command  # noqa: E402

EXCHANGES = ("ambroker", "ambroker-comm", "dask-tcp", "ucxx-tcp")
STATE, FIRST = 0, 8  # words of the page: the round that may run; then of each worker the round it has done
PAUSE_SECONDS = 0.0005


# ---- a worker ----

def table(rows, worker, workers, is_left):
    """Its part: keys 0 to workers*rows in some order, spread over all; value = 3 * key, or 5 * key."""
    import numpy  # pylint: disable=import-outside-toplevel
    rng = numpy.random.default_rng(1 if is_left else 2)
    keys = rng.permutation(workers * rows)[worker * rows:(worker + 1) * rows].astype("i8")
    return keys, keys * (3 if is_left else 5)


def partition(keys, values, workers):
    """[(keys, values)] by key modulo workers: one gather for all, and views of it."""
    import numpy  # pylint: disable=import-outside-toplevel
    owner = keys % workers
    order = numpy.argsort(owner, kind="stable")
    ends = numpy.searchsorted(owner[order], range(workers + 1))
    keys, values = keys[order], values[order]
    return [(keys[a:b], values[a:b]) for a, b in zip(ends, ends[1:])]


def join(left, right):
    """(rows, sum of the left values, of the right ones) of the join of lists of (keys, values)."""
    import numpy  # pylint: disable=import-outside-toplevel
    left_keys, left_values = (numpy.concatenate(part) for part in zip(*left))
    right_keys, right_values = (numpy.concatenate(part) for part in zip(*right))
    order = numpy.argsort(right_keys, kind="stable")
    at = numpy.searchsorted(right_keys, left_keys, sorter=order)
    at = order[numpy.minimum(at, len(order) - 1)]
    hit = right_keys[at] == left_keys
    return int(hit.sum()), int(left_values[hit].sum()), int(right_values[at[hit]].sum())


def expected(rows, worker, workers):
    keys = sum(range(worker, rows * workers, workers))
    return len(range(worker, rows * workers, workers)), 3 * keys, 5 * keys


async def work(spec):
    import numpy  # pylint: disable=import-outside-toplevel

    import exchanges  # pylint: disable=import-outside-toplevel
    page = numpy.memmap(spec["page"], "u8", "r+")
    me, workers, rows = spec["worker"], spec["workers"], spec["rows"]
    parts = [table(rows, me, workers, is_left) for is_left in (True, False)]
    exchange = exchanges.make(spec)
    await exchange.open()
    times, wrong = [], 0
    for number in range(1, spec["rounds"] + 1):
        page[FIRST + me] = number
        while page[STATE] < number:
            await asyncio.sleep(PAUSE_SECONDS)
        begin = time.perf_counter()
        out = [partition(*part, workers) for part in parts]
        split = time.perf_counter()
        got = await exchange.swap(out)  # [left pairs, right pairs]
        swapped = time.perf_counter()
        wrong += join(*got) != expected(rows, me, workers)
        del got
        times.append((time.perf_counter() - begin, swapped - split))
    pathlib.Path(spec["answer"]).write_text(json.dumps({"times": times, "wrong": wrong}), encoding="utf-8")
    page[FIRST + me] = spec["rounds"] + 1
    while page[STATE] <= spec["rounds"]:
        await asyncio.sleep(0.01)  # Nobody leaves while others may still read.
    os._exit(0)  # pylint: disable=protected-access


# ---- all of them ----

def measure(options, args, exchange, folder):
    """The figures of one exchange."""
    import driver  # pylint: disable=import-outside-toplevel
    import gauge  # pylint: disable=import-outside-toplevel
    import numpy  # pylint: disable=import-outside-toplevel

    import exchanges  # pylint: disable=import-outside-toplevel
    path = folder / "page"
    page = numpy.memmap(path, "u8", "w+", shape=(FIRST + args.workers,))
    with exchanges.server(exchange, folder, options) as (address, servers):
        processes = []
        try:
            for worker in range(args.workers):
                spec = {"exchange": exchange, "worker": worker, "workers": args.workers, "rows": args.rows,
                        "rounds": args.rounds, "page": str(path), "folder": str(folder), "address": address,
                        "answer": str(folder / f"worker{worker}.json")}
                with open(folder / f"worker{worker}.log", "wb") as log:
                    processes.append(subprocess.Popen(
                        [sys.executable, str(HERE / "merge.py"), "--worker", json.dumps(spec)],
                        stdin=subprocess.DEVNULL, stdout=log, stderr=log))
            deadline = time.monotonic() + args.seconds_most
            pids = [process.pid for process in processes] + servers
            for number in range(1, args.rounds + 2):
                while int(page[FIRST:].min()) < number:
                    for worker, process in enumerate(processes):
                        if process.poll() is not None:
                            words = (folder / f"worker{worker}.log").read_text(encoding="utf-8", errors="replace")
                            raise driver.Failed(f"worker {worker}: {words.strip()[-300:]}")
                    if time.monotonic() > deadline:
                        raise driver.Failed(f"round {number - 1} has not ended: {list(map(int, page))}")
                    time.sleep(PAUSE_SECONDS)
                if number == 1:
                    before = [gauge.cpu_seconds(pid) for pid in pids]
                page[STATE] = number
            cpu = [gauge.cpu_seconds(pid) - then for pid, then in zip(pids, before)]
            rss = [gauge.peak_mib(pid) for pid in pids]
            answers = [json.loads((folder / f"worker{i}.json").read_text(encoding="utf-8"))
                       for i in range(args.workers)]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    slowest = [max(answer["times"][number] for answer in answers) for number in range(args.rounds)]
    swaps = [max(answer["times"][number][1] for answer in answers) for number in range(args.rounds)]
    return {"exchange": exchange, "round_ms": round(1e3 * statistics.median(one[0] for one in slowest), 2),
            "exchange_ms": round(1e3 * statistics.median(swaps), 2), "wrong": sum(one["wrong"] for one in answers),
            "mb": args.rows * args.workers * 32 / 1e6,
            "cpu_s": round(sum(cpu), 2), "server_cpu_s": round(sum(cpu[args.workers:]), 2), "rss_mib": max(rss)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, nargs="?")
    parser.add_argument("--peers", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds-most", type=float, default=60)
    parser.add_argument("--exchanges", default="*")
    parser.add_argument("--worker", type=json.loads)
    args = parser.parse_args()
    if args.worker:
        asyncio.run(work(args.worker))
        return 0
    if args.build is None:
        parser.error("BUILD is missing")
    command.with_peers(args, HERE / "merge.py")
    import driver  # pylint: disable=import-outside-toplevel
    args.seconds = args.keep = None
    options, rows = driver.Options(args), []
    for exchange in EXCHANGES:
        if not any(fnmatch.fnmatch(exchange, one) for one in args.exchanges.split(",")):
            continue
        with tempfile.TemporaryDirectory(prefix="amb-merge-") as folder:
            try:
                rows.append(measure(options, args, exchange, pathlib.Path(folder)))
            except (driver.Failed, ImportError, OSError) as error:
                rows.append({"exchange": exchange, "not run": f"{type(error).__name__}: {error}"})
        print(rows[-1], flush=True)
    if args.json:
        said = {"machine": driver.machine(), "versions": driver.versions(options), "workers": args.workers,
                "rows": args.rows, "rounds": args.rounds, "merge": rows}
        args.json.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    return int(any(row.get("wrong") or ("not run" in row and row["exchange"].startswith("ambroker")) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
