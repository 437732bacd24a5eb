# SPDX-License-Identifier: Apache-2.0
"""Clients stay while their broker is killed, ended and frozen, and while they are frozen themselves.

    reconnect_test.py [--links ring,stream,ucx]

A broker that is killed and started again: every client is back within a second of that, goes on
publishing and receiving under its handles, nothing comes twice, what was in flight is settled as
unknown, and one gap says that nobody knows. A client that was frozen past its time-out hears that its
session was lost, and its gap is exact. A list of hosts: the next one is taken. retry_first waits for
a broker that is not there yet."""
import json
import signal
import subprocess
import time

from harness import check, patience, until

BACK_WITHIN = 2.0


class Place:
    """A broker's addresses, and the broker that is there."""

    def __init__(self, rig, name):
        self.rig = rig
        self.socket = rig.folder / f"{name}.sock"
        self.port = 0
        self.broker = None

    def start(self, *options):
        listen = ["--listen", f"unix://{self.socket}", "--listen", f"tcp://127.0.0.1:{self.port}"]
        deadline = time.monotonic() + 20
        while True:
            self.broker = self.rig.start(
                [self.rig.program("brokerd"), "--dev", *listen, "-o", "server.workers=2", *options])
            try:
                words = self.broker.expect("ready", 20)
                break
            except Exception:  # the port of the one before is not free yet
                check(time.monotonic() < deadline, f"no broker: {self.broker.log()}")
        self.port = int(words[2].rsplit(":", 1)[1])

    def url(self, link):
        if link == "ring":
            return f"unix://{self.socket}"
        return f"tcp://127.0.0.1:{self.port}?link={link}"


def totals(client):
    client.end_input()
    while True:
        line = client.line(30).split()
        if line[0] == "sent":
            check(client.wait() == 0, client.log())
            return {line[i]: int(line[i + 1]) for i in range(0, len(line), 2)}


def expect_event(client, *words, seconds=15):
    """Lines up to the one where each of the words has come, in whatever order."""
    deadline = time.monotonic() + seconds
    missing = set(words)
    while True:
        line = client.line(max(0.1, deadline - time.monotonic()))
        missing.discard(line.split()[0])
        if not missing:
            return line
        check(line.split()[0] in ("lost", "restored", "gap", "draining", "reads"),
              f"{client.name}: {line}")


def test_a_broker_dies(rig, links):
    place = Place(rig, "dies")
    place.start()
    clients = {}
    for link in links:
        for way in ("send", "lease", "poll"):
            topic = f"dies.{link}.{way}"
            clients[link, way] = rig.start(
                [rig.program("test-returner"), place.url(link), topic, topic,
                 *(["lease"] if way == "lease" else [])],
                env={"RETURNER_POLL": "1"} if way == "poll" else None)
    for client in clients.values():
        client.expect("ready")
    for client in clients.values():
        expect_event(client, "reads")
    rounds = 3
    for number in range(rounds):
        time.sleep(0.3)
        if number == 1:
            place.broker.signal(signal.SIGTERM)
            for client in clients.values():
                expect_event(client, "draining")
            place.broker.wait()
        else:
            place.broker.kill()
        for client in clients.values():
            expect_event(client, "lost")
        place.start()
        start = time.monotonic()
        for (link, way), client in clients.items():
            # A broker that it has read nothing of would be no restart to it.
            expect_event(client, "restored", "reads")
            took = time.monotonic() - start
            check(took < patience(BACK_WITHIN), f"{link} {way}: back after {took:.2f} s")
    time.sleep(0.3)
    for (link, way), client in clients.items():
        seen = totals(client)
        check(seen["received"] <= seen["sent"], f"{seen}")
        check(seen["restarts"] == rounds, f"{link} {way}: {seen}")
        check(seen["missing"] == seen["lost"] == 0, f"{link} {way}: {seen}")
        check(seen["sent"] > 500 and seen["received"] > seen["sent"] / 2, f"{link} {way}: {seen}")
        print(f"{link} {way}: {seen}", flush=True)
    place.broker.kill()


def test_a_client_freezes(rig, links):
    place = Place(rig, "freezes")
    place.start("-o", "limits.peer_timeout=2s", "-o", "limits.heartbeat=200ms")
    clients = {link: rig.start([rig.program("test-returner"), place.url(link), "frozen"])
               for link in links}
    for client in clients.values():
        client.expect("ready")
    publisher = rig.start([rig.program("broker-ctl"), "--url", place.url("ring"), "pub", "frozen",
                           "--rate", "500", "--count", "2500", "--wait-subscribers",
                           str(len(links))])
    # A client that has read nothing yet has no place that a gap could begin at.
    ask = [rig.program("broker-ctl"), "--url", place.url("ring"), "-o", "json", "subs"]
    def read_counts():
        rows = json.loads(subprocess.run(ask, check=True, capture_output=True).stdout)["subs"]
        return [row["delivered"] - row["outstanding"] for row in rows]
    until(30, lambda: all(count > 0 for count in read_counts()), "everybody reads")
    time.sleep(0.5)
    for client in clients.values():
        client.signal(signal.SIGSTOP)
    time.sleep(3.5)
    for client in clients.values():
        client.signal(signal.SIGCONT)
    for link, client in clients.items():
        expect_event(client, "lost")
        seen = {}
        while len(seen) < 2:  # The first message may be faster than the last answer.
            line = client.line(15).split()
            seen[line[0]] = line
        check(set(seen) == {"restored", "gap"} and int(seen["gap"][1]) > 300, f"{link}: {seen}")
    check(publisher.wait() == 0, publisher.log())
    for link, client in clients.items():
        seen = totals(client)
        check(seen["lost"] == seen["missing"] > 300, f"{link}: {seen}")
        check(seen["received"] + seen["lost"] == 2500, f"{link}: {seen}")
        check(seen["restarts"] == 0, f"{link}: {seen}")
        print(f"frozen {link}: {seen}", flush=True)
    place.broker.kill()


