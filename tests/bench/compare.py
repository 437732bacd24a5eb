#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ambroker beside other brokers, in the same rounds on the same machine.

    tests/bench/compare.py BUILD [--peerbench PROGRAM] [--rounds 3] [--seconds 0.8]
                           [--sizes 64,1k,64k,1m,64m] [--json FILE]

PROGRAM speaks like broker-bench ("PEER WORKLOAD --size S --seconds T --json" gives one object with
msgs_per_s or p50_us). Each round runs every cell once, ours and theirs in turn, so a machine that
changes its speed changes it for all. Shown: the median over the rounds, and how much of the machine
others took meanwhile.
"""
import argparse
import json
import statistics
import subprocess
import sys

LINKS = ["ring", "stream", "ucx"]
LOCAL_PEERS = ["zmq-ipc"]
TCP_PEERS = ["zmq"]


def run(command, timeout=120):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        return json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        print(f"{' '.join(command)}: {error}", file=sys.stderr)
        return {"status": "failed"}


def cell(args, who, workload, size):
    if who in LINKS:
        command = [f"{args.build}/tools/broker-bench", workload, "--brokerd",
                   f"{args.build}/broker/brokerd", "--link", who, "--size", size,
                   "--seconds", str(args.seconds), "-o", "json"]
    else:
        command = [args.peerbench, who, workload, "--size", size, "--seconds", str(args.seconds),
                   "--json"]
    return run(command)


def median(values):
    return statistics.median(values) if values else float("nan")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--peerbench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.8)
    parser.add_argument("--sizes", default="64,1k,64k,1m,64m")
    parser.add_argument("--json")
    args = parser.parse_args()
    peers = LOCAL_PEERS + TCP_PEERS if args.peerbench else []
    results = {}
    for turn in range(args.rounds):
        for size in args.sizes.split(","):
            for who in LINKS + peers:
                for workload in ("throughput", "latency"):
                    if workload == "latency" and size == "64m":
                        continue
                    got = cell(args, who, workload, size)
                    results.setdefault((workload, size, who), []).append(got)
        print(f"round {turn + 1} of {args.rounds} done", file=sys.stderr)
    rows = []
    for (workload, size, who), runs in results.items():
        good = [r for r in runs if r.get("status") == "ok"]
        row = {"workload": workload, "size": size, "who": who, "runs": len(good),
               "others": median([r.get("others", 0) for r in good])}
        for key in ("msgs_per_s", "mb_per_s", "p50_us", "p99_us", "broker_cpu_s_per_mmsg",
                    "broker_cpu_s_per_gb"):
            values = [r[key] for r in good if key in r]
            if values:
                row[key] = median(values)
        row["wrong"] = sum(r.get("lost", 0) + r.get("corrupt", 0) + r.get("gaps", 0) for r in good)
        rows.append(row)
    table(rows, args.sizes.split(","), peers)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)
            out.write("\n")


def table(rows, sizes, peers):
    value = {(r["workload"], r["size"], r["who"]): r for r in rows}
    for workload, key, unit in (("throughput", "msgs_per_s", "messages/s"),
                                ("throughput", "mb_per_s", "MB/s"),
                                ("latency", "p50_us", "one way, us, p50 / p99"),
                                ("throughput", "broker_cpu_s_per_gb", "broker CPU, s/GB")):
        print(f"\n{unit}\n| who | " + " | ".join(sizes) + " |\n|---" * 1 + "|---" * len(sizes) + "|")
        for who in LINKS + peers:
            cells = []
            for size in sizes:
                row = value.get((workload, size, who), {})
                if key not in row:
                    cells.append("-")
                elif key == "p50_us":
                    cells.append(f"{row['p50_us']:.1f} / {row['p99_us']:.0f}")
                else:
                    cells.append(f"{row[key]:.3g}" if row[key] < 1000 else f"{row[key]:,.0f}")
            print(f"| {who} | " + " | ".join(cells) + " |")
    for who, against in (("ring", "zmq-ipc"), ("stream", "zmq")):
        ours = value.get(("throughput", "64", who), {}).get("msgs_per_s")
        theirs = value.get(("throughput", "64", against), {}).get("msgs_per_s")
        if ours and theirs:
            print(f"\n64 B: {who} / {against} = {ours / theirs:.1f}")


if __name__ == "__main__":
    main()
