#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What very many clients, topics and subscriptions to all of them cost: memory of the broker, and
how long one of its threads is away for any of it.

    scale.py BUILD [--brokerd FILE] [--clients 3000] [--topics 100000] [--subs 1000]
             [--messages 100] [--limit KEY=VALUE]...

Clients connect, topics are opened by publishers, subscriptions to all of them come ten to a client,
a message goes into each of some topics, the subscriptions go, and everybody goes. After each step:
anonymous memory in MiB, seconds that the step took, and the longest turn of a worker and round of
the control thread so far, in ms.
"""
import argparse
import json
import subprocess
import tempfile

import heap


def ctl(build, url, what):
    out = subprocess.run([f"{build}/tools/broker-ctl", what, "-o", "json", "--url", url],
                         capture_output=True, text=True, check=True, timeout=60).stdout
    return json.loads(out)


def longest_ms(build, url):
    turns = [row["longest_turn_ns"] for row in ctl(build, url, "workers")["workers"]]
    rounds = ctl(build, url, "status").get("longest_round_ns", 0)
    return max(turns) / 1e6, rounds / 1e6


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--brokerd")
    parser.add_argument("--clients", type=int, default=3000)
    parser.add_argument("--topics", type=int, default=100000)
    parser.add_argument("--subs", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=100)
    parser.add_argument("--limit", action="append", default=[])
    options = parser.parse_args()
    brokerd = options.brokerd or f"{options.build}/broker/brokerd"
    with tempfile.TemporaryDirectory(prefix="amb-scale-") as folder:
        # All clients are one user, which leaves a tenth to others (limits.user_share).
        connections = (options.clients + options.topics // 1000 + options.subs // 10) * 5 // 4 + 20
        settings = ["limits.peer_timeout=1h", "limits.heartbeat=10m",
                    "server.handshake_timeout=1m",
                    f"limits.max_topics={options.topics * 5 // 4 + 1000}",
                    f"server.max_connections={connections}"]
        broker, port = heap.start(brokerd, folder, settings + options.limit)
        load = None
        try:
            load = heap.Load(options.build, port)
            print("| step | MiB | seconds | longest turn, ms | longest round, ms |\n|---|---|---|---|---|")
            for step in (f"connect {options.clients}", f"topics {options.topics} t",
                         f"subscribe {options.subs} >", f"publish {options.messages}",
                         "unsubscribe", "close", "leave 1"):
                seconds = load.tell(step)
                memory = heap.settled(broker.pid)
                turn, control = longest_ms(options.build, f"unix://{folder}/s")
                print(f"| {step} | {memory:.0f} | {seconds:.2f} | {turn:.1f} | {control:.1f} |",
                      flush=True)
        finally:
            if load is not None:
                load.process.kill()
            broker.terminate()
            broker.wait(60)


if __name__ == "__main__":
    main()