def test_named_publishers_send_again(rig, links):
    """What is sent again when a session was lost comes once, and all of it; so it does for the next
    life of the program. Over a broker's end or death nothing is unknown."""
    place = Place(rig, "named")
    place.start("-o", "limits.peer_timeout=2s", "-o", "limits.heartbeat=200ms")
    def start(link):
        return rig.start([rig.program("test-returner"), place.url(link), "nothing", f"n.{link}",
                          f"me-{link}"])
    readers = {link: rig.start([rig.program("test-returner"), place.url("ring"), f"n.{link}"])
               for link in links}
    for reader in readers.values():
        reader.expect("ready")
    publishers = {link: start(link) for link in links}
    for publisher in publishers.values():
        publisher.expect("ready")
    second = start(links[0])
    check(second.wait() == 1 and "another one has it" in second.log(), f"{second.log()}")
    for pause in (0.31, 0.17):
        time.sleep(pause)
        for publisher in publishers.values():
            publisher.signal(signal.SIGSTOP)
        time.sleep(2.7)
        for publisher in publishers.values():
            publisher.signal(signal.SIGCONT)
        for publisher in publishers.values():
            expect_event(publisher, "lost")
            expect_event(publisher, "restored")
    time.sleep(0.3)
    counts = {}
    for link, publisher in publishers.items():
        counts[link] = totals(publisher)
        check(counts[link]["unknown"] == 0, f"{link}: {counts}")
    publishers = {link: start(link) for link in links}  # the next life
    for publisher in publishers.values():
        publisher.expect("ready")
    time.sleep(0.5)
    for link, publisher in publishers.items():
        seen = totals(publisher)
        check(seen["sent"] > counts[link]["sent"] > 1000, f"{link}: {seen} after {counts[link]}")
        read = totals(readers[link])
        check(read["received"] == seen["sent"] and read["lost"] == 0, f"{link}: {seen} {read}")
        print(f"named {link}: {seen}", flush=True)
    publishers = {link: start(link) for link in links}
    for publisher in publishers.values():
        publisher.expect("ready")
    # What is under way when a broker begins to end is refused by it, and taken by the next one.
    for end in (signal.SIGTERM, signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        time.sleep(0.3)
        place.broker.signal(end)
        place.broker.wait()
        place.start()
        for publisher in publishers.values():
            expect_event(publisher, "restored")
    for publisher in publishers.values():
        check(totals(publisher)["unknown"] == 0, publisher.log())
    place.broker.kill()


def test_a_broker_freezes(rig, links):
    """For twice the time-out: it expires nobody when it is back."""
    place = Place(rig, "frozen-broker")
    place.start("-o", "limits.peer_timeout=5s", "-o", "limits.heartbeat=500ms")
    clients = {link: rig.start([rig.program("test-returner"), place.url(link), f"q.{link}",
                                f"q.{link}"]) for link in links}
    for client in clients.values():
        client.expect("ready")
    time.sleep(0.3)
    place.broker.signal(signal.SIGSTOP)
    time.sleep(3)
    place.broker.signal(signal.SIGCONT)
    time.sleep(1)
    for link, client in clients.items():
        seen = totals(client)
        check(seen["received"] == seen["sent"] and seen["unknown"] == 0, f"{link}: {seen}")
    check("ended: " not in place.broker.log().replace("ended: bye", ""), place.broker.log())
    place.broker.kill()
    # For longer than clients wait for it: they come back, to the same broker.
    place.start("-o", "limits.peer_timeout=1s", "-o", "limits.heartbeat=200ms")
    clients = {link: rig.start([rig.program("test-returner"), place.url(link), f"r.{link}",
                                f"r.{link}"]) for link in links}
    for client in clients.values():
        client.expect("ready")
    time.sleep(0.3)
    place.broker.signal(signal.SIGSTOP)
    time.sleep(3)
    place.broker.signal(signal.SIGCONT)
    for link, client in clients.items():
        expect_event(client, "lost")
        expect_event(client, "restored")
        time.sleep(0.2)
        seen = totals(client)
        # What the old session had under way may have arrived, and then been missed, or not.
        check(seen["restarts"] == 0 and seen["lost"] <= seen["missing"] <= seen["unknown"],
              f"{link}: {seen}")
        print(f"silent broker, {link}: {seen}", flush=True)
    place.broker.kill()


def test_the_next_host(rig):
    one, two = Place(rig, "one"), Place(rig, "two")
    client = rig.start([rig.program("test-returner"),
                        f"{one.url('ring')},{two.url('ring')}", "h", "h"])
    time.sleep(0.3)  # Nobody is there yet: retry_first.
    one.start()
    client.expect("ready")
    two.start()
    one.broker.kill()
    expect_event(client, "lost")
    expect_event(client, "restored")
    seen = totals(client)
    check(seen["restarts"] <= 1 and seen["received"] > 0, f"{seen}")
    two.broker.kill()


def test_a_close_while_away(rig):
    place = Place(rig, "away")
    place.start()
    client = rig.start([rig.program("test-returner"), place.url("ring"), "a"])
    client.expect("ready")
    place.broker.kill()
    expect_event(client, "lost")
    start = time.monotonic()
    check(totals(client)["sent"] == 0, client.log())
    check(time.monotonic() - start < 5, "a close waits for nobody")


