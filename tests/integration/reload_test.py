# SPDX-License-Identifier: Apache-2.0
"""Reloads under load: keys of topics and limits are live, a wrong file changes nothing, nothing is lost, and
the heap stays flat. Of the keys of topics `gpu` is not changed here: there is no GPU.

    reload_test.py [--rounds N]     100 reloads, half of them wrong; stress-reload takes 1,000

An observer looks at the broker of these 100. At the others nobody looks: they have few topics, or count all that
read.
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
    def __init__(self, rig, *options, rules=""):
        self.rig, self.config = rig, rig.folder / "broker.conf"
        self.write(rules)
        # Readers that stand still stay.
        self.broker = rig.broker("--config", self.config, "-o", "limits.peer_timeout=10m", *options)

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

    def publish(self, topic, count, size=100, *more):
        done = self.ctl("pub", topic, "--count", count, "--size", size, *more)
        check(done.returncode == 0, f"{done}")

    def start(self, *words):
        return self.rig.client("broker-ctl", "--url", self.broker.unix_url, *map(str, words))

    def topic(self, name):
        return next((row for row in self.broker.ask("topics") if row["topic"] == name), None)

    def read(self, pattern, *more):
        before = len(self.broker.ask("subs"))
        process = self.start("sub", pattern, "-o", "json", *more)
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


def stands_still(world, topic):
    """Nothing comes any more, though more than the 100 of its limit have."""
    seen = []

    def is_still():
        row = world.topic(topic)
        seen.append(row.get("messages", 0) if row else 0)
        return len(seen) > 20 and seen[-1] > 100 and len(set(seen[-20:])) == 1
    until(30, is_still, "the publisher waits")


def test_a_full_log_changes_its_policy(world):
    """A publisher that waits goes on when the topic drops from then on."""
    world.reload('{ match = "a"; max_messages = 100; }')
    reader = world.read("a", "--policy", "block", "--slow-block", "60s")
    reader.signal(signal.SIGSTOP)
    load = world.rig.client("broker-ctl", "--url", world.broker.unix_url, "pub", "a", "--count", "100000", "--size",
                            "1000")
    stands_still(world, "a")
    check(load.is_running(), "100,000 messages have gone to a reader that stands still")
    world.reload('{ match = "a"; max_messages = 100; full = "drop-oldest"; }')
    check(load.wait(60) == 0, load.log())
    reader.signal(signal.SIGCONT)
    reader.kill()


@pytest.fixture
def loaded(rig):
    """Messages go through another topic meanwhile; none of them is lost. One worker: the log of a topic is where its
    readers are, and has what waits for them."""
    world = World(rig, "-o", "server.workers=1")
    reader = world.read("load.a", "--policy", "block", "--stats")
    load = world.start("pub", "load.a", "--count", 10 ** 7, "--size", 64, "--rate", 200)
    until(20, lambda: (world.topic("load.a") or {}).get("messages", 0) > 20, "it is under load")
    yield world
    check(load.is_running() and reader.is_running(), f"{load.log()} {reader.log()}")
    before = world.topic("load.a")["messages"]
    until(20, lambda: world.topic("load.a")["messages"] > before, "the load goes on")
    row = next(row for row in world.broker.ask("subs") if row["pattern"] == "load.a")
    check(row["lost"] == 0, row)
    load.kill()
    reader.kill()
    world.broker.stop()


EACH = ("--rate", 200)  # Small batches: a log keeps and drops whole ones.


def hold(world, topic, count, size, *more):
    """A reader that stands still, and messages that wait for it."""
    reader = world.read(topic, "--credit", 4, *more)
    reader.signal(signal.SIGSTOP)
    world.publish(topic, count, size, *EACH)
    return reader


class Late:
    """A text that is made when it is wanted."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text()


def in_log(world, topic, least, most, column="log_messages"):
    until(20, lambda: least <= (world.topic(topic) or {}).get(column, -1) <= most,
          Late(lambda: f"{least} to {most} {column}: {world.topic(topic)} {sub_row(world, topic)}"))


def sub_row(world, pattern):
    return [row for row in world.broker.ask("subs") if row["pattern"] == pattern]


