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
            ('{ match = "a"; trust_group = "own"; }', "", "topics[a].trust_group: needs a restart (was \"default\""),
            ("", "limits = { window = 1; };", "limits.window")):
        world.write(rules, more)
        done = world.ctl("config", "reload")
        check(done.returncode == 78 and words in done.stderr, f"{rules} {more}: {done}")
    world.config.write_text(world.config.read_text().replace("workers = 2", "workers = 3").replace("window = 1;", ""))
    done = world.ctl("config", "reload")
    check(done.returncode == 78 and "broker.conf:2: server.workers: needs a restart (was 2, becomes 3)" in done.stderr,
          f"{done}")
    check(replayed(world, "a", 5) == 5, "the former rule holds")


def rows(done, code=0):
    check(done.returncode == code, f"{done}")
    return json.loads(done.stdout)


def test_each_fault_has_its_line_and_each_change_its_values(world):
    """What a file would change, and its faults, before it is in force; nothing of that changes anything."""
    other = world.rig.folder / "other.conf"
    other.write_text(BASE.replace("workers = 2", "workers = 3") + 'topics = (\n { match = "a"; ttl = "5s"; } );\n'
                     'limits = { window = "1M"; };\nlog = { level = "warn"; };\n')
    world.reload('{ match = "a"; }, { match = "b"; }')
    changes = {row["key"]: row for row in rows(world.ctl("config", "diff", other, "-o", "json"))}
    check(changes["server.workers"]["applies"] == "restart" and changes["log.level"]["applies"] == "live", changes)
    check(changes["topics[a].ttl"] == {"key": "topics[a].ttl", "was": '"forever"', "becomes": '"5s"', "applies": "live",
                                       "place": f"{other}:4"}, changes)
    check(changes["limits.window"]["applies"] == "new sessions" and changes["topics[b]"]["becomes"] == "none", changes)
    done = world.ctl("config", "test", other)
    check(done.returncode == 0 and "valid" in done.stdout, f"{done}")
    other.write_text('server = { workers = 300; nothing = 1; };\ntopics = ( { match = "a"; ttl = "-1s"; },\n'
                     ' { match = "b"; retain = { keys = -1; }; } );\n')
    for verb in ("diff", "test"):
        done = world.ctl("config", verb, other)
        lines = done.stderr.splitlines()
        check(done.returncode == 78 and len(lines) == 4, f"{done}")
        for line, words in zip(lines, (":1: server.workers: out of range", ":1: server.nothing: unknown key",
                                       ":2: topics[0].ttl: out of range", ":3: topics[1].retain.keys: out of range")):
            check(f"config {verb}: {other}{words}" in line, f"{done}")
        check("(was 2)" in lines[0], lines[0])
    for path in (world.rig.folder / "none", world.rig.folder):
        done = world.ctl("config", "test", path)
        check(done.returncode == 78 and str(path) in done.stderr, f"{done}")
    check(world.ctl("config", "reload").stdout.strip().endswith("valid and unchanged"), "nothing of that is in force")


def test_a_key_is_set_until_the_end(world):
    world.reload('{ match = "a"; }', "limits = { max_topics = 100; };")
    changes = rows(world.ctl("config", "set", "limits.max_topics=3", "-o", "json"))
    check(changes == [{"key": "limits.max_topics", "was": "100", "becomes": "3", "applies": "live", "place": "set"}],
          changes)
    world.write('{ match = "a"; }', "limits = { max_topics = 50; };")
    check("unchanged" in world.ctl("config", "reload").stdout, "what is set goes before the file")
    rows(world.ctl("config", "set", 'topics=( { match = "a"; retain = { messages = 7; }; } )', "-o", "json"))
    world.publish("a", 20)
    check(replayed(world, "a", 7) == 7, "it holds")
    for text, words in (("server.workers=1", "is not live"), ("limits.max_topics=-1", "out of range"),
                        ("limits.max_topic=1", "did you mean limits.max_topics"), ("log.level", "KEY=VALUE"),
                        ("transports.tcp=false", "is not live"),
                        ('topics=( { match = "a"; trust_group = "b"; } )', "needs a restart")):
        done = world.ctl("config", "set", text)
        check(done.returncode == 64 and words in done.stderr, f"{text}: {done}")
    shown = {row["key"]: row for row in
             rows(world.ctl("-o", "json", "config", "show", "--role", "running", "--origin"))}
    check(shown["limits.max_topics"] == {"key": "limits.max_topics", "value": "3", "origin": "set"}, shown)
    check(shown["server.workers"]["origin"] == f"{world.config}:2" and shown["log.level"]["origin"] == "default", shown)
    shown = {row["key"]: row for row in
             rows(world.ctl("-o", "json", "config", "show", "--role", "running", "--defaults"))}
    check(shown["limits.max_topics"] == {"key": "limits.max_topics", "value": "10000"}, shown)
    for i in range(64):  # A key has one place, however often it is set.
        rows(world.ctl("config", "set", f"limits.max_topics={100 + i}", "-o", "json"))


def test_what_has_changed_is_an_event(world):
    listener = world.rig.client("broker-ctl", "--url", world.broker.unix_url, "events", "config.*", "-o", "jsonl",
                                "--count", 3)
    until(20, lambda: world.broker.ask("subs"), "it listens")
    world.ctl("config", "set", "log.level=debug")
    world.ctl("config", "set", "log.level=loud")
    world.write('{ match = "a"; }')
    world.broker.signal(signal.SIGHUP)
    events = [json.loads(line) for line in listener.all_lines(20)]
    check([event["event"].split(".")[-1] for event in events] == ["changed", "refused", "changed"], events)
    check("log.level" in events[0]["note"] and "loud" in events[1]["note"] and "topics[a]" in events[2]["note"], events)


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
