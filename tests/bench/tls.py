#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What TLS costs: Ambroker over TLS beside its peers over TLS, and beside itself over TCP.

    tls.py PEERBENCH BUILD [--parts rates,latency,cpu,logins,idle] [--rounds 3] [--seconds 0.6]
           [--json FILE]

PEERBENCH is the OUT/peerbench that tests/bench/peerbench/build.sh makes of BUILD; everybody has
TLS 1.3, AES-128-GCM and a certificate of P-256. BUILD has the tests' programs, too.

rates    1 to 1 of 64 B to 1 MiB, and 1 MiB to 16, as target.py has them, beside the best peer
latency  a round trip of 64 B beside the best peer, and how many us TLS adds to ours
cpu      broker CPU that TLS adds to a GB, beside what `openssl speed` takes for it, in and out
logins   a user's key, two handshakes: logins for each second that the handshaker computed; the rate
         of a flow of 1 KiB over TLS beside 50 logins a second, to its rate without
idle     KiB of the broker's memory that an idle client over TLS has, more than one over TCP
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from harness import Rig
from target import Cell, Runs, machine, measure, number, row_of, table_line

PEERS = ["nats-tls", "redis-tls", "mosquitto-tls"]
OURS, PLAIN = "ambroker-tls", ["ambroker-tcp"]
SMALL, LARGE = "latency --size 64", "throughput --size 1m"
RATES = (
    Cell("1to1.64.tls", OURS, PEERS, "throughput --size 64", "msgs_per_s", ">=", 6),
    Cell("1to1.1k.tls", OURS, PEERS, "throughput --size 1k", "msgs_per_s", ">=", 4),
    Cell("touch.64k.tls", OURS, PEERS, "throughput --size 64k --touch", "mb_per_s", ">=", 1.5),
    Cell("touch.1m.tls", OURS, PEERS, "throughput --size 1m --touch", "mb_per_s", ">=", 1.3),
    Cell("fanout16.1m.tls", OURS, PEERS, "fanout --subs 16 --size 1m", "mb_per_s", ">=", 1.2),
)
LATENCY = Cell("latency.64.tls", OURS, PEERS, SMALL, "p50_us", "<=", 1)
LATENCY_PLAIN = Cell("latency.64.tls.plain", OURS, PLAIN, SMALL, "p50_us", "<=", None)
CPU = Cell("cpu.1m.tls", OURS, PLAIN, LARGE, "broker_cpu_s_per_gb", "<=", None)
ADDED_US = 20  # to a round trip
ADDED_CPU = 1.4  # of what openssl speed takes
LOGINS = 500
KEPT_RATE = 0.9
LOGINS_BESIDE = 50
IDLE_KIB = 96
IDLE_CLIENTS = 1000
FLOW_SIZE = 1024
FLOW_SECONDS = 1
PAIRS = 9


def row(name, key, ours, op, target, **more):
    met = ours is not None and (ours >= target if op == ">=" else ours <= target)
    return {"cell": name, "who": OURS, "key": key, "ours": ours, "op": op, "target": target,
            "met": met, "wrong": 0, **more}


def measured(cells, options):
    runs = Runs(options, is_beside=False)
    measure(cells, options, runs, lambda cell: print(table_line(row_of(cell, runs)),
                                                     file=sys.stderr, flush=True))
    return runs


def rates(options):
    runs = measured(RATES, options)
    return [row_of(cell, runs) for cell in RATES]


def latency(options):
    runs = measured((LATENCY, LATENCY_PLAIN), options)
    plain = row_of(LATENCY_PLAIN, runs)
    added = 2 * (plain["ours"] - plain["best"])
    return [row_of(LATENCY, runs),
            row("latency.64.tls.added", "us of a round trip", added, "<=", ADDED_US,
                best_peer="ambroker-tcp", best=2 * plain["best"], noisy=plain["noisy"])]


def openssl_rate():
    """GB that one core encrypts in a second of its time."""
    done = subprocess.run(["openssl", "speed", "-mr", "-evp", "aes-128-gcm", "-bytes", "16384",
                           "-seconds", "1"], capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("+F:"))
    return float(line.split(":")[-1]) / 1e9


def cpu(options):
    speeds = [openssl_rate()]
    runs = measured((CPU,), options)
    speeds.append(openssl_rate())
    found = row_of(CPU, runs)
    added, bare = found["ours"] - found["best"], 2 / statistics.mean(speeds)
    return [row("cpu.1m.tls.added", "CPU s/GB", added, "<=", round(ADDED_CPU * bare, 4),
                best_peer="openssl speed, in and out", best=bare, ratio=added / bare,
                noisy=found["noisy"], plain=found["best"], whole=found["ours"])]


