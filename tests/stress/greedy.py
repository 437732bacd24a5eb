#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that take whatever they can get, all at once, beside honest pairs that notice nothing.

    greedy.py BUILD [--seconds-each N] [--rounds N] [--pairs N] [--rate N] [--late-ms N]
              [--only ATTACK] [--broker "OPTION ..."] [--observers 0]

A round is a run without the greedy clients and one with them, each with a broker of its own. The
greedy clients are the attacks with `.is_greedy` in tests/support/hostile/, each in a process of
its own that begins again when the broker has ended it; they run at the lowest priority, so that what is
measured is the broker and not the machine's scheduler.

Judged: no honest message is lost or wrong; the median over the rounds of how much later the worst
pair's 99.9th percentile is with them than without; greedy clients whose requests a limit refuses were
told which one (with `--late-ms`); shared memory keeps to memory.host.size and the rings. What an
offender keeps after the broker has dropped it is counted too.

One more run has greedy clients and an observer. It is not among those whose times and memory are judged, for an
observer has sessions of its own and runs at the same priority as the honest.
"""
import json
import os
import pathlib
import signal
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import check, main

LINKS = (("ring", "ring"), ("stream", "ring"), ("ring", "stream"), ("stream", "stream"))
MEMORY = 256 << 20
RINGS = 128 << 20  # of the sessions that are there at one time, two directions each
MIB = 1 << 20
# These must meet a limit, and hear which. Others get less, or wait.
TOLD = ("greed-pairs", "greed-segments")


def descendants_of_this():
    """Every process that this test started, itself included."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(encoding="utf-8", errors="replace")
        except OSError:  # It ended meanwhile.
            continue
        parent = int(text[text.rindex(")") + 2 :].split()[1])
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found


def shared_of(pid):
    """(inode, bytes) of each memfd that a process holds or still maps."""
    folder = pathlib.Path(f"/proc/{pid}")
    for kind in ("fd", "map_files"):  # The second is root's; who maps has a descriptor mostly.
        try:
            links = list((folder / kind).iterdir())
        except OSError:
            continue
        for link in links:
            try:
                if os.readlink(link).startswith("/memfd:"):
                    stat = link.stat()
                    yield stat.st_ino, stat.st_blocks * 512
            except OSError:
                continue


class Memory(threading.Thread):
    """The most that a broker and its clients had, by the kernel's word, looked at five times a
    second."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.status = pathlib.Path(f"/proc/{pid}/status")
        self.is_over = threading.Event()
        self.heap = self.shared = 0

    def run(self):
        while not self.is_over.wait(0.2):
            for line in self.status.read_text().splitlines():
                if line.startswith("RssAnon:"):
                    self.heap = max(self.heap, int(line.split()[1]) << 10)
            sizes = {}
            for pid in descendants_of_this():
                sizes.update(shared_of(pid))
            self.shared = max(self.shared, sum(sizes.values()))


def start_pairs(rig, broker, options):
    pairs = []
    for i in range(int(options.get("pairs", 8))):
        publish, subscribe = LINKS[i % len(LINKS)]
        pairs.append(
            rig.client(
                "test-checker",
                broker.url(publish),
                broker.url(subscribe),
                f"{publish}-{subscribe}-{i}",
                *("--rate", options.get("rate", "100"), "--max", "60000"),
            )
        )
    for pair in pairs:
        pair.expect("ready")
    return pairs


def stop_pairs(pairs):
    """The worst pair's 99.9th percentile and maximum."""
    for pair in pairs:
        pair.signal(signal.SIGTERM)
    reports = []
    for pair in pairs:
        report = pair.line(60)
        status = pair.wait()
        check(status == 0, f"{pair.name} ended with {status}: {report} {pair.log()}")
        reports.append(json.loads(report))
    return max(r["late_p999_ms"] for r in reports), max(r["late_ms"] for r in reports)


