# SPDX-License-Identifier: Apache-2.0
"""Leased memory end to end: every size, every audience of one topic, every byte checked; publishers
that hold leases while they are stopped, expire and go on.

    lease_test.py
"""
import signal
import time

import pytest

from harness import check, until

MIB = 1 << 20
PEER_TIMEOUT = 2
# Sizes, and messages of them.
RUNS = (
    ((64,), 20000),
    ((100, 4096, 16384, 20000, 65536, 70001), 3000),
    ((MIB, 3 * MIB + 5), 60),
    ((64 * MIB,), 8),
)


def start(rig, broker, what, link, topic, count, sizes, *more):
    return rig.client(
        "test-leaser", what, broker.url(link), topic, count, ",".join(map(str, sizes)), *more
    )


def finish(process):
    status = process.wait(60)
    check(status == 0, f"{process.name} ended with {status}: {process.log()}")


def paths(reader):
    words = reader.expect("read", 120)
    finish(reader)
    return {name: int(n) for name, n in (word.split("=") for word in words[1:])}


def pair(rig, broker, what, sizes, count, *more):
    """One publisher on a ring, one reader in place."""
    reader = start(rig, broker, "read", "ring", "pair", count, sizes)
    reader.expect("ready")
    publisher = start(rig, broker, what, "ring", "pair", count, sizes, *more)
    words = publisher.expect("published", 120)
    finish(publisher)
    came = paths(reader)
    print(f"{what} {count} x {sizes}: {words[1]} leased, {words[2]} s, {came}", flush=True)
    return int(words[1]), came


def test_every_size(rig, broker):
    for sizes, count in RUNS:
        for left in reversed(range(10)):
            leased, came = pair(rig, broker, "lease", sizes, count)
            check(leased == count, f"{leased} of {count} messages of {sizes} were leased")
            # Batches up to 64 KiB come by copy until the reader has mapped the segment. Where others
            # have the processors meanwhile that may be all of them.
            if came.get("mapped", 0) > 0 or max(sizes) > 65536:
                break
            check(left > 0, f"{sizes} never come in place")
        check(came.get("mapped", 0) > 0, f"read in place: {came}")
    for sizes, count in (((65536,), 4000), ((MIB,), 100), ((64 * MIB,), 8)):
        leased, came = pair(rig, broker, "plain", sizes, count, "warm")
        # The ring helps where no slot is free.
        check(leased > 0, f"no plain publish of {sizes} took a slot")
        check(came.get("mapped", 0) > 0, f"read in place: {came}")


def test_every_audience(rig, broker):
    """Readers of every kind take the same messages of one topic."""
    sizes, count = (64, 5000, 65536, 70001, MIB), 400
    for what, publisher_link in (("lease", "ring"), ("plain", "ring"), ("lease", "stream")):
        readers = {
            "mapped": start(rig, broker, "read", "ring", "all", count, sizes),
            "ring": start(rig, broker, "read", "ring", "all", count, sizes, "copy"),
            "tcp": start(rig, broker, "read", "stream", "all", count, sizes),
            "ucx": start(rig, broker, "read", "ucx", "all", count, sizes),
        }
        for reader in readers.values():
            reader.expect("ready")
        publisher = start(rig, broker, what, publisher_link, "all", count, sizes)
        publisher.expect("published", 120)
        finish(publisher)
        came = {name: paths(reader) for name, reader in readers.items()}
        for name in ("ring", "tcp", "ucx"):
            check(came[name] == {name: count}, f"the reader by {name}: {came[name]}")
        check(came["mapped"].get("mapped", 0) > 0, f"in place: {came['mapped']}")
        print(f"{what} on {publisher_link}: {came}", flush=True)


def test_held_through_a_stop(rig, impatient, link):
    """A publisher with leases is stopped until it has expired, and goes on."""
    broker = impatient
    holder = start(rig, broker, "hold", link, "held", 6, (100, 70000, MIB))
    holder.expect("holding")
    # First for a moment only: nothing has happened.
    holder.signal(signal.SIGSTOP)
    time.sleep(0.3)
    holder.signal(signal.SIGCONT)
    holder.tell("go")
    check(holder.expect("committed")[1:] == ["0", "0"], f"{link}: after a moment")
    holder.end_input()
    finish(holder)

    holder = start(rig, broker, "hold", link, "held", 6, (100, 70000, MIB))
    holder.expect("holding")
    holder.signal(signal.SIGSTOP)
    mine = lambda: [row for row in broker.clients() if row["name"] == "test-leaser"]
    until(
        PEER_TIMEOUT + 4,
        lambda: all(row["state"] == "quarantined" for row in mine()),
        f"{link}: expired: {broker.clients()}",
    )
    if link == "ring":
        # It may still write there: the memory is nobody else's while the process lives.
        check(sum(row["quarantined_bytes"] for row in mine()) >= 16 * MIB, f"held: {mine()}")
    holder.signal(signal.SIGCONT)
    holder.tell("go")
    # The commit is refused; or it is made before the end was heard, and then its flush is.
    commit, flush = map(int, holder.expect("committed")[1:])
    refused = commit if commit != 0 else flush
    check(-72 <= refused <= -64, f"{link}: a commit after the end of its session: {commit}, {flush}")
    holder.end_input()
    finish(holder)
    until(2, lambda: mine() == [], f"{link}: gone: {broker.clients()}")


def check_nothing_left(broker):
    def left():
        rows = broker.ask("memory")
        keys = ("used_bytes", "leased_bytes", "quarantined_bytes")
        return {key: sum(row[key] for row in rows) for key in keys}

    until(3, lambda: not any(left().values()), f"bytes return: {broker.ask('memory')}")


def serve(rig, *options):
    broker = rig.broker("-o", "server.workers=2", *options)
    broker.ask("status")
    yield broker
    check_nothing_left(broker)
    broker.stop()


@pytest.fixture
def broker(rig):
    yield from serve(rig)


@pytest.fixture
def impatient(rig):
    """One that soon gives up clients that are stopped; elsewhere a busy machine would stop some."""
    yield from serve(rig, "-o", f"limits.peer_timeout={PEER_TIMEOUT}s", "-o", "limits.heartbeat=500ms")