def test_match_and_order_are_live(loaded):
    keep = "retain = { messages = %d; };"
    loaded.reload('{ match = "a"; ' + keep % 50 + " }")
    loaded.publish("a", 50, 100, *EACH)
    in_log(loaded, "a", 50, 50)
    loaded.reload('{ match = "a"; ' + keep % 40 + ' }, { match = ">"; ' + keep % 10 + " }")
    in_log(loaded, "a", 40, 49)  # Two may have come in one batch, which stays whole.
    done = loaded.reload('{ match = ">"; ' + keep % 10 + ' }, { match = "a"; ' + keep % 40 + " }")
    check("topics" in done, done)
    in_log(loaded, "a", 10, 19)


def test_a_smaller_log_trims_by_its_policy(loaded):
    """max_messages and max_bytes: drop-oldest drops, block keeps what readers wait for."""
    dropping = 'full = "drop-oldest"; slow = "drop-oldest";'
    loaded.reload('{ match = "d"; ' + dropping + ' }, { match = "k"; full = "block"; }')
    readers = [hold(loaded, "d", 200, 5000), hold(loaded, "k", 200, 5000)]
    in_log(loaded, "d", 150, 200)
    in_log(loaded, "k", 190, 200)
    kept = loaded.topic("k")["log_messages"]
    rule = '{ match = "d"; %s ' + dropping + ' }, { match = "k"; full = "block"; %s }'
    loaded.reload(rule % (("max_messages = 50;",) * 2))
    in_log(loaded, "d", 1, 50)
    check(loaded.topic("k")["log_messages"] == kept, loaded.topic("k"))
    loaded.reload(rule % (('max_bytes = "64K";',) * 2))
    in_log(loaded, "d", 1, 65536, "log_bytes")
    check(loaded.topic("k")["log_messages"] == kept, loaded.topic("k"))
    until(20, lambda: loaded.topic("d")["dropped"] >= 100, "the loss is counted")
    check(sub_row(loaded, "k")[0]["lost"] == 0, sub_row(loaded, "k"))
    for reader in readers:
        reader.kill()


def test_history_shrinks_by_each_of_its_limits(loaded):
    keep = '{ match = "%s"; retain = { messages = 200; %s }; %s }'

    def rules(*names):
        return ", ".join(keep % (name, retain, more) for name, retain, more in names)
    loaded.reload(rules(("b", "", ""), ("g", "", ""), ("t", "", "")))
    for name in ("b", "g", "t"):
        loaded.publish(name, 100, 1000, *EACH)
        in_log(loaded, name, 100, 100)
    loaded.reload(rules(("b", 'bytes = "60K";', ""), ("g", 'age = "1ms";', ""), ("t", "", 'ttl = "1ms";')))
    in_log(loaded, "b", 1, 60 << 10, "log_bytes")
    check(loaded.topic("b")["log_messages"] >= 5, loaded.topic("b"))
    in_log(loaded, "g", 0, 0)
    until(20, lambda: replayed_in_time(loaded, "t") == 0, "too old")
    loaded.reload(rules(("b", "", ""), ("g", "", ""), ("t", "", "")))
    check(loaded.topic("g")["log_messages"] == 0, "what has gone does not come back")


def replayed_in_time(world, topic):
    return len(world.ctl("sub", topic, "--start", "first", "-o", "json", "--timeout", "300ms").stdout.splitlines())


def test_keys_are_kept_from_then_on(loaded):
    def keys():
        done = loaded.ctl("sub", "a", "--start", "last", "-o", "json", "--timeout", "500ms")
        return len(done.stdout.splitlines())

    def publish(names):
        for name in names:
            done = loaded.ctl("pub", "a", name, "--key", name)
            check(done.returncode == 0, f"{done}")
    loaded.reload('{ match = "a"; }')
    publish("ab")
    loaded.reload('{ match = "a"; retain = { keys = 10; }; }')
    check(keys() == 0, "keys that came before")
    publish("cdef")
    until(10, lambda: keys() == 4, "those that came since")
    loaded.reload('{ match = "a"; retain = { keys = 2; }; }')
    until(10, lambda: keys() == 2, "a smaller number")
    loaded.reload('{ match = "a"; }')
    until(10, lambda: keys() == 0, "none")