def longest_ms(broker):
    """The longest turn of the worker, and the longest round of the control thread."""
    turn = max(row["longest_turn_ns"] for row in broker.ask("workers"))
    return turn / 1e6, broker.ask("status")["longest_round_ns"] / 1e6


def stolen_ms():
    """What the machine's host took from its cores, ever: a stall that is not the broker's."""
    ticks = int(pathlib.Path("/proc/stat").read_text(encoding="ascii").split()[8])
    return ticks * 1000 // os.sysconf("SC_CLK_TCK")


def one_run(rig, options, is_greedy, seed):
    seconds = float(options.get("seconds-each", 4))
    broker = rig.broker(
        *("-o", "server.workers=1", "-o", f"memory.host.size={MEMORY}", "-o", "server.max_message=auto"),
        *("-o", "memory.host.segment=16M", "-o", "log.level=error"),
        *(option for pair in options.get("broker", "").split() for option in ("-o", pair)),
    )
    memory = Memory(broker.pid)
    memory.start()
    pairs = start_pairs(rig, broker, options)
    stolen = stolen_ms()
    done = {}
    if is_greedy:
        port = broker.tcp_url.rsplit(":", 1)[1].split("?")[0]
        only = ["--only", options["only"]] if "only" in options else []
        greedy = rig.start(
            ["nice", "-n", "19", rig.program("test-hostile"), str(broker.socket), port]
            + ["--greedy", str(round(seconds)), "--seed", str(seed), *only]
        )
        broker.looked_at()
        status = greedy.wait(seconds + 60)
        check(status == 0, f"test-hostile: {status}: {greedy.log()}")
        done = json.loads(greedy.line())
        done.pop("ended")
    else:
        time.sleep(seconds)
    p999, worst = stop_pairs(pairs)
    stolen = stolen_ms() - stolen
    turn, control = longest_ms(broker)
    broker.check_alive()
    memory.is_over.set()
    memory.join()
    broker.stop()
    print(
        f"{'greedy' if is_greedy else 'alone ':6s} p99.9 {p999:8.3f} ms, worst {worst:5d} ms, "
        f"heap {memory.heap / MIB:6.1f} MiB, shared {memory.shared / MIB:6.1f} MiB, "
        f"turn {turn:.0f} ms, control {control:.0f} ms, stolen {stolen} ms",
        flush=True,
    )
    return p999, memory, done


def test(rig, options):
    rounds = int(options.get("rounds", 1))
    late = []
    told = {}
    one_run(rig, options, True, rounds)
    for seed in range(rounds):
        with rig.unobserved():
            alone, _, _ = one_run(rig, options, False, seed)
            with_them, memory, done = one_run(rig, options, True, seed)
        late.append(with_them - alone)
        for name, (times, ended, hits, text) in done.items():
            before = told.get(name, (0, 0, 0, ""))
            told[name] = (before[0] + times, before[1] + ended, before[2] + hits, text or before[3])
        check(
            memory.shared <= MEMORY + RINGS,
            f"{memory.shared / MIB:.0f} MiB of shared memory, {(MEMORY + RINGS) / MIB:.0f} allowed",
        )
    for name, (times, ended, hits, text) in sorted(told.items()):
        print(f"  {name:20s} {times:5d} times, {ended:5d} ended, {hits:5d} told: {text}")
    median = statistics.median(late)
    print(f"later by {median:.3f} ms (median of {rounds}: {', '.join(f'{x:.3f}' for x in late)})")
    check(told, "there was no greedy client")
    silent = [name for name in TOLD if name in told and told[name][2] == 0]
    if "late-ms" in options:  # A slow build may not come to a limit in the few seconds of a test.
        check(not silent, f"not told which limit they met: {', '.join(silent)}")
        check(median <= float(options["late-ms"]), f"{median} ms later, {options['late-ms']} allowed")


if __name__ == "__main__":
    main(test, 3000, observers=())
