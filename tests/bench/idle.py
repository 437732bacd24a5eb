#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an idle broker costs: 4 workers, 20 clients that are connected and wait.

    idle.py BUILD [--idle SECONDS] [--limit PERCENT] [--ucx 1] [--json FILE]

Prints the CPU time that broker and clients use over that time (10 s) and the broker's memory.
Fails if the broker needs more than --limit percent of one core (0.15). --ucx 1: the broker trusts
loopback, and five of the clients use the ucx link.
"""
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import check, main

CLIENTS = 20


def memory(process):
    """Resident kilobytes by kind."""
    sizes = {}
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("RssAnon", "RssFile", "RssShmem"):
            sizes[name] = int(value.split()[0])
    return sizes


def switches(process):
    """Voluntary context switches of all its threads: how often somebody woke up."""
    total = 0
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def test(rig, options):
    seconds = float(options.get("idle", 10))
    limit = float(options.get("limit", 0.15))
    has_ucx = options.get("ucx") == "1"
    workers = ("-o", "server.workers=4")
    if has_ucx:
        broker = rig.broker(*workers)
    else:
        config = rig.folder / "idle.conf"
        config.write_text("")
        broker = rig.broker("--config", str(config), *workers, dev=False)
    links = ("ring", "stream", "ring", "ucx") if has_ucx else ("ring", "stream")
    clients = [
        rig.client("test-holder", broker.url(links[i % len(links)]), f"idle.{i}", 0)
        for i in range(CLIENTS)
    ]
    for client in clients:
        client.expect("holding")
    check(len(broker.clients()) == CLIENTS, "not all clients are there")
    time.sleep(1)

    everybody = [broker, *clients]
    cpu = [process.cpu_seconds() for process in everybody]
    woken = [switches(process) for process in everybody]
    start = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - start
    cpu = [process.cpu_seconds() - before for process, before in zip(everybody, cpu)]
    woken = [switches(process) - before for process, before in zip(everybody, woken)]

    percent = 100 * cpu[0] / took
    segments = sum(row["segment_bytes"] for row in broker.ask("memory")) >> 10
    sizes = memory(broker)
    print(f"links                      {' '.join(links)}")
    print(f"broker CPU                 {percent:.2f} % of a core over {took:.1f} s")
    print(f"broker wake-ups            {woken[0] / took:.0f} /s")
    print(f"a client's CPU             {100 * sum(cpu[1:]) / took / CLIENTS:.3f} % of a core")
    print(f"a client's wake-ups        {sum(woken[1:]) / took / CLIENTS:.1f} /s")
    print(f"broker anonymous memory    {sizes['RssAnon'] >> 10} MiB")
    print(f"broker shared memory       {sizes['RssShmem'] >> 10} MiB resident")
    print(f"broker segments            {segments >> 10} MiB")
    if "json" in options:
        result = {"broker_cpu_percent": round(percent, 3), "seconds": round(took, 1),
                  "client_cpu_percent": round(100 * sum(cpu[1:]) / took / CLIENTS, 4),
                  "broker_anon_mib": round(sizes["RssAnon"] / 1024, 1),
                  "segment_mib": segments >> 10}
        pathlib.Path(options["json"]).write_text(json.dumps(result) + "\n")
    check(percent <= limit, f"{percent:.2f} % of a core, not {limit} %")
    broker.stop()


if __name__ == "__main__":
    main(test, 120)