def test_slow_and_slow_block_are_of_new_subscriptions(loaded):
    loaded.reload('{ match = "a"; }, { match = "b"; }')
    former = hold(loaded, "a", 10, 100)
    loaded.reload('{ match = "a"; slow = "drop-oldest"; max_messages = 100; }, '
                  '{ match = "b"; slow = "block"; slow_block = "100ms"; max_messages = 100; }')
    # The former one blocks: its publisher stands still, a window past the limit.
    load = loaded.start("pub", "a", "--count", 20000, "--size", 1000)
    stands_still(loaded, "a")
    check(load.is_running(), "a subscription of the former rule")
    former.kill()
    check(load.wait(60) == 0, load.log())
    for topic in ("a", "b"):
        reader = hold(loaded, topic, 300, 1000)
        until(20, lambda topic=topic: loaded.topic(topic)["dropped"] > 0, f"{topic}: the oldest have gone")
        reader.kill()


def test_spilled_messages_shrink(loaded):
    rule = '{ match = "a"; slow = "spill"; max_messages = 50; spill_max = "%s"; }'
    loaded.reload(rule % "16M")
    reader = hold(loaded, "a", 300, 10000)
    until(20, lambda: loaded.topic("a")["spill_kept_bytes"] > 1 << 20, "it spills")
    check(loaded.topic("a")["spill_dropped"] == 0, loaded.topic("a"))
    loaded.reload(rule % "256K")
    until(20, lambda: loaded.topic("a")["spill_kept_bytes"] <= 256 << 10, "less waits")
    check(loaded.topic("a")["spill_dropped"] > 0, loaded.topic("a"))
    reader.kill()


def test_the_nearest_member_is_preferred_at_once(loaded, links):
    if "ucx" not in links:
        pytest.skip("no link that is remote on a Unix socket")
    loaded.reload('{ match = "a"; prefer = "credit"; }')
    members = [loaded.rig.client("broker-ctl", "--url", url, "sub", "a", "--group", "g", "-o", "json")
               for url in (loaded.broker.url(), f"{loaded.broker.url()}?link=ucx")]
    until(20, lambda: len(sub_row(loaded, "a")) == 2, "two members")

    def shares():
        return sorted((row["nearness"], row["delivered"]) for row in sub_row(loaded, "a"))
    before = dict(shares())
    for _ in range(20):
        loaded.publish("a", 1)
    until(20, lambda: sum(dict(shares()).values()) == 20, "they came")
    check(all(count > 0 for _, count in shares()), f"by credit both get some: {shares()}")
    before = dict(shares())
    loaded.reload('{ match = "a"; prefer = "near"; }')
    for _ in range(20):
        loaded.publish("a", 1)
    until(20, lambda: sum(dict(shares()).values()) == 40, "they came")
    grown = {name: count - before[name] for name, count in shares()}
    check(sorted(grown.values()) == [0, 20] and grown["host"] == 20, f"the near one gets all: {grown}")
    for member in members:
        member.kill()


def test_trust_and_expect_are_of_new_publishers(loaded):
    loaded.reload('{ match = "a"; }')
    reader = loaded.read("a", "--stats")

    def publisher(name):
        process = loaded.rig.client("broker-ctl", "--url", loaded.broker.unix_url, "--client-name", name, "pub", "a",
                                    "--count", 40, "--size", "1M", "--rate", 20, "--hold")

        def row():
            rows = [row for row in loaded.broker.ask("paths") if (row["name"], row["class"]) == (name, "large")]
            return next((row for row in rows if row["direction"] == "publish"), None)
        until(30, lambda: row() and row()["messages"] == 40, f"{name}: {row()}")
        return process, row()
    former, counts = publisher("former")
    check(counts["in_place"] > 0, counts)
    loaded.reload('{ match = "a"; trust = "verify"; }')
    later, counts = publisher("later")
    check(counts["in_place"] == 0 and counts["copied"] == 40, counts)
    loaded.reload('{ match = "a"; expect = "ring"; }')
    check(former.is_running() and later.is_running(), "they stay")
    done = loaded.ctl("pub", "a", "x", "--url", loaded.broker.tcp_url)
    check(done.returncode != 0 and "ring" in done.stderr, f"{done}")
    loaded.publish("a", 1)
    for process in (former, later, reader):
        process.kill()


