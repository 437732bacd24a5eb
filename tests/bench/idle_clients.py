#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an idle subscriber costs its broker: memory, CPU, the time of a connect; beside peers.

    idle_clients.py BUILD [--clients 100,1000,10000] [--systems NAME,...] [--seconds 5]
                    [--spread 2000] [--beside] [--json FILE]

For each system and number of clients a broker of its own: the clients come one after the other, each
subscribes to one topic, and then nothing happens for some seconds. They are spread over processes of
--spread clients. A system whose program is not there is left out, with a word; a number that the
machine does not admit is shown as far as it went. --beside adds the latency (64 B, one way, p50) of
two clients of ours beside the idle ones.

Memory a client is what the broker's processes have more than with no client, in KiB: anonymous
memory and page tables of the processes; shared memory of the machine, which no process counts twice;
`kernel` is slab and socket memory of the whole machine, both ends together. The broker is measured
again after a message went to every client of ours and 15 s of peace ("used").
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import Failure, Rig, check, until

SYSTEMS = ("ring", "tcp", "tls", "redis-unix", "redis", "nats", "mosquitto")
PROGRAMS = {"redis-unix": "redis-server", "redis": "redis-server", "nats": "nats-server",
            "mosquitto": "mosquitto"}
KINDS = {"ring": "ambroker", "tcp": "ambroker", "tls": "ambroker", "redis-unix": "redis", "redis": "redis",
         "nats": "nats", "mosquitto": "mqtt"}
OURS = {"ring": "ring", "tcp": "stream", "tls": "tls"}  # the link of each
USED_SECONDS = 15  # rings are trimmed when they were idle for 10


