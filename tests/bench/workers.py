#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers: throughput and cost with 1 to 16 of them, publishers and topics spread, beside NATS.

    workers.py BUILD [--workers 1,2,4,8,16] [--pairs 8] [--sizes 64,1024,65536] [--rounds 3]
               [--seconds 0.5] [--systems ambroker,ambroker-tcp,nats] [--place apart,near]
               [--brokerd FILE] [--option KEY=VALUE]... [--runs FILE]
    workers.py --table FILE

--pairs publishers each have a topic of their own with one subscriber; each is a process
(BUILD's acks-bench), and every byte of every message is compared. All publish at the same time.
Sessions are placed by number, so that the order of connecting decides where they are:

  apart  subscriber, publisher, subscriber, ...: with two workers and more, no pair is on one worker
  near   an idle client connects in between, so that with two workers each pair is on one

In a round each number of workers and each system takes its turn; NATS, whose threads are its own
affair, has one turn. Printed are medians: the sum of all pairs' rates, processor time of the server
a message, and for Ambroker what other machines than this one would show as well, counted by the
broker: mail between threads, sleeps that a mail ended, and all sleeps, a thousand messages.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import acks

OURS = acks.OURS


class Server(acks.Server):
    """As there, with so many workers."""

    def __init__(self, system, options, workers):
        self.options, self.workers = options, workers
        super().__init__(system, options.build)

    def ours(self, command):
        command[0] = self.options.brokerd or command[0]
        for option in (f"server.workers={self.workers}", *self.options.option):
            command += ["-o", option]
        return command

    def ambroker(self, build):
        command = self.ours(super().ambroker(build))
        self.ctl = self.address
        return command

    def ambroker_tcp(self, build):
        self.ctl = f"unix://{self.path}/ctl"
        return self.ours(super().ambroker_tcp(build)) + ["--listen", self.ctl]

    def rows(self):
        out = subprocess.run([f"{self.options.build}/tools/broker-ctl", "workers", "-o", "json",
                              "--url", self.ctl], capture_output=True, text=True, check=True,
                             timeout=20).stdout
        return json.loads(out)["workers"]

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Pair:
    """A publisher and its subscriber."""

    def __init__(self, server, system, options, size, number, place):
        command = [f"{options.build}/tests/acks-bench", "ambroker" if system in OURS else system,
                   "--address", server.address, "--pid", str(server.process.pid), "--size",
                   str(size), "--seconds", str(options.seconds), "--topic", f"bench.{number}",
                   "--steps"]
        self.idle = None
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, preexec_fn=acks.end_with_parent)
        self.expect("consumers")
        if place == "near" and system in OURS:
            self.idle = subprocess.Popen(
                [f"{options.build}/tools/broker-ctl", "reply", f"idle.{number}", "--url",
                 server.address], stderr=subprocess.PIPE, text=True,
                preexec_fn=acks.end_with_parent)
            self.idle.stderr.readline()  # "ready"
        self.go()
        self.expect("ready")

    def expect(self, word):
        line = self.process.stdout.readline().strip()
        if line != word:
            raise SystemExit(f"acks-bench said {line!r} and not {word!r}")

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def result(self):
        got = json.loads(self.process.stdout.read())
        self.process.wait()
        return got

    def end(self):
        for process in (self.process, self.idle):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


def run(options, system, workers, size, place):
    pairs = []
    with Server(system, options, workers) as server:
        try:
            for number in range(options.pairs):
                pairs.append(Pair(server, system, options, size, number, place))
            before, cpu = server.rows() if system in OURS else [], server.cpu_s()
            for pair in pairs:
                pair.go()
            results = [pair.result() for pair in pairs]
            cpu = server.cpu_s() - cpu
            after = server.rows() if system in OURS else []
        finally:
            for pair in pairs:
                pair.end()
    taken = sum(result["taken"] for result in results)
    got = {"system": system, "workers": workers, "size": size, "place": place,
           "pairs": options.pairs,
           "status": "ok" if all(result["status"] == "ok" for result in results) else "wrong",
           "msgs_per_s": sum(result["msgs_per_s"] for result in results),
           "mb_per_s": sum(result["mb_per_s"] for result in results),
           "cpu_us": cpu * 1e6 / taken}
    for name in ("mails", "bells", "sleeps", "turns"):
        if after and name in after[0]:
            moved = sum(row[name] for row in after) - sum(row[name] for row in before)
            got[name] = moved * 1000 / taken
    if after:
        shares = [new["messages_in"] - old["messages_in"] for new, old in zip(after, before)]
        got["share_most"] = max(shares) * len(shares) / max(sum(shares), 1)
    return got


def measure(options):
    runs = []
    for number in range(options.rounds):
        for size in map(int, options.sizes.split(",")):
            for place in options.place.split(","):
                for system in options.systems.split(","):
                    for workers in map(int, options.workers.split(",")):
                        if not acks.has_server(system):
                            break
                        got = run(options, system, workers if system in OURS else 0, size, place)
                        print(f"{number + 1} {size:6} {place:6} {system:13} {workers:3}"
                              f" {got['status']} {got['msgs_per_s']:12,.0f}/s"
                              f" {got['cpu_us']:.3f} us", flush=True)
                        runs.append(got)
                        if options.runs:
                            with open(options.runs, "a", encoding="utf-8") as file:
                                file.write(json.dumps(got) + "\n")
                        if system not in OURS:
                            break
    return runs


def print_table(runs):
    groups = {}
    for got in runs:
        if got["status"] == "ok":
            key = (got["size"], got["system"], got["place"], got["workers"])
            groups.setdefault(key, []).append(got)
    print("\n| bytes | system | place | workers | messages/s | MB/s | server, us a message |"
          " mail | bells | sleeps | runs |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for (size, system, place, workers), group in sorted(groups.items()):
        def median(name):
            values = [got[name] for got in group if name in got]
            return f"{statistics.median(values):.3g}" if values else "-"
        rate = statistics.median(got["msgs_per_s"] for got in group)
        print(f"| {size} | {system} | {place if system in OURS else '-'} |"
              f" {workers if system in OURS else '-'} | {acks.short(rate)} | {median('mb_per_s')} |"
              f" {median('cpu_us')} | {median('mails')} | {median('bells')} | {median('sleeps')} |"
              f" {len(group)} |")
    wrong = sum(got["status"] != "ok" for got in runs)
    print(f"\n{len(runs)} runs, {wrong} of them wrong")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("build", nargs="?", type=pathlib.Path)
    parser.add_argument("--workers", default="1,2,4,8,16")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--sizes", default="64,1024,65536")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--systems", default="ambroker,ambroker-tcp,nats")
    parser.add_argument("--place", default="apart")
    parser.add_argument("--brokerd")
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--runs")
    parser.add_argument("--table", type=pathlib.Path)
    options = parser.parse_args()
    if options.table:
        runs = [json.loads(line) for line in options.table.read_text().splitlines()]
    else:
        options.build = options.build.resolve()
        runs = measure(options)
    return 1 if print_table(runs) else 0


if __name__ == "__main__":
    sys.exit(main())
