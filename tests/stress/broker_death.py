#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of brokerd: every client call that waits for it ends with a status within a second. Clients that
reconnect come back to the next one by themselves.

    broker_death.py BUILD [--rounds N] [--links ring,stream,ucx,tls]

Each round has a broker at the same addresses. On each link a waiter is in all calls that wait, without
reconnects. A returner stays through all rounds, publishes, and reads what it has published. After each kill it
must hear of the loss, be back, and read what it has sent to the next broker: once, in order, and without a gap.
"""
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import LINKS, Failure, check, main, patience

CALLS = {"next", "poll", "pub_send", "pub_flush", "flush", "wait_subscribers", "pub_open", "closed"}
BACK_S = 2  # after the next broker is ready, as in reconnect_test.py


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


def start_broker(rig, former):
    """At its addresses, whose ports may not be free yet."""
    deadline = time.monotonic() + 30
    while True:
        try:
            # A client over ucx that gets no core is longer at its handshake than the usual 10 s.
            return rig.broker("-o", "server.workers=2", "-o", "server.handshake_timeout=1m", at=former)
        except Failure:
            check(time.monotonic() < deadline, "no broker")


class Returner:
    """A client that stays."""

    def __init__(self, rig, broker, link):
        self.link = link
        self.process = rig.client("test-returner", broker.url(link), f"back.{link}", f"back.{link}")
        self.process.expect("ready")
        self.expect("reads")

    def expect(self, *words, seconds=30):
        """Lines up to the one where each of the words has come, in whatever order."""
        missing, deadline = set(words), time.monotonic() + seconds
        while missing:
            line = self.process.line(max(0.1, deadline - time.monotonic()))
            word = line.split()[0]
            missing.discard(word)
            check(word in ("lost", "restored", "gap", "reads"), f"{self.link}: {line}")

    def end(self, restarts):
        """What it has sent; all was right."""
        self.process.end_input()
        words = []
        while not words or words[0] != "sent":
            words = self.process.line(30).split()
        check(self.process.wait() == 0, self.process.log())
        seen = {words[i]: int(words[i + 1]) for i in range(0, len(words), 2)}
        check(seen["restarts"] == restarts, f"{self.link}: {seen}, of {restarts} restarts")
        check(seen["missing"] == seen["lost"] == 0, f"{self.link}: {seen}")
        check(seen["sent"] >= seen["received"] > restarts, f"{self.link}: {seen}")
        return seen["sent"]


def one_round(rig, broker, links, returners):
    """The next broker; the slowest call and the slowest return, in seconds."""
    waiters = {link: rig.client("test-waiter", broker.url(link)) for link in links}
    for waiter in waiters.values():
        waiter.expect("waiting", 150)  # longer than it tries to connect, twice
    if rig.looks == 0:
        broker.looked_at()
    time.sleep(random.uniform(0.02, 0.2))
    killed = time.monotonic()
    broker.kill()
    slowest = max(check_waiter(link, waiter, killed) for link, waiter in waiters.items())
    for returner in returners:
        returner.expect("lost")
    following = start_broker(rig, broker)
    ready = time.monotonic()
    for returner in returners:  # A broker that it has read nothing of would be no restart to it.
        returner.expect("restored", "reads")
        back = time.monotonic() - ready
        check(back < patience(BACK_S), f"{returner.link}: back after {back:.2f} s")
    for process in (broker, *waiters.values()):
        rig.forget(process)
    return following, slowest, back


def test(rig, options):
    rounds = int(options.get("rounds", 10))
    links = options["links"].split(",") if "links" in options else LINKS
    broker = start_broker(rig, None)
    returners = [Returner(rig, broker, link) for link in links]
    slowest_call = slowest_back = 0
    for _ in range(rounds):
        broker, call, back = one_round(rig, broker, links, returners)
        slowest_call, slowest_back = max(slowest_call, call), max(slowest_back, back)
    sent = sum(returner.end(rounds) for returner in returners)
    print(f"{rounds} brokers killed; the slowest call ended {slowest_call * 1000:.0f} ms later; after each "
          f"{len(returners)} clients came back by themselves, within {slowest_back:.2f} s of the next broker's "
          f"start; {sent} messages sent, 0 twice, 0 out of order, 0 lost of one broker", flush=True)
    broker.kill()


if __name__ == "__main__":
    main(test, 900, observers=())
