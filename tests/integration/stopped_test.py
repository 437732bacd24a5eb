# SPDX-License-Identifier: Apache-2.0
"""A subscriber that is stopped for longer than the peer timeout, then a broker that is.

    stopped_test.py [--time SECONDS] [--links ring,stream,ucx]

--time 10 is the long form (stress-stopped). An observer looks at each broker that is not stopped.

The subscriber is noticed within peer_timeout + 1 s; when it goes on it is told, comes back, and what it
got and what it was told that it lost add up to what was published, to the message: where the topic
keeps history nothing is lost. A program that is stopped hears of the loss and of its return as events; its
calls go on, and the first message after tells the gap between the numbers that its publisher wrote. The broker, when it goes on, expires nobody; clients that have given it up
meanwhile come back, and the same sum holds.
"""
import json
import signal
import time

import pytest

from harness import check, until

PEER_TIMEOUT = 2
SIZE = 100
TOPICS = ("kept.a", "plain.a")


def ctl(rig, url, *arguments):
    return rig.client("broker-ctl", "--url", url, "-o", "json", *arguments)


def subscriptions(broker, topic):
    return [row for row in broker.ask("subs") if row["pattern"] == topic]


def client_of(broker, name):
    return next((row for row in broker.clients() if row["name"] == name), None)


def publish(rig, broker, topic, count, *more):
    publisher = ctl(rig, broker.url("ring"), "pub", topic, "--count", count, "--size", SIZE, *more)
    lines = publisher.all_lines(60)
    check(publisher.wait() == 0, f"the publisher: {lines} {publisher.log()}")
    rig.forget(publisher)


def await_all_read(broker, topic):
    until(
        10,
        lambda: all(
            row["pending_bytes"] == 0 and row["outstanding"] == 0
            for row in subscriptions(broker, topic)
        ),
        f"all of {topic} is read",
    )


def finish(process):
    process.signal(signal.SIGTERM)
    lines = process.all_lines(60)
    check(process.wait(60) == 0, f"a subscriber: {lines} {process.log()}")
    return json.loads("".join(lines))


def check_sum(rig, broker, subscribers, published):
    """Of each topic, one more message later."""
    for topic, process in subscribers.items():
        until(10, lambda: subscriptions(broker, topic), f"the subscriber of {topic} is back")
        publish(rig, broker, topic, 1)
        await_all_read(broker, topic)
        stats = finish(process)
        total = stats["messages"] + stats["lost"]
        check(total == published + 1, f"{topic}: {stats} are not {published + 1}")
        if topic.startswith("kept"):
            check(stats["lost"] == 0, f"{topic}: lost though it was kept: {stats}")
        yield topic, stats


def test_stopped_subscribers(rig, broker, link, seconds):
    """Two of them: of a topic that keeps what they miss, and of one that does not."""
    subscribers = {
        t: ctl(rig, broker.url(link), "sub", t, "--stats", "--reconnect", "--client-name", t)
        for t in TOPICS
    }
    for topic in TOPICS:
        until(20, lambda: subscriptions(broker, topic), f"a subscriber of {topic}")
        publish(rig, broker, topic, 100)
        until(10, lambda: subscriptions(broker, topic)[0]["outstanding"] == 0, f"{topic} is read")
    began = time.monotonic()
    for process in subscribers.values():
        process.signal(signal.SIGSTOP)
    noticed = {}
    while len(noticed) < len(subscribers):
        for topic in subscribers:
            row = client_of(broker, topic)
            if topic not in noticed and (row is None or row["state"] != "live"):
                noticed[topic] = time.monotonic() - began
        check(time.monotonic() - began < PEER_TIMEOUT + 1.5, f"{link}: not noticed: {noticed}")
        time.sleep(0.02)
    worst = max(noticed.values())
    check(worst <= PEER_TIMEOUT + 1, f"{link}: noticed after {worst:.2f} s")
    for topic in TOPICS:
        publish(rig, broker, topic, 1000)
    time.sleep(max(0, began + seconds - time.monotonic()))
    for process in subscribers.values():
        process.signal(signal.SIGCONT)
    for topic, stats in check_sum(rig, broker, subscribers, 1100):
        print(f"{link}: {topic}: noticed after {noticed[topic]:.2f} s, then {stats['messages']} and "
              f"{stats['lost']} lost", flush=True)


