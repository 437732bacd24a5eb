#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One subscriber that has stopped and some that are fast, under every policy.

    policies_test.py BUILD [--fast N] [--time SECONDS] [--ratio R] [--policy P]

For each policy a process is stopped (SIGSTOP) in the middle of the stream. The broker's memory stays
within its limit and 5 %; the fast ones get everything; what the stopped one got and what it was told
that it lost add up to what was published, to the message; $SYS tells of it. --ratio is what the fast
ones' rate must be of their rate alone, in the same run: 0.95 on a machine with nothing else to do
(--fast 9 --time 60 is the long form). --policy runs one policy alone, without a look at events.
"""
import json
import os
import pathlib
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import check, main, until

LIMIT = 128 << 20
SIZE = 1000
FEW = 100000
POLICIES = ("block", "drop-oldest", "drop-newest", "latest", "disconnect")


def memory_of(process):
    """What lies in segments, and the heap and the rest of its own. Not the links' rings: those are
    transports.ring_size for each client and way, and mapped twice in a row."""
    own, segments, is_segment = 0, 0, False
    for line in pathlib.Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            is_segment = "memfd:ambroker-segment" in line
        elif words[0] == "Rss:" and is_segment:
            segments += int(words[1]) << 10
        elif words[0] == "Anonymous:" and not is_segment:
            own += int(words[1]) << 10
    return segments + own


class Watch(threading.Thread):
    """The most memory that the broker had."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.most, self.is_over = process, 0, False
        self.start()

    def run(self):
        while not self.is_over:
            self.most = max(self.most, memory_of(self.process))
            time.sleep(0.05)


def ctl(rig, broker, *arguments):
    return rig.client("broker-ctl", "--url", broker.url("ring"), "-o", "json", *arguments)


def subscribe(rig, broker, topic, *arguments):
    return ctl(rig, broker, "sub", topic, "--stats", *arguments)


def subscriptions(broker, topic):
    return [row for row in broker.ask("subs") if row["pattern"] == topic]


def publish(rig, broker, topic, count):
    """Publishes so many messages; how fast."""
    publisher = ctl(rig, broker, "pub", topic, "--count", count, "--size", SIZE, "--stats")
    lines = publisher.all_lines(200)
    check(publisher.wait() == 0, f"the publisher: {lines} {publisher.log()}")
    return json.loads("".join(lines))["messages_per_s"]


def finish(process):
    """Has a subscriber say what it got."""
    process.signal(signal.SIGTERM)
    lines = process.all_lines(60)
    check(process.wait(60) == 0, f"a subscriber: {lines} {process.log()}")
    return json.loads("".join(lines))


def one_more(rig, broker, topic):
    """What was lost at the end shows with what comes next."""
    publisher = ctl(rig, broker, "pub", topic, "--count", 1, "--size", SIZE)
    publisher.all_lines()
    check(publisher.wait() == 0, publisher.log())


def is_quiet(broker, topic):
    return all(row["pending_bytes"] == 0 and row["outstanding"] == 0 for row in subscriptions(broker, topic))


def test_policy(rig, broker, policy, options):
    fast_count, seconds = int(options.get("fast", 3)), float(options.get("time", 1))
    topic = f"t.{policy}"
    # A fast one is late by what the machine does, not by itself.
    holds = ("--policy", "block", "--slow-block", "1m")
    fast = [subscribe(rig, broker, topic, *holds) for _ in range(fast_count)]
    until(20, lambda: len(subscriptions(broker, topic)) == fast_count, "the fast ones are there")
    rate_alone = publish(rig, broker, topic, FEW)
    count = max(FEW, int(rate_alone * seconds))
    rate_alone = publish(rig, broker, topic, count)

    everything = FEW + 2 * count
    stopped = subscribe(rig, broker, topic, "--policy", policy, "--credit", 1000)
    until(20, lambda: len(subscriptions(broker, topic)) == fast_count + 1, "the slow one is there")
    stopped.signal(signal.SIGSTOP)
    watch = Watch(broker)
    rate_beside = publish(rig, broker, topic, count)
    watch.is_over = True
    memory = broker.ask("memory")
    stopped.signal(signal.SIGCONT)
    ratio = rate_beside / rate_alone
    entries = sum(row["entries"] for row in memory)
    line = f"{policy}: {count} messages, {ratio:.2f} of the rate alone, {watch.most >> 20} MiB"
    line += f" ({sum(row['segment_bytes'] for row in memory) >> 20} MiB of segments, {entries} entries)"

    if policy == "disconnect":
        check(stopped.wait(30) not in (0, None), "the stopped one goes on")
        check("disconnect" in stopped.log(), f"why: {stopped.log()}")
        slow = {"messages": 0, "lost": 0}
    else:
        until(60, lambda: is_quiet(broker, topic), f"all is read: {subscriptions(broker, topic)}")
        one_more(rig, broker, topic)
        count += 1
        until(20, lambda: is_quiet(broker, topic), "the last one is read")
        slow = finish(stopped)
        total = slow["messages"] + slow["lost"]
        check(total == count, f"{policy}: {slow['messages']} + {slow['lost']} are not {count}")
        check(slow["lost"] > 0, f"{policy}: the stopped one lost nothing")
    everything += policy != "disconnect"
    for process in fast:
        stats = finish(process)
        check(stats["lost"] == 0, f"{policy}: a fast one lost {stats['lost']}")
        check(stats["messages"] == everything, f"{policy}: a fast one got {stats['messages']}")
    print(f"{line}; the stopped one got {slow['messages']} and lost {slow['lost']}", flush=True)
    wanted = float(options.get("ratio", 0))
    check(ratio >= wanted, f"{policy}: the fast ones have {ratio:.2f} of their rate")
    return watch.most


def expect_events(events):
    """Every policy's subscriber was slow or has lost, and its client has come and gone."""
    seen = {}
    for line in events:
        event = json.loads(line)
        seen.setdefault(event["topic"], 0)
        seen[event["topic"]] += 1
    for topic in ("$SYS.client.come", "$SYS.client.gone", "$SYS.sub.slow", "$SYS.sub.lost"):
        check(seen.get(topic, 0) > 0, f"no event on {topic}: {seen}")
    print(f"events: {seen}", flush=True)


def test(rig, options):
    broker = rig.broker(
        *("-o", f"memory.host.size={LIMIT >> 20}M", "-o", "memory.host.segment=4M"),
        *("-o", "server.max_message=1M", "-o", "server.workers=2"),
        *("-o", "limits.peer_timeout=10m"),
        *("-o", 'topics=( { match = "t.>"; max_bytes = "32M"; } )'),
    )
    base = memory_of(broker)
    events = ctl(rig, broker, "sub", "$SYS.>")
    until(20, lambda: len(subscriptions(broker, "$SYS.>")) == 1, "somebody listens")
    for policy in [options["policy"]] if "policy" in options else POLICIES:
        most = test_policy(rig, broker, policy, options)
        check(most <= LIMIT * 1.05 + base, f"{policy}: {most >> 20} MiB, {base >> 20} at the start")
    time.sleep(0.3)
    events.signal(signal.SIGTERM)
    if "policy" not in options:
        expect_events(events.all_lines())
    broker.stop()


if __name__ == "__main__":
    main(test, 240)
