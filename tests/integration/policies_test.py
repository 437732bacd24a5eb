# SPDX-License-Identifier: Apache-2.0
"""One subscriber that has stopped and some that are fast, under every policy.

    policies_test.py [--fast N] [--time SECONDS] [--pairs N] [--ratio R] [--policy P]
                     [--backlog SIZE] [--size BYTES] [--flow BYTES]

For each policy a process is stopped (SIGSTOP) in the middle of the stream. The broker's memory stays
within its limit and 5 %; the fast ones get everything; what the stopped one got and what it was told
that it lost add up to what was published, to the message; $SYS tells of it. --ratio is what the fast
ones' rate must be of their rate alone, in the same run: 0.95 on a machine with nothing else to do
(--fast 9 --time 60 is the long form). --policy runs one policy alone, without a look at events.

A ratio of two single runs is mostly a matter of which processor each process was put on. --pairs:
so often alone and beside one that is stopped anew, in turn, the later ones in the opposite order;
the ratio is that of all the time alone to all the time beside. --time is of one run. --backlog is
the topics' max_bytes, what is kept for one that is stopped: 32M. --size: of a message. --flow: so many
bytes a second and no more, for --time a policy, and no run alone (--flow 1000000000 --size 65536 --time 50
is five minutes at 1 GB/s).
"""
import json
import os
import pathlib
import signal
import statistics
import threading
import time

from harness import check, until

SECONDS = 1500  # of the long form
LIMIT = 128 << 20
SIZE = 1000
FEW = 100000
POLICIES = ("block", "drop-oldest", "drop-newest", "latest", "spill", "disconnect")


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
    """The most memory that the broker had. To look costs a few milliseconds of everybody's time, so
    there is one of these also where what it sees is of no interest."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.most, self.is_over = process, 0, False
        self.start()

    def run(self):
        while not self.is_over:
            self.most = max(self.most, memory_of(self.process))
            time.sleep(0.25)


def ctl(rig, broker, *arguments):
    return rig.client("broker-ctl", "--url", broker.url("ring"), "-o", "json", *arguments)


def subscribe(rig, broker, topic, *arguments):
    return ctl(rig, broker, "sub", topic, "--stats", *arguments)


def subscriptions(broker, topic):
    return [row for row in broker.ask("subs") if row["pattern"] == topic]


def cpu_seconds(process):
    words = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Run:
    """What one stream took: seconds, the broker's own, and the most memory of the broker."""

    def __init__(self, seconds, cpu, most):
        self.seconds, self.cpu, self.most = seconds, cpu, most


