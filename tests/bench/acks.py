#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Acknowledgements, groups, deduplication and confirmations: their speed on beside off, and beside
NATS with JetStream and Redis with Streams.

    acks.py BUILD [--rounds 3] [--seconds 0.5] [--sizes 64,1024,65536] [--variants NAME,...]
            [--systems ambroker,ambroker-tcp,nats,redis] [--runs FILE] [--extra "OPTIONS"]
    acks.py --table FILE [--json FILE]

Each run has a server of its own and BUILD's acks-bench (tests/bench/acks): one publisher process,
one consumer or a group of four, every byte of every message compared. In a round all systems take
their turn at a variant before the next one begins. --runs appends each run to a file, so that a set
of rounds may be made in pieces; --table makes tables of medians of such a file. A system whose
server or client library is not there is left out.

Servers: brokerd --dev; nats-server with JetStream, streams and consumers in memory; redis-server
without persistence on a Unix socket, as ours. NATS has TCP only: ambroker-tcp is beside it.
"""
import argparse
import ctypes
import json
import os
import pathlib
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

_libc = ctypes.CDLL(None, use_errno=True)
SYSTEMS = ("ambroker", "ambroker-tcp", "nats", "redis")
OURS = ("ambroker", "ambroker-tcp")
GROUP = "--group --members 4"
# variant: (what it is, its options)
VARIANTS = {
    "plain": ("publish and subscribe", ""),
    "stored": ("the peers' logs, nothing acknowledged", "--stored"),
    "explicit": ("each message acknowledged", "--ack explicit"),
    "cumulative": ("one acknowledgement a batch", "--ack cumulative"),
    "dedup": ("publisher's repeats are dropped", "--named"),
    "accepted": ("publisher hears of each message that it is stored", "--confirm accepted"),
    "delivered": ("publisher hears of each message that it was consumed", "--confirm delivered"),
    "group": ("four share the messages", GROUP),
    "group-explicit": ("four share them and acknowledge each", f"{GROUP} --ack explicit"),
    "all": ("dedup, accepted, explicit", "--named --confirm accepted --ack explicit"),
}
# What was best for them in a few tries: see docs/performance.md.
BEST = {"nats": "--push", "redis": "--batch 1000"}


def end_with_parent():
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server in a folder of its own; .address as acks-bench has it."""

    def __init__(self, system, build):
        self.folder = tempfile.TemporaryDirectory(prefix="amb-acks-")
        self.path = pathlib.Path(self.folder.name)
        self.log = open(self.path / "log", "wb")
        command = getattr(self, system.replace("-", "_"))(build)
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, cwd=self.path,
                                        preexec_fn=end_with_parent)

    def ambroker(self, build):
        self.address, self.at = f"unix://{self.path}/s", f"{self.path}/s"
        return [f"{build}/broker/brokerd", "--dev", "--listen", self.address]

    def ambroker_tcp(self, build):
        port = free_port()
        self.address, self.at = f"tcp://127.0.0.1:{port}?link=stream", ("127.0.0.1", port)
        return [f"{build}/broker/brokerd", "--dev", "--listen", f"tcp://127.0.0.1:{port}"]

    def nats(self, _):
        port = free_port()
        self.address, self.at = f"nats://127.0.0.1:{port}", ("127.0.0.1", port)
        (self.path / "conf").write_text(
            f'listen: "127.0.0.1:{port}"\nmax_payload: 67108864\nmax_pending: 2147483647\n'
            f'write_deadline: "60s"\njetstream {{ store_dir: "{self.path}/js",'
            "max_memory_store: 4294967296 }\n")
        return ["nats-server", "-c", f"{self.path}/conf"]

    def redis(self, _):
        self.address = self.at = f"{self.path}/s"
        (self.path / "conf").write_text(
            f'port 0\nunixsocket {self.at}\nsave ""\nappendonly no\ndir {self.path}\n'
            "client-output-buffer-limit pubsub 8gb 0 0\n")
        return ["redis-server", f"{self.path}/conf"]

    def wait(self):
        family = socket.AF_UNIX if isinstance(self.at, str) else socket.AF_INET
        for _ in range(1000):
            with socket.socket(family) as probe:
                try:
                    probe.connect(self.at)
                    return self
                except OSError:
                    time.sleep(0.01)
            if self.process.poll() is not None:
                break
        raise SystemExit(f"no server: {(self.path / 'log').read_text()[-500:]}")

    def __enter__(self):
        return self.wait()

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.folder.cleanup()


def has_server(system):
    return system in OURS or shutil.which(
        f"{system}-server", path=f"{os.environ['PATH']}:/usr/sbin:/usr/bin:/bin") is not None


