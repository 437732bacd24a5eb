#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that lease and map are frozen until they are expired, then go on.

    expiry.py BUILD [--rounds N] [--seed N]

Each round stops ten victims at a random moment, waits until the broker has expired all of them,
lets others use the memory for a while, and has the victims continue: with leases half written,
commits not yet sent and messages held in place. Each must find its session over and nothing that it
held changed. Checkers publish, receive and watch what victims publish meanwhile: no wrong byte, no
loss, no long silence. What was taken for the victims is back within a second of their end.
"""
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from death import stop_checkers
from harness import Victims, check, main, patience, until

VICTIMS = 10
PEER_TIMEOUT = 1.5  # where the others get a core within that; longer on a busy machine


def quarantined(broker):
    return sum(row["quarantined_bytes"] for row in broker.ask("memory"))


def one_round(victims, broker, dice, number, peer_timeout):
    phases = [dice.choice(("lease", "hold")) for _ in range(VICTIMS)]
    pids = [victims.start(broker.url("ring"), f"{phase}-{i}", phase)
            for i, phase in enumerate(phases)]
    until(20, lambda: sum(row["pid"] in pids for row in broker.clients()) == VICTIMS,
          "all victims have their session")
    time.sleep(dice.uniform(0.05, 0.4))
    for pid in pids:
        victims.signal_victim(pid, signal.SIGSTOP)
    until(peer_timeout + 5,
          lambda: all(row["state"] == "quarantined" for row in broker.clients()
                      if row["pid"] in pids),
          f"all are expired: {broker.clients()}")
    held = quarantined(broker)
    time.sleep(dice.uniform(0, 0.3))
    dice.shuffle(pids)
    for pid in pids:
        victims.signal_victim(pid, signal.SIGCONT)
    for pid in pids:
        victims.bury(pid, 0)  # Its next call said that the session is over.
    until(1, lambda: quarantined(broker) == 0, "what they held is back")
    check(not any(row["pid"] in pids for row in broker.clients()), "sessions are left")
    broker.check_alive()
    print(f"round {number}: {VICTIMS} frozen, expired and gone on, {held >> 20} MiB held", flush=True)
    return held


def test(rig, options):
    rounds = int(options.get("rounds", 2))
    seed = int(options.get("seed", time.time_ns() & 0xFFFFFF))
    print(f"seed {seed}", flush=True)
    dice = random.Random(seed)
    peer_timeout = patience(PEER_TIMEOUT)
    broker = rig.broker("-o", "server.workers=2", "-o", f"limits.peer_timeout={peer_timeout * 1000:.0f}ms",
                        "-o", "limits.heartbeat=300ms")
    victims = Victims(rig)
    checkers = []
    for publish, subscribe in (("ring", "ring"), ("stream", "ring")):
        checkers.append(rig.client("test-checker", broker.url(publish), broker.url(subscribe),
                                   f"{publish}-{subscribe}", "--rate", "200", "--watch", "victim.>"))
    for checker in checkers:
        checker.expect("ready")
    held = sum(one_round(victims, broker, dice, number, peer_timeout) for number in range(rounds))
    check(held > 0, "nothing was ever held: this tests nothing")
    expired = broker.ask("status")["expired"]
    check(expired == rounds * VICTIMS, f"{expired} expired, not {rounds * VICTIMS}")
    stop_checkers(checkers, 1)
    broker.stop()


if __name__ == "__main__":
    main(test, 900, observers=())
