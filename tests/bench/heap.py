#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What brokerd's heap costs where it works most, the control plane: many clients and topics that
come, go and come again. One broker for each heap in turn, so that a noisy machine hurts all alike.

    heap.py BUILD [--brokerd NAME=FILE]... [--clients 10000] [--topics 100000] [--rounds 3]

BUILD has heap-bench. Each FILE is a brokerd; `-DAMB_JEMALLOC=OFF` builds one with the system's
malloc. In each of three turns half of the clients and all topics go, and others come whose names
have another length. Figures are medians over the rounds: anonymous memory that the broker has in
MiB (segments are not among it), seconds of the whole load, seconds of the broker's processors.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

TURNS = 3


def anonymous_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return 0


def cpu_seconds(pid):
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


class Load:
    def __init__(self, build, port):
        self.process = subprocess.Popen([f"{build}/tests/heap-bench", port], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tell(self, command):
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        if len(words) != 2 or words[0] != "done":
            raise SystemExit(f"heap-bench: {command}: {words}")
        return float(words[1])


def start(brokerd, folder, settings):
    """A broker with KEY=VALUE settings, as unix://FOLDER/s, and its TCP port; its log is FOLDER/log."""
    command = [brokerd, "--dev", "--listen", f"unix://{folder}/s", "--listen", "tcp://127.0.0.1:0"]
    for setting in settings:
        command += ["-o", setting]
    with open(f"{folder}/log", "w", encoding="utf-8") as log:
        broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    ready = broker.stdout.readline()
    if not ready.startswith("ready"):
        broker.terminate()
        raise SystemExit(pathlib.Path(f"{folder}/log").read_text())
    return broker, next(word for word in ready.split() if word.startswith("tcp:")).rsplit(":", 1)[1]


def settled(pid):
    """When the broker has done what it was left, and its heap has given back what it will."""
    time.sleep(3)  # longer than a topic may be idle
    before = -1
    while cpu_seconds(pid) - before > 0.05:
        before = cpu_seconds(pid)
        time.sleep(2)
    return anonymous_mib(pid)


def measure(options, brokerd):
    with tempfile.TemporaryDirectory(prefix="amb-heap-") as folder:
        broker, port = start(brokerd, folder, [
            "limits.peer_timeout=1h", "limits.heartbeat=10m", "server.handshake_timeout=1m", "limits.topic_idle=1s",
            "limits.max_topics=300000", f"server.max_connections={options.clients + options.topics // 250 + 20}"])
        try:
            load = Load(options.build, port)
            row = {"empty": anonymous_mib(broker.pid)}
            cpu, seconds = cpu_seconds(broker.pid), load.tell(f"connect {options.clients}")
            seconds += load.tell(f"topics {options.topics} first")
            row["full"] = settled(broker.pid)
            held = len(list(pathlib.Path(f"/proc/{broker.pid}/fd").iterdir()))
            if held < options.clients:
                raise SystemExit(f"the broker has {held} descriptors: clients have gone")
            for turn in range(TURNS):
                seconds += load.tell("leave 2") + load.tell("close")
                settled(broker.pid)
                seconds += load.tell(f"connect {options.clients // 2}")
                seconds += load.tell(f"topics {options.topics} {'x' * (30 * (turn + 1))}")
            row["full again"] = settled(broker.pid)
            seconds += load.tell("leave 1") + load.tell("close")
            row["all gone"] = settled(broker.pid)
            row["seconds"] = seconds
            row["broker CPU s"] = cpu_seconds(broker.pid) - cpu
            load.process.stdin.close()
            load.process.wait(20)
            return row
        finally:
            broker.terminate()
            broker.wait(60)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--brokerd", action="append", default=[])
    parser.add_argument("--clients", type=int, default=10000)
    parser.add_argument("--topics", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    heaps = dict(one.split("=", 1) for one in options.brokerd)
    heaps = heaps or {"this": f"{options.build}/broker/brokerd"}
    rows = {name: [] for name in heaps}
    for _ in range(options.rounds):
        for name, brokerd in heaps.items():
            rows[name].append(measure(options, brokerd))
            print(name, rows[name][-1], file=sys.stderr, flush=True)
    columns = list(next(iter(rows.values()))[0])
    print("| heap | " + " | ".join(columns) + " |\n|---" + "|---" * len(columns) + "|")
    for name, some in rows.items():
        medians = [statistics.median(row[column] for row in some) for column in columns]
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in medians) + " |")


if __name__ == "__main__":
    main()
