#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of brokerd: every client call that waits for it ends with a status within a second.

    broker_death.py BUILD [--rounds N] [--links ring,stream,ucx,tls]
"""
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import LINKS, check, main, patience

CALLS = {"next", "poll", "pub_send", "pub_flush", "flush", "wait_subscribers", "pub_open", "closed"}


def check_waiter(link, waiter, killed):
    """The slowest call, in seconds after the kill."""
    slowest = 0.0
    missing = set(CALLS)
    for _ in CALLS:
        call, status, ended_ns = waiter.line(5).split()
        missing.discard(call)
        after = int(ended_ns) / 1e9 - killed
        check(after > 0, f"{link} {call} ended with {status} {-after:.3f} s before the broker did")
        check(after < patience(1), f"{link} {call} ended {after:.3f} s after the broker")
        check(call == "closed" or int(status) <= -64, f"{link} {call} ended with {status}")
        slowest = max(slowest, after)
    check(not missing, f"{link}: nothing from {missing}")
    check(waiter.wait(5) == 0, f"{link}: the waiter ended with {waiter.popen.returncode}")
    return slowest


def one_round(rig, links):
    broker = rig.broker("-o", "server.workers=2")
    waiters = {link: rig.client("test-waiter", broker.url(link)) for link in links}
    for waiter in waiters.values():
        waiter.expect("waiting")
    if rig.looks == 0:
        broker.looked_at()
    time.sleep(random.uniform(0.02, 0.2))
    killed = time.monotonic()
    broker.kill()
    slowest = max(check_waiter(link, waiter, killed) for link, waiter in waiters.items())
    for process in (broker, *waiters.values()):
        rig.forget(process)
    return slowest


def test(rig, options):
    rounds = int(options.get("rounds", 10))
    links = options["links"].split(",") if "links" in options else LINKS
    slowest = [one_round(rig, links) for _ in range(rounds)]
    print(f"{rounds} brokers killed; the slowest call ended {max(slowest) * 1000:.0f} ms later")


if __name__ == "__main__":
    main(test, 900, observers=())