def program_of(system):
    name = PROGRAMS.get(system)
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin") if name else system


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One broker; .address as idle-clients-bench has it, .pids of its processes."""

    def __init__(self, rig, system, count):
        self.rig = rig
        self.broker = None
        path = rig.folder / "server"
        path.mkdir(exist_ok=True)
        if system in OURS:
            if system == "tls":
                rig.use_tls()
            # All clients are one user's. Warnings alone: a line a client is no cost of an idle one.
            self.broker = rig.broker("-o", "limits.user_share=100", "-o", "limits.peer_timeout=5s",
                                     "-o", "log.level=warn")
            self.process, self.address = self.broker, self.broker.url(OURS[system])
            return
        port = free_port()
        conf = path / "conf"
        self.address = f"127.0.0.1:{port}"
        command = [program_of(system)]
        if system == "nats":
            conf.write_text(f'listen: "{self.address}"\nmax_connections: 200000\n')
            command += ["-c", str(conf)]
        elif system == "mosquitto":
            conf.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
            command += ["-c", str(conf)]
        else:
            unix = f"unixsocket {path}/s\n" if system == "redis-unix" else ""
            self.address = f"{path}/s" if unix else self.address
            conf.write_text(f'port {port}\nbind 127.0.0.1\n{unix}save ""\nappendonly no\n'
                            f"dir {path}\nmaxclients {count + 100}\n")
            command.append(str(conf))
        self.process = rig.start(command)
        until(10, self.is_there, f"{system} listens")

    def is_there(self):
        import socket
        is_unix = "/" in self.address
        with socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET) as probe:
            try:
                host, _, port = self.address.rpartition(":")
                probe.connect(self.address if is_unix else (host, int(port)))
                return True
            except OSError:
                check(self.process.is_running(), self.process.log()[-500:])
                return False

    def memory(self):
        """KiB by kind, now."""
        found = {"anon": 0, "tables": 0}
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("RssAnon", "VmPTE"):
                found["anon" if name == "RssAnon" else "tables"] += int(value.split()[0])
        machine = {}
        for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
            name, _, value = line.partition(":")
            machine[name] = int(value.split()[0])
        found["shared"] = machine["Shmem"]
        found["kernel"] = machine["Slab"]
        for line in pathlib.Path("/proc/net/sockstat").read_text().splitlines():
            words = line.split()
            if words[0] == "TCP:":
                found["kernel"] += 4 * int(words[words.index("mem") + 1])
        return found

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def a_client(before, after, count, key):
    return (after[key] - before[key]) / count


def costs(before, after, count):
    row = {key: round(a_client(before, after, count, key), 1)
           for key in ("anon", "tables", "shared", "kernel")}
    row["broker"] = round(row["anon"] + row["tables"] + row["shared"], 1)
    return row


def latency_us(rig, url):
    """p50, p99."""
    done = rig.client("broker-bench", "latency", "--url", url, "--size", 64, "--seconds", 1, "-o",
                      "json")
    text = "\n".join(done.all_lines(60))
    found = json.loads(text)
    return found


def connect(rig, server, system, count, spread):
    """The clients there are, the processes that have them, and figures of each of these."""
    holders, told, held = [], [], 0
    start = time.monotonic()
    while held < count:
        some = min(spread, count - held)
        holder = rig.client("idle-clients-bench", KINDS[system], server.address, some)
        try:
            words = holder.expect("held", 120)
        except Failure:
            why = holder.log().strip().splitlines()
            holder.kill()
            return held, holders, told, time.monotonic() - start, why[-1] if why else "it ended"
        holders.append(holder)
        held += some
        told.append([float(word) for word in words[2:]])
    return held, holders, told, time.monotonic() - start, None


def measure(options, system, count):
    with Rig(options.build, 600) as rig:
        server = Server(rig, system, count)
        time.sleep(0.5)
        fds, before = server.descriptors(), server.memory()
        cpu = server.process.cpu_seconds()
        held, holders, told, took, why = connect(rig, server, system, count, options.spread)
        row = {"system": system, "clients": held}
        if why is not None:
            row["stopped"] = why
        if held == 0:
            return row
        row["connect_cpu_ms"] = round((server.process.cpu_seconds() - cpu) / held * 1e3, 4)
        row["connects_a_second"] = round(held / took)
        row["connect_ms"] = told[-1][0]
        row["first_connect_ms"] = told[0][0]
        row["subscribe_ms"] = told[-1][1]
        row["worst_ms"] = max(line[2] for line in told)
        time.sleep(1)
        row["descriptors"] = round((server.descriptors() - fds) / held, 3)
        row.update(costs(before, server.memory(), held))
        cpu, start = server.process.cpu_seconds(), time.monotonic()
        time.sleep(options.seconds)
        row["cpu_percent"] = round(
            (server.process.cpu_seconds() - cpu) / (time.monotonic() - start) * 100, 3)
        if server.broker is not None and options.beside:
            row["beside"] = latency_us(rig, server.address)
        if server.broker is not None:
            sender = rig.client("broker-ctl", "--url", server.broker.unix_url, "pub", "idle",
                                "--count", 1, "--size", 64)
            sender.all_lines(60)
            time.sleep(USED_SECONDS)
            row["used"] = costs(before, server.memory(), held)
        for holder in holders:
            holder.kill()
        return row


def print_table(rows):
    print("| system | clients | connect ms | with subscribe | worst | connects/s | broker KiB a "
          "client | anon | tables | shared | used | kernel, both ends | descriptors | idle CPU % |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        if "connect_ms" not in row:
            print(f"| {row['system']} | {row['clients']} | {row.get('stopped', '-')} |" + " - |" * 11)
            continue
        used = f"{row['used']['broker']:.1f}" if "used" in row else "-"
        print(f"| {row['system']} | {row['clients']} | {row['connect_ms']:.3f} | "
              f"{row['connect_ms'] + row['subscribe_ms']:.3f} | {row['worst_ms']:.1f} | "
              f"{row['connects_a_second']} | {row['broker']:.1f} | {row['anon']:.1f} | "
              f"{row['tables']:.1f} | {row['shared']:.1f} | {used} | {row['kernel']:.1f} | "
              f"{row['descriptors']:.2f} | {row['cpu_percent']:.2f} |")
    for row in rows:
        if "stopped" in row:
            print(f"\n{row['system']} stopped at {row['clients']}: {row['stopped']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--clients", default="100,1000,10000")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--spread", type=int, default=2000)
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    for system in options.systems.split(","):
        if program_of(system) is None:
            print(f"{system}: not installed, left out", file=sys.stderr)
            continue
        for count in options.clients.split(","):
            rows.append(measure(options, system, int(count)))
            print(json.dumps(rows[-1]), file=sys.stderr)
    print_table(rows)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)
            out.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
