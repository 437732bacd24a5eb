#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight publishers, eight subscribers, 64 topics: what was delivered, judged from logs alone.

    delivery.py BUILD [--messages N] [--links ring,stream,ucx] [--policy block|drop-oldest|ack|cumulative|group]
                [--kills N] [--restarts N] [--max BYTES] [--seed N]

test-load's processes write down what they post and what they get (load.c), delivery-check judges
(check.c). N messages from each publisher, 0 B to 16 MiB; each topic has two subscribers. Clients take
the links in turn. --kills: that many of them are killed at random, and others take their places.
--restarts: that many brokers are killed, and others take their place; what was lost must be what that explains
(policy block only).
With ack and group each message is acknowledged, some after they have come twice; cumulative: some, each
for all before it; group: the eight are
members of one, and dead members' messages go to the others. With drop-oldest topics hold 200 KB, and subscribers are stopped now and then: losses must be exact.
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import LINKS, Failure, check, main, until

CLIENTS = 8


class Load:
    """The clients of one run and their logs."""

    def __init__(self, rig, broker, options):
        self.rig = rig
        self.broker = broker
        self.messages = int(options.get("messages", 4000))
        self.policy = options.get("policy", "block")
        self.max = options.get("max", str(16 << 20))
        self.links = options["links"].split(",") if "links" in options else LINKS
        self.logs = []
        self.pubs = []
        self.subs = []
        self.killed = set()

    def kill(self, client):
        self.killed.add(client)
        client.kill()

    def log(self):
        self.logs.append(str(self.rig.folder / f"log-{len(self.logs)}"))
        return self.logs[-1]

    def written(self):
        """The logs to be judged. Who was killed before it had one has done nothing."""
        clients = self.subs + self.pubs
        early = [log for log, client in zip(self.logs, clients)
                 if client in self.killed and not os.path.exists(log)]
        return [log for log in self.logs if log not in early]

    def url(self, number):
        return self.broker.url(self.links[number % len(self.links)])

    def subscribe(self, number):
        groups = 1 << number % CLIENTS | 1 << (number + 1) % CLIENTS
        if self.policy == "group":
            groups = (1 << CLIENTS) - 1
        room = self.messages * (CLIENTS + 1) * 4
        sub = self.rig.client("test-load", "sub", self.url(number), self.log(), f"{groups:x}",
                              str(room), self.policy)
        sub.expect("ready")
        self.subs.append(sub)

    def publish(self, number):
        self.pubs.append(self.rig.client("test-load", "pub", self.url(number + 1), self.log(),
                                         str(len(self.logs)), str(self.messages), self.max))


def kill_some(load, dice, kills):
    """Publishers at random; each death makes room for another one. And half as often a subscriber,
    which is not replaced: who comes late has not got everything."""
    for number in range(kills):
        time.sleep(dice.uniform(0.01, 0.15))
        living = [pub for pub in load.pubs if pub.is_running()]
        if not living:
            return
        load.kill(dice.choice(living))
        load.publish(dice.randrange(1000))
        if number % 4 == 0 and len([s for s in load.subs if s.is_running()]) > CLIENTS // 2:
            load.kill(dice.choice([s for s in load.subs if s.is_running()]))
        load.broker.check_alive()


def count_of(path):
    """Records in a log, which may not be there yet."""
    try:
        with open(path, "rb") as log:
            return int.from_bytes(log.read(40)[32:], "little")
    except FileNotFoundError:
        return 0


def restart_some(load, dice, restarts, options):
    """Brokers end by SIGKILL while all publish, and another takes the place; how many did."""
    if restarts:
        until(60, lambda: all(count_of(log) for log in load.logs[CLIENTS:]), "all have begun")
    for number in range(restarts):
        time.sleep(dice.uniform(0.3, 1.0))
        if not all(pub.is_running() for pub in load.pubs):
            return number
        load.broker.kill()
        deadline = time.monotonic() + 30
        while True:
            try:
                load.broker = load.rig.broker(*options, at=load.broker)
                break
            except Failure:  # Its port is not free yet.
                check(time.monotonic() < deadline, "no broker")
    return restarts


def stop_some(load, dice):
    """Subscribers fall behind, so that something is dropped."""
    while any(pub.is_running() for pub in load.pubs):
        sub = dice.choice(load.subs)
        sub.signal(signal.SIGSTOP)
        time.sleep(dice.uniform(0.05, 0.3))
        sub.signal(signal.SIGCONT)


def test(rig, options):
    seed = int(options.get("seed", time.time_ns() & 0xFFFFFF))
    kills, restarts = int(options.get("kills", 0)), int(options.get("restarts", 0))
    drops = options.get("policy") == "drop-oldest"
    seconds = int(options.get("seconds", 280))
    print(f"seed {seed}", flush=True)
    dice = random.Random(seed)
    config = rig.folder / "delivery.conf"
    config.write_text('topics = ( { match = "load.>"; max_bytes = "200K"; } );' if drops else "")
    broker_options = ("--config", str(config), "-o", "server.workers=2")
    broker = rig.broker(*broker_options)
    load = Load(rig, broker, options)
    for number in range(CLIENTS):
        load.subscribe(number)
    for number in range(CLIENTS):
        load.publish(number)
    kill_some(load, dice, kills)
    restarts = restart_some(load, dice, restarts, broker_options)
    if drops:
        stop_some(load, dice)
    for pub in load.pubs:
        if pub not in load.killed:
            pub.expect("done", seconds)
            check(pub.wait(seconds) == 0, f"a publisher: {pub.log()}")
    for sub in load.subs:
        if sub.is_running():
            sub.signal(signal.SIGTERM)
    for sub in load.subs:
        check(sub.wait(60) in (0, -signal.SIGKILL), f"a subscriber: {sub.log()}")
    load.broker.check_alive()
    judge = [str(rig.program("delivery-check")), *(["--killed"] if kills else []),
             *(["--restarts", str(restarts)] if restarts else []), *load.written()]
    done = subprocess.run(judge, capture_output=True, text=True, check=False)
    print(done.stdout.strip(), flush=True)
    check(done.returncode == 0, done.stderr)
    check(not restarts or json.loads(done.stdout)["told"] > 0, "nobody heard of a restart")
    check(not drops or json.loads(done.stdout)["lost"] > 0, "nothing was dropped")
    load.broker.stop()


if __name__ == "__main__":
    main(test, 1500)