def run(options, system, variant, size):
    program = [f"{options.build}/tests/acks-bench", "ambroker" if system in OURS else system]
    more = VARIANTS[variant][1].split() + BEST.get(system, "").split() + options.extra.split()
    with Server(system, options.build) as server:
        done = subprocess.run(
            [*program, "--address", server.address, "--pid", str(server.process.pid), "--size",
             str(size), "--seconds", str(options.seconds), *more],
            capture_output=True, text=True, timeout=60, check=False, preexec_fn=end_with_parent)
    try:
        got = json.loads(done.stdout)
    except json.JSONDecodeError:
        is_there = "no such system" not in done.stderr  # else built without its library
        got = {"status": f"failed: {done.stderr.strip()[-200:]}" if is_there else "refused"}
    return {"system": system, "variant": variant, "size": size, **got}


def measure(options):
    out = []
    for number in range(options.rounds):
        for size in map(int, options.sizes.split(",")):
            for variant in options.variants.split(","):
                for system in options.systems.split(","):
                    if not has_server(system) or (variant == "stored" and system in OURS):
                        continue
                    got = run(options, system, variant, size)
                    if got["status"] == "refused":
                        continue
                    print(f"{number + 1} {size:6} {variant:15} {system:13} {got['status']:8}"
                          f" {got.get('msgs_per_s', 0):12,.0f}/s"
                          f" server {got.get('server_cpu_us_per_msg', 0):7.3f} us"
                          f" others {got.get('others', 0):.2f}", flush=True)
                    if got["status"] != "ok":
                        print(f"  {got}", flush=True)
                    out.append(got)
                    if options.runs:
                        with open(options.runs, "a", encoding="utf-8") as file:
                            file.write(json.dumps(got) + "\n")
    return out


def short(value):
    for unit, factor in (("M", 1e6), ("k", 1e3)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g}"


def medians(runs):
    """{(size, variant, system): {figure: median}} of the runs in which everything was right."""
    groups = {}
    for got in runs:
        if got["status"] == "ok":
            groups.setdefault((got["size"], got["variant"], got["system"]), []).append(got)
    keys = ("msgs_per_s", "mb_per_s", "server_cpu_us_per_msg", "server_peak_rss_mib", "others")
    return {name: {key: statistics.median(got[key] for got in group) for key in keys} |
            {"runs": len(group), "least": min(got["msgs_per_s"] for got in group),
             "most": max(got["msgs_per_s"] for got in group)}
            for name, group in groups.items()}


def cell(table, size, variant, system, base):
    """Rate, and what part of the system's own plain rate it is."""
    got = table.get((size, variant, system))
    if got is None:
        return "-"
    off = table.get((size, base, system))
    part = f" ({got['msgs_per_s'] / off['msgs_per_s']:.2f})" if off and base != variant else ""
    return f"{short(got['msgs_per_s'])}{part}"


def times(table, size, variant, ours, peer):
    mine, other = table.get((size, variant, ours)), table.get((size, variant, peer))
    return f"{mine['msgs_per_s'] / other['msgs_per_s']:.3g}x" if mine and other else "-"


def print_tables(runs):
    table = medians(runs)
    for size in sorted({name[0] for name in table}):
        print(f"\n| {size} B, messages/s (of plain) | ours | NATS, JetStream | Redis | ours / JetStream |"
              " ours / Redis | ours by TCP | by TCP / JetStream |")
        print("|---|---|---|---|---|---|---|---|")
        for variant in VARIANTS:
            ours = [cell(table, size, variant, name, "plain") for name in OURS]
            peers = [cell(table, size, variant, name, "plain") for name in ("nats", "redis")]
            print(f"| {variant} | {ours[0]} | {peers[0]} | {peers[1]} |"
                  f" {times(table, size, variant, 'ambroker', 'nats')} |"
                  f" {times(table, size, variant, 'ambroker', 'redis')} |"
                  f" {ours[1]} | {times(table, size, variant, 'ambroker-tcp', 'nats')} |")
    wrong = [got for got in runs if got["status"] != "ok"]
    print(f"\n{len(runs)} runs, {len(wrong)} of them wrong")
    for got in wrong:
        print(got)
    return table


def version(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build", nargs="?", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--sizes", default="64,1024,65536")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--extra", default="")
    parser.add_argument("--runs")
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if options.table:
        runs = [json.loads(line) for line in options.table.read_text().splitlines()]
    else:
        options.build = options.build.resolve()
        runs = measure(options)
    table = print_tables(runs)
    if options.json:
        options.json.write_text(json.dumps({
            "machine": platform.machine(), "kernel": platform.release().split("-")[0],
            "nats": version(["nats-server", "--version"]),
            "redis": version(["redis-server", "--version"]),
            "variants": {name: what for name, (what, _) in VARIANTS.items()},
            "medians": [{"size": size, "variant": variant, "system": system, **figures}
                        for (size, variant, system), figures in sorted(table.items())],
            "runs": runs}, indent=1) + "\n")
    return 1 if any(got["status"] != "ok" for got in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