def test_a_wrong_file_changes_nothing(world):
    world.reload('{ match = "a"; retain = { messages = 5; }; }')
    world.publish("a", 9)
    for rules, more, words in (
            ('{ match = "a"; retain = { messages = -1; }; }', "", "broker.conf:4: topics[0].retain.messages"),
            ('{ match = "a"; nothing = 1; }', "", "nothing"),
            ('{ match = "a"; full = "sometimes"; }', "", "sometimes"),
            ("{ }", "", "match"),
            ('{ match = "a"; trust_group = "own"; }', "", 'topics[a].trust_group: needs a restart (was "default"'),
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
    other.write_text('server = { workers = 2; };\ntransports = { trusted = ( "nope0" ); };\n')
    done = world.ctl("config", "test", other)
    check(done.returncode == 78 and f"config test: {other}:2: transports.trusted: no such" in done.stderr
          and "(was " in done.stderr, f"a fault of a device has its place, key and former value, too: {done}")
    for path in (world.rig.folder / "none", world.rig.folder):
        done = world.ctl("config", "test", path)
        check(done.returncode == 78 and str(path) in done.stderr, f"{done}")
    check(world.ctl("config", "reload").stdout.strip().endswith("valid and unchanged"), "nothing of that is in force")


def test_more_changes_than_rows_are_counted(world):
    rules = ", ".join(f'{{ match = "t{number}.>"; }}' for number in range(1010))
    other = world.rig.folder / "other.conf"
    other.write_text(f"{BASE}topics = ( {rules} );\n")
    changes = rows(world.ctl("config", "diff", other, "-o", "json"))
    check(len(changes) == 1001 and changes[999]["key"] == "topics[t999.>]", f"{len(changes)} {changes[999]}")
    check(changes[1000]["key"] == "and 10 more", changes[1000])


def test_a_value_that_is_no_utf_8_has_its_answer(world):
    """It is in force, so the answer may not be an error."""
    folder = str(world.rig.folder).encode()
    world.config.write_bytes(BASE.encode() + b'log = { audit = "' + folder + b'/caf\xe9.log"; };\n')
    changes = rows(world.ctl("config", "reload", "-o", "json"))
    check([(row["key"], row["becomes"]) for row in changes] == [("log.audit", "no UTF-8")], changes)
    check(os.path.exists(folder + b"/caf\xe9.log"), "it is written")
    world.config.write_bytes(BASE.encode() + b'log = { audit = "' + folder + b'/caf\xe9"; level = "no"; };\n')
    done = world.ctl("config", "reload")
    check(done.returncode == 78 and "log.level: unknown word" in done.stderr, f"{done}")


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


@pytest.fixture
def observed(rig):
    rig.observe()


def test_reloads_half_of_them_wrong_lose_nothing(observed, world, options):  # pylint: disable=unused-argument
    rounds = int(options.get("rounds", 100))
    good = ('{ match = "l.>"; retain = { messages = 10; keys = 4; }; }',
            '{ match = "l.a"; max_messages = 50000; }, { match = "l.>"; ttl = "1h"; }', "")
    world.reload(good[0])
    count = 200 * rounds
    # It stands still until its lines are read: publishers wait for it, however long.
    reader = world.start("sub", "l.a", "-o", "json", "--policy", "block", "--slow-block", "1h", "--count", count)
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
            world.broker.looked_at()
            with world.broker.unobserved():
                middle = heap(world.broker.pid)
    lines = reader.all_lines(120)
    check(load.wait(60) == 0 and reader.wait(60) == 0, f"{load.log()} {reader.log()}")
    check(len(lines) == count and not any(json.loads(line).get("lost") for line in lines), f"{len(lines)} of {count}")
    with world.broker.unobserved():
        grown = heap(world.broker.pid) - middle
    if not world.rig.is_sanitized():  # which keeps what was freed for a while
        check(grown < (8 << 20), f"{grown} bytes of heap more after {rounds // 2} reloads")
    check(os.path.exists(world.config), "the file is still there")