# ---- logins ----

class Logins:
    """A broker whose user logs in with a key."""

    def __init__(self, rig):
        self.rig = rig
        state = rig.folder / "state"
        self.broker = rig.broker("--listen", "tls://127.0.0.1:0", "-o", "log.level=warn",
                                 tcp=False, env={"XDG_STATE_HOME": str(state)})
        self.env = {"AMB_CREDENTIALS": str(state / "ambroker" / "dev" / "dev.cred")}

    def start(self, program, *arguments):
        process = self.rig.client(program, self.broker.tls_url, *arguments, env=self.env)
        process.expect("ready", 60)
        return process

    def speed(self, seconds):
        """Logins one after the other: a second, a second of the handshaker's, and their median."""
        client = self.start("logins-bench", 0, seconds)
        before = self.broker.cpu_seconds("amb-handshaker")
        words = client.expect("logins", seconds + 60)
        handshaker = self.broker.cpu_seconds("amb-handshaker") - before
        count, took = int(words[1]), float(words[2])
        return count / took, count / handshaker, float(words[3])

    def rate(self, seconds):
        before, start = self.broker.ask("status")["messages_in"], time.monotonic()
        time.sleep(seconds)
        return (self.broker.ask("status")["messages_in"] - before) / (time.monotonic() - start)

    def kept(self):
        """The rate of a flow beside logins, to its rate without; how many logins came a second."""
        self.start("test-flood", "flow", "sub", FLOW_SIZE)
        self.start("test-flood", "flow", "pub", FLOW_SIZE)
        time.sleep(1)
        ratios, came = [], []
        for _ in range(PAIRS):
            alone = self.rate(FLOW_SECONDS)
            client = self.start("logins-bench", LOGINS_BESIDE, FLOW_SECONDS + 0.5)
            ratios.append(self.rate(FLOW_SECONDS) / alone)
            words = client.expect("logins", 60)
            came.append(int(words[1]) / float(words[2]))
        return ratios, statistics.median(came)


def logins(options):
    with Rig(options.build, 300) as rig:
        side = Logins(rig)
        speeds = [side.speed(2) for _ in range(options.rounds)]
        ratios, came = side.kept()
    all_in_turn, of_handshaker, took = map(statistics.median, zip(*speeds))
    return [row("logins.handshaker", "logins/s", of_handshaker, ">=", LOGINS,
                in_turn=all_in_turn, median_ms=took),
            row("logins.beside", "of the rate", statistics.median(ratios), ">=", KEPT_RATE,
                all=[round(ratio, 3) for ratio in ratios], logins=came)]


def idle(options):
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run([sys.executable, HERE / "idle_clients.py", options.build, "--systems",
                        "tcp,tls", "--clients", str(IDLE_CLIENTS), "--json", out.name],
                       check=True, stdout=subprocess.DEVNULL)
        with open(out.name, encoding="utf-8") as file:
            tcp, tls = json.load(file)
    found = []
    for name, of in (("kib", lambda costs: costs), ("kib.used", lambda costs: costs["used"])):
        # Its own memory alone: links by TCP have none that is shared.
        plain, ours = (round(of(costs)["anon"] + of(costs)["tables"], 1) for costs in (tcp, tls))
        found.append(row(f"idle.tls.{name}", "KiB", ours - plain, "<=", IDLE_KIB,
                         best_peer="ambroker-tcp", best=plain, connect_ms=tls["connect_ms"]))
    return found


PARTS = {"rates": rates, "latency": latency, "cpu": cpu, "logins": logins, "idle": idle}


def show(rows):
    print("| cell | beside | ours | ratio | target | met |\n|---|---|---|---|---|---|")
    for found in rows:
        beside = f"{found['best_peer']} {number(found['best'])}" if "best" in found else "-"
        ratio = number(found["ratio"]) if "ratio" in found else "-"
        met = "yes" if found.get("met") else "no"
        met += f", {found['wrong']} wrong" if found.get("wrong") else ""
        print(f"| {found['cell']} | {beside} | {number(found['ours'])} {found['key']}"
              f"{' *' if found.get('noisy') else ''} | {ratio} | {found['op']} "
              f"{found['target']} | {met} |")


def write(path, rows):
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"machine": machine(), "cells": rows}, out, indent=1)
        out.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peerbench")
    parser.add_argument("build")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--json")
    options = parser.parse_args()
    options.all, options.repeat, options.nice = False, True, 0  # of target.py
    rows = []
    for name in options.parts.split(","):
        rows += PARTS[name](options)
        if options.json:
            write(options.json, rows)
    show(rows)
    return 0 if all(found.get("met") for found in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
