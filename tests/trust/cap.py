#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory keeps to its cap while twice as much is offered as is read.

    cap.py BUILD [--time SECONDS] [--topics N]

The kernel caps the broker's memory at memory.host.size and 64 MiB (cgroup v1, as root; else nobody caps it,
and the line says so). Publishers of 1 KiB to 16 MiB over TLS, tcp and the ring publish as fast as they may.
What their readers read freely is what is offered. Most of the time these are stopped (SIGSTOP), so that they
read less than half of it. N topics (100) keep history, as much again as there is memory. Nobody is killed,
no reader that blocks loses anything, and new clients get in.
"""
import atexit
import itertools
import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from encrypted import Encrypted, made
from harness import SKIPPED, check, main, patience, until
from policies_test import Watch

MIB = 1 << 20
HOST = 256 * MIB
BESIDE = 64 * MIB
SIZES = {"1k": 1 << 10, "64k": 64 << 10, "1m": MIB, "16m": 16 * MIB}
FREE_S = 0.5
# In turn: at most half of what the publishers could send is read. A turn reads what the windows hold, however slow
# this machine is, so that a stop is longer on a slow one.
STOPPED_S, RUNS_S = 0.8, 0.1
ENDS = (0, 75)  # stopped by a signal, as a publisher says
GROUPS = pathlib.Path("/sys/fs/cgroup/memory")


class Group:
    """Of processes whose memory is capped; None of its files where this cannot be had."""

    def __init__(self, limit):
        self.path = GROUPS / f"amb-cap-{os.getpid()}"
        try:
            self.path.mkdir()
            (self.path / "memory.limit_in_bytes").write_text(str(limit))
            self.prefix = ("sh", "-c", f'echo $$ >{self.path}/cgroup.procs && exec "$@"', "sh")
        except OSError:
            self.path, self.prefix = None, ()

    def most(self):
        return int((self.path / "memory.max_usage_in_bytes").read_text()) if self.path else 0

    def killed(self):
        text = (self.path / "memory.oom_control").read_text() if self.path else ""
        return int(dict(line.split() for line in text.splitlines()).get("oom_kill", 0)) > 0

    def remove(self):
        """Once its last process is gone for good."""
        until(10, lambda: self.path is None or self._is_removed(), "the group of processes goes")

    def _is_removed(self):
        try:
            self.path.rmdir()
        except OSError:
            return False
        return True


class Load:
    """A publisher and a reader of each size, on the links in turn."""

    def __init__(self, rig, broker):
        urls = itertools.cycle((f"{broker.url}?link=stream", f"{broker.broker.tcp_url}?link=stream",
                                broker.broker.unix_url))
        self.readers, self.writers = [], []
        for number, (name, size) in enumerate(itertools.product(("a", "b"), SIZES.items())):
            topic, size = f"cap.{name}.{size[0]}", size[1]
            self.readers.append(rig.client("broker-ctl", "--url", next(urls), "-o", "json", "sub", topic,
                                           "--stats", "--policy", "block", "--slow-block", "10m", env=broker.env))
            if number % 2 == 0:
                next(urls)  # not the link of its reader
            self.writers.append(rig.client("broker-ctl", "--url", next(urls), "-o", "json", "pub", topic,
                                           "--size", size, "--count", 1 << 40, "--stats",
                                           "--wait-subscribers", 1, env=broker.env))
        until(30, lambda: len(broker.broker.ask("subs")) >= len(self.readers), "they read")

    def signal_readers(self, number):
        for reader in self.readers:
            reader.signal(number)

    @staticmethod
    def run_freely(broker, seconds):
        """Bytes a second."""
        begin, before = time.monotonic(), published(broker)
        time.sleep(seconds)
        return (published(broker) - before) / (time.monotonic() - begin)

    def run(self, broker, seconds):
        """Bytes a second with readers that are stopped most of the time."""
        begin, before = time.monotonic(), published(broker)
        while time.monotonic() < begin + seconds:
            self.signal_readers(signal.SIGSTOP)
            time.sleep(patience(STOPPED_S))
            self.signal_readers(signal.SIGCONT)
            time.sleep(RUNS_S)
            broker.broker.check_alive()
        return (published(broker) - before) / (time.monotonic() - begin)

    def end(self, broker):
        """What publishers have sent and readers have, once all is over."""
        self.signal_readers(signal.SIGCONT)
        sent = [finish(process) for process in self.writers]
        until(60, lambda: all(row["pending_bytes"] == 0 and row["outstanding"] == 0
                              for row in broker.broker.ask("subs")), "all is read")
        return sent, [finish(process) for process in self.readers]


def published(broker):
    return sum(row.get("bytes_in", 0) for row in broker.broker.ask("clients"))


def finish(process):
    process.signal(signal.SIGTERM)
    lines = process.all_lines(60)
    check(process.wait(60) in ENDS, f"{process.name}: {lines} {process.log()}")
    return json.loads("".join(lines))


def keep_history(broker, topics):
    """As much as all memory, in so many topics; a program a topic."""
    size = HOST // topics
    for number in range(topics):
        status, _, text = broker.ctl("pub", f"kept.{number}", "--count", 2, "--size", size // 2, "--timeout", 60,
                                     seconds=90, url=broker.broker.unix_url)
        check(status in (0, 65, 69, 75), f"kept.{number}: {status} {text}")
        yield status == 0


def test(rig, options):
    if rig.is_sanitized():  # then memory is a multiple
        sys.exit(SKIPPED)
    seconds, topics = float(options.get("time", 6)), int(options.get("topics", 100))
    group = Group(HOST + BESIDE)
    atexit.register(group.remove)
    broker = Encrypted(
        rig, made(rig), "-o", f"memory.host.size={HOST // MIB}M", "-o", "memory.host.segment=32M", "-o",
        "server.max_message=16M", "-o", "server.workers=2", "-o", "log.level=warn", "-o", "transports.trusted=[]",
        "-o", 'topics=( { match = "kept.>"; retain = { messages = 10; }; } )', prefix=group.prefix)
    broker.broker.ask("status")
    begin = time.monotonic()
    load, watch = Load(rig, broker), Watch(broker.broker)
    kept = keep_history(broker, topics)
    taken, free, stopped, turn = 0, [], [], min(2, seconds / 5)
    while time.monotonic() < begin + seconds or taken < topics:
        taken += sum(1 for _ in itertools.islice(kept, topics // 5))
        free.append(load.run_freely(broker, FREE_S))
        stopped.append(load.run(broker, turn))
        broker.works()
        check(time.monotonic() < begin + 10 * seconds + 60, f"{taken} of {topics} topics in time")
    sent, read = load.end(broker)
    watch.is_over = True
    for out, into in zip(sent, read):
        is_whole = into["lost"] == 0 and out["settled"] <= into["messages"] <= out["messages"]
        check(is_whole and into["messages"] > 0 and out["failed"] == 0, f"sent {out}, and read {into}")
    until(30, lambda: len(broker.broker.clients()) == 0, "they have gone")
    cap = "capped by the kernel" if group.path else "capped by nobody"
    check(not group.killed(), "the kernel has killed")
    check(watch.most <= HOST * 1.05 + BESIDE, f"{watch.most // MIB} MiB")
    rows = broker.broker.ask("memory")
    check(sum(row["segment_bytes"] for row in rows) <= HOST, f"{rows}")
    slow, free = sum(stopped) / len(stopped), sum(free) / len(free)
    check(slow < free / 2, f"{slow / MIB:.0f} MiB/s are read of {free / MIB:.0f}: that is no overload")
    print(f"{len(stopped)} times {turn:.1f} s, {topics} topics, {sum(r['messages'] for r in read)} "
          f"messages, 0 lost; {free / MIB:.0f} MiB/s read freely, {slow / MIB:.0f} MiB/s by "
          f"readers that are stopped most of the time; most memory {watch.most // MIB} MiB (smaps), "
          f"{group.most() // MIB} MiB (cgroup), of {(HOST + BESIDE) // MIB}, {cap}", flush=True)
    broker.broker.stop(60)


if __name__ == "__main__":
    main(test, 1800, observers=())