def numbers(line):
    words = line.split()
    return {name: int(value) for name, value in zip(words[::2], words[1::2])}


def test_a_stopped_reader(rig, broker, link, seconds):
    """A program's view: what it is told, and by which call, while another one publishes a number a millisecond."""
    reader = rig.client("test-returner", broker.url(link), "told.a")
    reader.expect("ready")
    writer = rig.client("test-returner", broker.url("ring"), "silence", "told.a")
    writer.expect("ready")
    reader.expect("reads")  # A gap begins behind what was read,
    time.sleep(0.5)         # and the first messages come by copy.
    reader.signal(signal.SIGSTOP)
    time.sleep(seconds)
    reader.signal(signal.SIGCONT)
    began = time.monotonic()
    heard, after = {}, {}
    while len(heard) < 3:  # The loss comes first.
        word, _, text = reader.line(10).partition(" ")
        check(word in ("lost", "restored", "gap") and ("lost" in heard or word == "lost"), f"{word} {text}")
        heard[word], after[word] = text, (time.monotonic() - began) * 1000
    gap = int(heard["gap"].split()[0])
    writer.end_input()
    sent = numbers(writer.line())["sent"]
    await_all_read(broker, "told.a")
    reader.end_input()
    read = numbers(reader.line())
    # The event says what had gone when the subscription was restored; more may be trimmed before
    # its first delivery, which counts all of it.
    exact = read["lost"] == read["missing"]
    check(exact and 0 < gap <= read["lost"], f"{link}: {read}, and an event of {gap}")
    check(read["received"] + read["lost"] == sent, f"{link}: {read} of {sent}")
    for process in (reader, writer):
        check(process.wait() == 0, f"{link}: {process.log()}")
        rig.forget(process)
    print(f"{link}: stopped for {seconds} s, told after {after['lost']:.0f} ms ({heard['lost']}), back after "
          f"{after['restored']:.0f} ms; {read['received']} of {sent} and a gap of {gap}", flush=True)


def test_a_stopped_broker(rig, broker, link, seconds):
    subscribers = {t: ctl(rig, broker.url(link), "sub", t, "--stats", "--reconnect") for t in TOPICS}
    for topic in TOPICS:
        until(20, lambda: subscriptions(broker, topic), f"a subscriber of {topic}")
        publish(rig, broker, topic, 100)
        # Before its first message a reader has no position, and could not count what it missed.
        await_all_read(broker, topic)
    expired = broker.ask("status")["expired"]
    with broker.unobserved():  # It would give the broker up, too.
        broker.signal(signal.SIGSTOP)
        time.sleep(seconds)
        broker.signal(signal.SIGCONT)
    broker.asker.kill()  # It has given the broker up, and does not come back.
    broker.asker = None
    for topic, stats in check_sum(rig, broker, subscribers, 100):
        check(stats["lost"] == 0, f"{link}: {topic}: {stats}")
    check(broker.ask("status")["expired"] == expired, f"{link}: the broker has expired somebody")
    print(f"{link}: the broker was stopped for {seconds} s, and nobody lost anything", flush=True)


@pytest.fixture
def seconds(options):
    return float(options.get("time", 4))


@pytest.fixture
def broker(rig):
    rig.observe()
    broker = rig.broker(
        *("-o", f"limits.peer_timeout={PEER_TIMEOUT}s", "-o", "limits.heartbeat=500ms"),
        *("-o", "server.workers=2"),
        *("-o", 'topics=( { match = "kept.>"; retain = { messages = 100000; }; } )'),
    )
    broker.ask("status")
    yield broker
    broker.stop()
