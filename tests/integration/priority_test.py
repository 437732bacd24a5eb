# SPDX-License-Identifier: Apache-2.0
"""Priorities between processes: a backlog of low ones, then high ones arrive and overtake it.

    priority_test.py

On ring and stream, with the subscriber on the topic's worker and on another one, plain and as a
member of a group. The subscriber is stopped (SIGSTOP) while the backlog grows. Each priority comes in
its order, nothing is lost, and the topic's numbers are one count. What cannot be is refused.
"""
import json
import signal

import pytest

from harness import check, until

LOW, NORMAL, HIGH = 30, 10, 5
CONFIG = """topics = ( { match = "newest"; retain = { keys = 10; }; },
           { match = "kept"; retain = { messages = 100; }; } );
"""


def ctl(rig, url, *arguments):
    return rig.client("broker-ctl", "--url", url, "-o", "json", *arguments)


def publish(rig, url, topic, priority, count):
    # One message a batch: a batch is delivered as a whole.
    publisher = ctl(rig, url, "pub", topic, "--count", count, "--size", 16, "--rate", 300,
                    "--priority", priority)
    check(publisher.wait() == 0, f"pub --priority {priority}: {publisher.log()}")


def expect(lines, first, topic):
    """Whatever is in hand already, then the others by priority."""
    total = LOW + NORMAL + HIGH
    check(len(lines) == total, f"{topic}: {len(lines)} of {total} messages")
    check(all(line["lost"] == 0 for line in lines), f"{topic}: {lines}")
    check(sorted(line["seq"] for line in lines) == list(range(1, total + 1)), f"{topic}: one count")
    order = [line["priority"] for line in lines]
    wanted = ["low"] * first + ["high"] * HIGH + ["normal"] * NORMAL + ["low"] * (LOW - first)
    check(order == wanted, f"{topic}: {order}")
    for priority in ("low", "normal", "high"):
        seqs = [line["seq"] for line in lines if line["priority"] == priority]
        check(seqs == sorted(seqs), f"{topic}, {priority}: {seqs}")


def overtake(rig, broker, url, topic, *options):
    reader = ctl(rig, url, "sub", topic, "--count", LOW + NORMAL + HIGH, *options)
    until(20, lambda: any(row["pattern"] == topic for row in broker.ask("subs")), "subscribed")
    reader.signal(signal.SIGSTOP)
    publish(rig, url, topic, "low", LOW)
    publish(rig, url, topic, "normal", NORMAL)
    publish(rig, url, topic, "high", HIGH)
    rows = {row["priority"]: row["messages"] for row in broker.ask("topics")
            if row["topic"] == topic}
    check(rows == {"low": LOW, "normal": NORMAL, "high": HIGH}, f"{rows}")
    reader.signal(signal.SIGCONT)
    lines = [json.loads(line) for line in reader.all_lines(30)]
    check(reader.wait() == 0, reader.log())
    expect(lines, 1, topic)


def history(rig, broker, url):
    publish(rig, url, "kept", "low", LOW)
    publish(rig, url, "kept", "normal", NORMAL)
    publish(rig, url, "kept", "high", HIGH)
    for index in range(2):  # on both workers
        reader = ctl(rig, url, "sub", "kept", "--start", "first", "--count", LOW + NORMAL + HIGH,
                     "--credit", 1)
        lines = [json.loads(line) for line in reader.all_lines(30)]
        check(reader.wait() == 0, reader.log())
        expect(lines, 0, f"kept, reader {index}")


def refusals(rig, url):
    for topic, priority, reason in (("newest", "high", "retain.keys"), ("x", "urgent", "low")):
        publisher = ctl(rig, url, "pub", topic, "--count", 1, "--priority", priority)
        check(publisher.wait() != 0 and reason in publisher.log(), publisher.log())


@pytest.fixture
def broker(rig):
    config = rig.folder / "broker.conf"
    config.write_text(CONFIG)
    broker = rig.broker("--config", config, "-o", "server.workers=2")
    yield broker
    broker.check_alive()
    broker.stop()


@pytest.mark.parametrize("link", ("ring", "stream"))
def test_a_high_one_overtakes(rig, broker, link):
    url = broker.url(link)
    for index in range(2):
        overtake(rig, broker, url, f"{link}.{index}", "--credit", 1)
    overtake(rig, broker, url, f"{link}.group", "--credit", 1, "--group", "g")


def test_history(rig, broker):
    history(rig, broker, broker.url("ring"))


def test_refusals(rig, broker):
    refusals(rig, broker.url("ring"))