def publish(rig, broker, topic, count, options):
    """Publishes so many messages."""
    watch, before = Watch(broker), cpu_seconds(broker)
    size, flow = size_of(options), int(options.get("flow", 0))
    rate = ("--rate", max(1, flow // size)) if flow else ()
    publisher = ctl(rig, broker, "pub", topic, "--count", count, "--size", size, "--stats", *rate)
    lines = publisher.all_lines(200 + 10 * float(options.get("time", 1)))
    check(publisher.wait() == 0, f"the publisher: {lines} {publisher.log()}")
    watch.is_over = True
    rate = json.loads("".join(lines))["messages_per_s"]
    return Run(count / rate, cpu_seconds(broker) - before, max(watch.most, memory_of(broker)))


def size_of(options):
    return int(options.get("size", SIZE))


def few_of(options):
    """As many bytes of any size, but more messages than a topic keeps and a subscription has credit for."""
    return max(FEW * SIZE // size_of(options), 4000)


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


class Stopped:
    """One subscriber that is stopped before the stream begins, and what becomes of it."""

    def __init__(self, rig, broker, policy, topic, fast_count, credit):
        self.rig, self.broker, self.policy, self.topic = rig, broker, policy, topic
        self.process = subscribe(rig, broker, topic, "--policy", policy, "--credit", credit)
        until(20, lambda: len(subscriptions(broker, topic)) == fast_count + 1, "the slow one is there")
        self.process.signal(signal.SIGSTOP)

    def judge(self, count):
        """After `count` messages: how many more there were, for the last loss to be told; what it
        got and what it lost."""
        policy, broker, topic = self.policy, self.broker, self.topic
        self.process.signal(signal.SIGCONT)
        if policy == "disconnect":
            check(self.process.wait(30) not in (0, None), "the stopped one goes on")
            check("disconnect" in self.process.log(), f"why: {self.process.log()}")
            # The others may still be reading.
            until(60, lambda: is_quiet(broker, topic), f"all is read: {subscriptions(broker, topic)}")
            return 0, 0, 0
        until(60, lambda: is_quiet(broker, topic), f"all is read: {subscriptions(broker, topic)}")
        one_more(self.rig, broker, topic)
        until(20, lambda: is_quiet(broker, topic), "the last one is read")
        got = finish(self.process)
        total = got["messages"] + got["lost"]
        check(total == count + 1, f"{policy}: {got['messages']} + {got['lost']} are not {count + 1}")
        check(got["lost"] > 0, f"{policy}: the stopped one lost nothing")
        return 1, got["messages"], got["lost"]


class Tally:
    """What the runs of one policy come to."""

    def __init__(self):
        self.alone, self.beside = [], []  # runs
        self.most = self.got = self.lost = 0
        self.line = ""

    def ratio(self):
        return sum(run.seconds for run in self.alone) / sum(run.seconds for run in self.beside)

    def cpu(self, count):
        """The broker's, in microseconds a message: alone, beside one that is stopped."""
        return [sum(run.cpu for run in runs) / len(runs) / count * 1e6
                for runs in (self.alone, self.beside)]


def run_beside(rig, broker, policy, fast_count, count, tally, options):
    """A stream with one that is stopped. How many messages there were."""
    topic = f"t.{policy}"
    stopped = Stopped(rig, broker, policy, topic, fast_count, min(1000, (16 << 20) // size_of(options)))
    run = publish(rig, broker, topic, count, options)
    tally.beside.append(run)
    memory = broker.ask("memory")
    entries = sum(row["entries"] for row in memory)
    segments = sum(row["segment_bytes"] for row in memory)
    more, got, lost = stopped.judge(count)
    tally.most = max(tally.most, run.most)
    tally.got, tally.lost = tally.got + got, tally.lost + lost
    tally.line = f"{segments >> 20} MiB of segments, {entries} entries"
    until(20, lambda: len(subscriptions(broker, topic)) == fast_count, "the slow one has gone")
    return count + more


def one_policy(rig, broker, policy, options):
    fast_count, seconds = int(options.get("fast", 3)), float(options.get("time", 1))
    topic = f"t.{policy}"
    # A fast one is late by what the machine does, not by itself.
    holds = ("--policy", "block", "--slow-block", "1m")
    fast = [subscribe(rig, broker, topic, *holds) for _ in range(fast_count)]
    until(20, lambda: len(subscriptions(broker, topic)) == fast_count, "the fast ones are there")
    few, flow, tally = few_of(options), int(options.get("flow", 0)), Tally()
    first = publish(rig, broker, topic, few, options)
    everything = few
    count = max(few, int(flow / size_of(options) * seconds) if flow else int(few / first.seconds * seconds))
    for pair in range(int(options.get("pairs", 1))):
        for is_beside in (True,) if flow else (pair % 2 == 1, pair % 2 == 0):
            if is_beside:
                everything += run_beside(rig, broker, policy, fast_count, count, tally, options)
            else:
                tally.alone.append(publish(rig, broker, topic, count, options))
                everything += count
    for process in fast:
        stats = finish(process)
        check(stats["lost"] == 0, f"{policy}: a fast one lost {stats['lost']}")
        check(stats["messages"] == everything, f"{policy}: a fast one got {stats['messages']}")
    if flow:
        taken = sum(run.seconds for run in tally.beside)
        print(f"{policy}: {taken:.0f} s at {len(tally.beside) * count * size_of(options) / taken / 1e9:.2f} GB/s,"
              f" at most {tally.most >> 20} MiB ({tally.line}); the stopped one got {tally.got} and lost"
              f" {tally.lost}", flush=True)
        return tally.most
    pairs = sorted(a.seconds / b.seconds for a, b in zip(tally.alone, tally.beside))
    cpu_alone, cpu_beside = tally.cpu(count)
    print(f"{policy}: {len(pairs)} x {count} messages, {tally.ratio():.2f} of the rate alone (pairs"
          f" {pairs[0]:.2f} to {pairs[-1]:.2f}, median {statistics.median(pairs):.2f}),"
          f" {cpu_beside:.3f} of {cpu_alone:.3f} us a message in the broker,"
          f" {tally.most >> 20} MiB ({tally.line}); the stopped one got {tally.got} and lost"
          f" {tally.lost}", flush=True)
    wanted = float(options.get("ratio", 0))
    check(tally.ratio() >= wanted, f"{policy}: the fast ones have {tally.ratio():.2f} of their rate")
    return tally.most


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


def test_every_policy(rig, options):
    broker = rig.broker(
        *("-o", f"memory.host.size={LIMIT >> 20}M", "-o", "memory.host.segment=4M"),
        *("-o", "server.max_message=1M", "-o", "server.workers=2"),
        *("-o", "limits.peer_timeout=10m"),
        *("-o", f'topics=( {{ match = "t.>"; max_bytes = "{options.get("backlog", "32M")}"; spill_max = "32M"; }} )'),
    )
    base = memory_of(broker)
    events = ctl(rig, broker, "sub", "$SYS.>")
    until(20, lambda: len(subscriptions(broker, "$SYS.>")) == 1, "somebody listens")
    for policy in [options["policy"]] if "policy" in options else POLICIES:
        most = one_policy(rig, broker, policy, options)
        check(most <= LIMIT * 1.05 + base, f"{policy}: {most >> 20} MiB, {base >> 20} at the start")
    time.sleep(0.3)
    events.signal(signal.SIGTERM)
    if "policy" not in options:
        expect_events(events.all_lines())
    broker.stop()
