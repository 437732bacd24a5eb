# SPDX-License-Identifier: Apache-2.0
"""One topic, every audience: leased messages of one publisher, written in place, are read by a
mapped subscriber, one that wants copies on its ring, one on a TCP stream and one on UCX, all from
the publisher's own slots.

    audience_test.py [--links ring,stream,ucx]

Every byte is checked. While everybody holds everything, the broker's own buffers hold next to
nothing: there is one copy of the bytes, in the lease, and those that subscribers asked for. The
mapped reader's bytes stay right when its publisher is killed, and go when it gives them back. A
reader whose mapped cap is small is served by copies past it. A topic with trust = verify is served
from the broker's copy."""

import pytest

from harness import check, until

COUNT = 60
MANY = 3000
MAX = 256 << 10
CONFIG = 'topics = ( { match = "verified.>"; trust = "verify"; } );\n'


def audience(rig, broker, links, topic, count, what="read"):
    readers = {
        "mapped": rig.client("test-audience", broker.url(), topic, count, MAX, what),
        "ring": rig.client("test-audience", broker.url(), topic, count, MAX, what, "copy"),
    }
    for link in links:
        if link != "ring":
            name = {"stream": "tcp"}.get(link, link)
            readers[name] = rig.client(
                "test-audience", broker.url(link), topic, count, MAX, what)
    for reader in readers.values():
        reader.expect("ready")
    return readers


def totals(broker):
    workers, memory = broker.ask("workers"), broker.ask("memory")
    return {
        **{name: sum(row[name] for row in workers) for name in ("commits", "commits_refused")},
        **{name: sum(row[name] for row in memory)
           for name in ("used_bytes", "leased_bytes", "quarantined_bytes")},
    }


def expect_held(readers, count):
    for name, reader in readers.items():
        held = reader.expect("held", 60)
        check(held[1:3] == [str(count), "0"], f"the {name} reader: {held}")
        by = dict(item.split("=") for item in held[3:])
        # The first ones come by copy, until the segment is mapped.
        least = count // 2 if name == "mapped" else count
        check(int(by[name]) >= least, f"the {name} reader was served otherwise: {held}")


def tell(readers):
    for reader in readers.values():
        reader.tell("on")


def finish(readers):
    tell(readers)
    for reader in readers.values():
        check(reader.wait() == 0, f"a reader: {reader.log()}")


def test_every_audience(rig, broker, links):
    before = totals(broker)
    readers = audience(rig, broker, links, "audience.all", COUNT)
    publisher = rig.client("test-audience", broker.url(), "audience.all", COUNT, MAX, "lease")
    expect_held(readers, COUNT)
    publisher.expect("published", 60)
    held = totals(broker)
    check(held["commits"] > before["commits"], f"nothing was committed: {held}")
    check(held["leased_bytes"] >= MAX, f"nothing is leased: {held}")
    own = held["used_bytes"] - before["used_bytes"]
    check(own < 1 << 20, f"the broker holds {own} bytes beside the lease")
    publisher.kill()  # What readers hold outlives it.
    tell(readers)
    expect_held(readers, COUNT)
    finish(readers)
    until(10, lambda: totals(broker)["leased_bytes"] == before["leased_bytes"],
          f"the lease is back: {totals(broker)}")
    check(totals(broker)["quarantined_bytes"] == 0, "something is still quarantined")
    print(f"{' '.join(readers)}: {COUNT} messages, {own} bytes of buffers", flush=True)


def test_slot_by_slot(rig, broker, links):
    """More than all slots hold: they come back from every audience, early ones too."""
    readers = audience(rig, broker, links, "audience.many", MANY, "drain")
    publisher = rig.client("test-audience", broker.url(), "audience.many", MANY, MAX, "lease")
    for name, reader in readers.items():
        drained = reader.expect("drained", 100)
        check(drained[1:] == [str(MANY), "0"], f"the {name} reader: {drained}")
        check(reader.wait() == 0, f"a reader: {reader.log()}")
    publisher.expect("published", 60)
    leased = totals(broker)["leased_bytes"]
    check(leased < MANY * MAX // 2, f"the slots were used once: {leased} bytes are leased")
    publisher.tell("on")
    check(publisher.wait() == 0, f"the publisher: {publisher.log()}")
    until(10, lambda: totals(broker)["leased_bytes"] == 0, f"back: {totals(broker)}")
    print(f"{MANY} messages through {leased >> 20} MiB of slots", flush=True)


def size_of(n):
    """As tests/support/programs/audience.c has it."""
    return 16 + n % 1000 if n % 5 == 0 else MAX - n * 7919 % (MAX // 2)


def most_within(cap):
    """So many of the messages fit at most, whichever they are: batches differ from run to run."""
    smallest = sorted(size_of(n) for n in range(1, COUNT + 1))
    return sum(sum(smallest[:k]) <= cap for k in range(1, COUNT + 1))


def test_small_cap(rig):
    cap = 2 << 20
    broker = rig.broker("-o", f"limits.max_mapped_per_session={cap}", "-o", "server.workers=2")
    reader = rig.client("test-audience", broker.url(), "cap", COUNT, MAX, "read")
    reader.expect("ready")
    publisher = rig.client("test-audience", broker.url(), "cap", COUNT, MAX, "lease")
    held = reader.expect("held", 60)
    by = dict(item.split("=") for item in held[3:])
    check(held[1:3] == [str(COUNT), "0"], f"{held}")
    mapped = sum(row["mapped_bytes"] for row in broker.clients())
    check(0 < mapped <= cap, f"{mapped} bytes are held in place: {held}")
    check(0 < int(by["mapped"]) <= most_within(cap), f"at most {most_within(cap)} in place: {held}")
    check(int(by["mapped"]) + int(by["ring"]) == COUNT, f"in place or by the ring: {held}")
    publisher.expect("published", 60)
    tell({"reader": reader, "publisher": publisher})
    reader.expect("held")
    finish({"reader": reader})
    check(publisher.wait() == 0, f"the publisher: {publisher.log()}")
    broker.stop()


def test_verified(rig, broker, links):
    readers = audience(rig, broker, links, "verified.all", COUNT)
    publisher = rig.client("test-audience", broker.url(), "verified.all", COUNT, MAX, "lease")
    expect_held(readers, COUNT)
    publisher.expect("published", 60)
    check(totals(broker)["used_bytes"] > COUNT * MAX // 2, f"no copy: {totals(broker)}")
    tell(readers)
    expect_held(readers, COUNT)
    finish(readers)
    publisher.tell("on")
    check(publisher.wait() == 0, f"the publisher: {publisher.log()}")


@pytest.fixture
def broker(rig):
    file = rig.folder / "broker.conf"
    file.write_text(CONFIG)
    broker = rig.broker("-o", "server.workers=2", "--config", str(file))
    yield broker
    check(totals(broker)["commits_refused"] == 0, f"refused: {totals(broker)}")
    broker.stop()
