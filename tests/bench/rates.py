#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a steady flow of single messages costs: CPU of publisher, broker and subscriber, latency.

    rates.py BUILD [--rates 100,1000,10000] [--systems NAME,...] [--size 256] [--seconds 5]
             [--rounds 3] [--beside] [--json FILE]

One publisher process sends that many messages a second, one a wake-up, each flushed at once. One
subscriber process waits in its library's blocking receive. All run with default settings, and each
run has a broker of its own. In a round all systems take their turn at a rate before the next rate
begins. The table has medians of the rounds. A system whose server or client library is not there is
left out, with a word. The system `none` sends nothing: its publisher is what the schedule alone
costs. `its own` is a publisher's CPU above that; targets are for all of it.

CPU is user and system time of all threads in percent of one core, over --seconds after half a
second of warm-up. Latency is one way: the publisher writes the time into a message just before it
sends it. Messages of any round that never came, or came twice, are `lost`, and then the exit status
is 1. The column `late` has the percent that left after the next message was due. --beside runs one
busy process a core beside.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import Broker, Rig, check, until
from target import busy_cores, machine

# By system: as rates-bench calls it, and its server's program.
SYSTEMS = {"none": ("none", None), "ring": ("ambroker", None), "tcp": ("ambroker", None),
           "nats": ("nats", "nats-server"), "redis": ("redis", "redis-server"),
           "redis-unix": ("redis", "redis-server"), "zmq": ("zmq", None), "zmq-ipc": ("zmq", None)}
# CPU of each of the three processes at most, in percent, by rate.
TARGETS = {"ring": {100: 1, 1000: 2, 10000: 4}, "tcp": {100: 1, 1000: 3, 10000: 6}}
ROLES = ("publisher", "broker", "subscriber")
WARM_SECONDS = 0.5
TAIL_SECONDS = 0.2  # still sent when the measured time is over


def program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


class Server:
    """One broker: .process, and the addresses that rates-bench takes for it."""

    def __init__(self, rig, system):
        self.rig, self.path = rig, rig.folder
        getattr(self, system.replace("-", "_"))()
        self.subscribe_at = getattr(self, "subscribe_at", self.publish_at)
        until(10, self.is_there, f"{system} listens")

    def none(self):
        self.process, self.publish_at = None, "-"

    def ambroker(self):
        config = self.path / "broker.conf"
        config.write_text("")
        # The limit is its default: the harness has a longer one.
        self.process = self.rig.broker("--config", config, "-o", "limits.peer_timeout=5s",
                                       dev=False)

    def ring(self):
        self.ambroker()
        self.publish_at = self.process.url("ring")

    def tcp(self):
        self.ambroker()
        self.publish_at = self.process.url("stream")

    def nats(self):
        port = free_ports(1)[0]
        self.publish_at = f"nats://127.0.0.1:{port}"
        self.process = self.rig.start([program("nats-server"), "-a", "127.0.0.1", "-p", str(port)])

    def start_redis(self, listen):
        conf = self.path / "conf"
        conf.write_text(f'{listen}\nsave ""\nappendonly no\ndir {self.path}\n')
        self.process = self.rig.start([program("redis-server"), str(conf)])

    def redis(self):
        port = free_ports(1)[0]
        self.publish_at = f"127.0.0.1:{port}"
        self.start_redis(f"bind 127.0.0.1\nport {port}")

    def redis_unix(self):
        self.publish_at = f"{self.path}/s"
        self.start_redis(f"port 0\nunixsocket {self.publish_at}")

    def start_zmq(self, *addresses):
        self.publish_at, self.subscribe_at = addresses
        self.process = self.rig.client("rates-bench", "zmq", "proxy", *addresses)

    def zmq(self):
        self.start_zmq(*(f"tcp://127.0.0.1:{port}" for port in free_ports(2)))

    def zmq_ipc(self):
        self.start_zmq(f"ipc://{self.path}/in", f"ipc://{self.path}/out")

    def is_there(self):
        """Whether it takes connections; ours has said so already."""
        if self.process is None or isinstance(self.process, Broker):
            return True
        at = self.publish_at.rpartition("://")[2]
        check(self.process.is_running(), self.process.log()[-500:])
        is_unix = "/" in at
        with socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET) as probe:
            try:
                host, _, port = at.rpartition(":")
                probe.connect(at if is_unix else (host, int(port)))
                return True
            except OSError:
                return False


class Meter:
    """CPU time of a process since it was made, in percent of one core."""

    def __init__(self, process):
        self.process = process
        self.cpu, self.start = process.cpu_seconds(), time.monotonic()

    def percent(self):
        used = self.process.cpu_seconds() - self.cpu
        return 100 * used / (time.monotonic() - self.start)


