# SPDX-License-Identifier: Apache-2.0
"""Reloads under load: keys of topics and limits are live, a wrong file changes nothing, nothing is lost, and
the heap stays flat.

    reload_test.py [--rounds N]     100 reloads, half of them wrong; stress-reload takes 1,000
"""
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from harness import check, until

BASE = 'memory = { host = { size = "64M"; segment = "16M"; }; };\nserver = { workers = 2; };\n'


class World:
    def __init__(self, rig, rules=""):
        self.rig, self.config = rig, rig.folder / "broker.conf"
        self.write(rules)
        self.broker = rig.broker("--config", self.config)

    def write(self, rules, more=""):
        self.config.write_text(f"{BASE}{more}\ntopics = ( {rules} );\n")

    def ctl(self, *words, data=None):
        return subprocess.run([self.rig.program("broker-ctl"), "--url", self.broker.unix_url, *map(str, words)],
                              input=data, text=True, capture_output=True, timeout=60, check=False)

    def reload(self, rules, more=""):
        self.write(rules, more)
        done = self.ctl("config", "reload")
        check(done.returncode == 0, f"{done}")
        return done.stdout

    def publish(self, topic, count, size=100):
        done = self.ctl("pub", topic, "--count", count, "--size", size)
        check(done.returncode == 0, f"{done}")

    def topic(self, name):
        return next((row for row in self.broker.ask("topics") if row["topic"] == name), None)

    def read(self, pattern, *more):
        before = len(self.broker.ask("subs"))
        process = self.rig.client("broker-ctl", "--url", self.broker.unix_url, "sub", pattern, "-o", "json", *more)
        until(20, lambda: len(self.broker.ask("subs")) > before, f"it reads {pattern}")
        return process


@pytest.fixture
def world(rig):
    own = World(rig)
    yield own
    if own.broker.is_running():
        own.broker.stop()


def replayed(world, topic, count):
    """How many messages a reader from the first on gets."""
    done = world.ctl("sub", topic, "--start", "first", "-o", "json", "--count", count)
    return len(done.stdout.splitlines())


def test_history_begins_and_shrinks_while_it_runs(world):
    world.publish("a", 10)
    answer = world.reload('{ match = "a"; retain = { messages = 50; }; }')
    check("topics" in answer, answer)
    world.publish("a", 100)
    check(replayed(world, "a", 50) == 50, "50 are kept")
    world.reload('{ match = "a"; retain = { messages = 20; }; }')
    check(replayed(world, "a", 20) == 20, "20 are kept")


def test_a_full_log_changes_its_policy(world):
    """A publisher that waits goes on when the topic drops from then on."""
    world.reload('{ match = "a"; max_messages = 100; }')
    reader = world.read("a", "--policy", "block", "--slow-block", "60s")
    reader.signal(signal.SIGSTOP)
    load = world.rig.client("broker-ctl", "--url", world.broker.unix_url, "pub", "a", "--count", "100000", "--size",
                            "1000")
    seen = []

    def stands_still():
        row = world.topic("a")
        seen.append(row.get("messages", 0) if row else 0)
        return len(seen) > 20 and seen[-1] > 100 and len(set(seen[-20:])) == 1
    until(30, stands_still, f"the publisher waits: {seen[-5:]}")
    check(load.is_running(), "100,000 messages have gone to a reader that stands still")
    world.reload('{ match = "a"; max_messages = 100; full = "drop-oldest"; }')
    check(load.wait(60) == 0, load.log())
    reader.signal(signal.SIGCONT)
    reader.kill()


def test_a_wrong_file_changes_nothing(world):
    world.reload('{ match = "a"; retain = { messages = 5; }; }')
    world.publish("a", 9)
    for rules, more, words in (
            ('{ match = "a"; retain = { messages = -1; }; }', "", "broker.conf:4: topics[0].retain.messages"),
            ('{ match = "a"; nothing = 1; }', "", "nothing"),
            ('{ match = "a"; full = "sometimes"; }', "", "sometimes"),
            ("{ }", "", "match"),
            ('{ match = "a"; trust_group = "own"; }', "", "topics.trust_group"),
            ("", "limits = { window = 1; };", "limits.window")):
        world.write(rules, more)
        done = world.ctl("config", "reload")
        check(done.returncode != 0 and words in done.stderr, f"{rules} {more}: {done}")
    world.config.write_text(world.config.read_text().replace("workers = 2", "workers = 3").replace("window = 1;", ""))
    done = world.ctl("config", "reload")
    check(done.returncode != 0 and "server.workers" in done.stderr, f"{done}")
    check(replayed(world, "a", 5) == 5, "the former rule holds")


def test_more_topics_than_at_the_start(world):
    world.reload("", "limits = { max_topics = 3; };")
    for name in ("a", "b", "c"):
        world.publish(name, 1)
    check(world.ctl("pub", "d", "--count", 1, "--size", 10).returncode != 0 or
          len(world.broker.ask("topics")) <= 3, "a fourth one")
    world.reload("", "limits = { max_topics = 30000; };")
    for name in ("d", "e", "f"):
        world.publish(name, 1)


def heap(pid):
    """Anonymous memory of the process, in bytes."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", text)[1]) * 1024


def test_reloads_half_of_them_wrong_lose_nothing(world, options):
    rounds = int(options.get("rounds", 100))
    good = ('{ match = "l.>"; retain = { messages = 10; keys = 4; }; }',
            '{ match = "l.a"; max_messages = 50000; }, { match = "l.>"; ttl = "1h"; }', "")
    world.reload(good[0])
    count = 200 * rounds
    reader = world.rig.client("broker-ctl", "--url", world.broker.unix_url, "sub", "l.a", "-o", "json", "--policy", "block",
                              "--count", count)
    until(20, lambda: world.broker.ask("subs"), "it reads")
    load = world.rig.client("broker-ctl", "--url", world.broker.unix_url, "pub", "l.a", "--count", count, "--size", 64)
    middle = None
    for i in range(rounds):
        if i % 2 == 0:
            world.reload(good[i // 2 % len(good)])
        else:
            world.write('{ match = "l.>"; wrong = 1; }')
            done = world.ctl("config", "reload")
            check(done.returncode != 0 and "wrong" in done.stderr, f"{done}")
        if i == rounds // 2:
            middle = heap(world.broker.pid)
    lines = reader.all_lines(120)
    check(load.wait(60) == 0 and reader.wait(60) == 0, f"{load.log()} {reader.log()}")
    check(len(lines) == count and not any(json.loads(line).get("lost") for line in lines), f"{len(lines)} of {count}")
    grown = heap(world.broker.pid) - middle
    if not world.rig.is_sanitized():  # which keeps what was freed for a while
        check(grown < (8 << 20), f"{grown} bytes of heap more after {rounds // 2} reloads")
    check(os.path.exists(world.config), "the file is still there")
