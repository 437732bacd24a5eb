#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A thread that burns the GIL beside a subscriber: no heartbeat is missed and no session lost, for libamb's
thread wants no GIL. The broker's patience is two seconds, so one missed round shows.

    busy.py [--build DIR] [--package DIR] [--seconds S]

Exit: 0 so it is, 1 it is not, 77 no package."""
import sys
import threading
import time

import program

INTERVAL = 30.0  # between two switches of the GIL: the burning thread keeps it for good


def burn(end):
    """Pure Python, which never waits."""
    rounds = 0
    while time.monotonic() < end:
        for _ in range(100000):
            rounds += 1
    return rounds


def main():
    given = program.options(__doc__, seconds=60.0)
    ambroker = program.module(given)
    with program.rig(given, given.seconds + 120) as rig:
        broker = rig.broker("-o", "limits.peer_timeout=2s")
        events = []
        conn = ambroker.connect(broker.url(), name="busy", heartbeat=0.5, on_event=events.append)
        sub, pub = conn.subscribe("a"), conn.publisher("a")
        pub.send(b"before")
        assert bytes(sub.next(10)) == b"before"
        before = [(row["id"], row["state"]) for row in broker.clients()]
        got = []
        reader = threading.Thread(target=lambda: got.append(bytes(sub.next(given.seconds + 60))))
        reader.start()
        former = sys.getswitchinterval()
        sys.setswitchinterval(INTERVAL)
        rounds = burn(time.monotonic() + given.seconds)
        sys.setswitchinterval(former)
        after = [(row["id"], row["state"]) for row in broker.clients()]
        pub.send(b"after")
        reader.join(30)
        conn.poll(0.1)
        lost = [event.text for event in events if event.type in ("lost", "restored", "closed")]
        conn.close()
        log = broker.log()
    if before != after or lost or got != [b"after"] or "silent" in log:
        sys.exit(f"busy: clients {before}, then {after}; events {lost}; got {got}; the log:\n{log}")
    print(f"{given.seconds:g} s of a busy GIL ({rounds} rounds): client {after[0][0]} is {after[0][1]}, none lost")


if __name__ == "__main__":
    main()