def measure(options, system, rate):
    """One run: the percents by role, the latency, the messages that did not come."""
    name = SYSTEMS[system][0]
    first = int(WARM_SECONDS * rate)
    end = first + int(options.seconds * rate)
    count = end + max(1, int(TAIL_SECONDS * rate))
    with Rig(options.build, 60 + int(3 * options.seconds)) as rig:
        server = Server(rig, system)
        processes = {"broker": server.process}
        if server.process is not None:
            subscriber = rig.client("rates-bench", name, "subscribe", server.subscribe_at, count)
            subscriber.expect("ready")
            processes["subscriber"] = subscriber
        publisher = rig.client("rates-bench", name, "publish", server.publish_at, rate,
                               options.size, count)
        publisher.expect("ready")
        processes["publisher"] = publisher
        publisher.tell("go")
        publisher.expect("started")
        time.sleep(WARM_SECONDS)
        meters = {role: Meter(process) for role, process in processes.items() if process}
        time.sleep(options.seconds)
        run = {role: meter.percent() for role, meter in meters.items()}
        sent, late = map(int, publisher.expect("sent", 30 + options.seconds)[1:])
        run["late"] = 100 * late / sent
        if server.process is not None:
            subscriber.tell(f"{sent} {first} {end}")
            got, again, p50, p99 = map(float, subscriber.expect("got")[1:])
            run.update(p50_us=p50, p99_us=p99, lost=int(sent - got + again))
        return run


def left_out(options, systems):
    """What cannot be measured here, and why."""
    with Rig(options.build, 20) as rig:
        built_in = rig.client("rates-bench", "systems").all_lines()
    for system in systems:
        name, server = SYSTEMS[system]
        if name not in built_in:
            yield system, "its client library was not there at build time"
        elif server is not None and program(server) is None:
            yield system, f"no {server}"


def row_of(system, rate, runs):
    row = {"system": system, "rate": rate, "rounds": len(runs)}
    for key in (*ROLES, "p50_us", "p99_us", "late"):
        if key in runs[0]:
            row[key] = round(statistics.median(run[key] for run in runs), 3)
    row["lost"] = sum(run.get("lost", 0) for run in runs)
    target = TARGETS.get(system, {}).get(rate)
    if target is not None:
        row["target"] = target
        row["missed"] = [role for role in ROLES if row[role] > target]
        row["met"] = not row["missed"] and row["lost"] == 0
    return row


def print_table(rows):
    print("| system | rate | publisher % | its own | broker % | subscriber % | p50 us | p99 us | "
          "lost | late % | target % | met |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        cells = [f"{row[key]:.2f}" if key in row else "-"
                 for key in ("publisher", "own", "broker", "subscriber")]
        cells += [f"{row[key]:.0f}" if key in row else "-" for key in ("p50_us", "p99_us")]
        cells += [str(row["lost"]) if "p50_us" in row else "-", f"{row['late']:.1f}"]
        if "target" in row:
            why = ", ".join(row["missed"] + (["lost"] if row["lost"] else []))
            cells += [str(row["target"]), "met" if row["met"] else f"not met: {why}"]
        else:
            cells += ["-", "-"]
        print(f"| {row['system']} | {row['rate']} | " + " | ".join(cells) + " |")


def take_turns(options, systems, rates):
    runs = {(rate, system): [] for rate in rates for system in systems}
    for turn in range(options.rounds):
        start = time.monotonic()
        for (rate, system), done in runs.items():
            done.append(measure(options, system, rate))
        print(f"round {turn + 1} of {options.rounds}: {len(runs)} runs, "
              f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    rows = [row_of(system, rate, done) for (rate, system), done in runs.items()]
    schedule = {row["rate"]: row["publisher"] for row in rows if row["system"] == "none"}
    for row in rows:
        if row["rate"] in schedule and row["system"] != "none":
            row["own"] = round(row["publisher"] - schedule[row["rate"]], 3)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--rates", default="100,1000,10000")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    systems = options.systems.split(",")
    if unknown := [system for system in systems if system not in SYSTEMS]:
        parser.error(f"no system {', '.join(unknown)}")
    for system, why in list(left_out(options, systems)):
        print(f"{system}: {why}, left out", file=sys.stderr)
        systems.remove(system)
    rates = [int(rate) for rate in options.rates.split(",")]
    with busy_cores(os.cpu_count() if options.beside else 0):
        rows = take_turns(options, systems, rates)
    print_table(rows)
    if options.json:
        result = {"machine": machine(), "rounds": options.rounds, "seconds": options.seconds,
                  "size": options.size, "beside": options.beside, "rows": rows}
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(result, out, indent=1)
            out.write("\n")
    return 1 if any(row["lost"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
