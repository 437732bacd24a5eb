# SPDX-License-Identifier: Apache-2.0
"""Verbs of operators: a topic is emptied or removed, a queue's messages come again, a client is told why it
goes. Each has a line in the log and an event."""
import json
import os
import subprocess

import pytest
from harness import check, until

USAGE, DATA, UNAVAILABLE = 64, 65, 69
VERBS = {"purge", "rm", "redeliver", "kick"}


@pytest.fixture(params=(1, 2))
def broker(rig, request):
    """With two workers, readers are on another one than their topic, or not."""
    return rig.broker("-o", f"server.workers={request.param}", "-o",
                      'topics=( { match = "kept.>"; retain = { messages = 1000; }; } )')


def ctl(rig, broker, *arguments, data="", code=0):
    if VERBS & set(arguments):
        arguments = (*arguments, "--yes")
    done = subprocess.run([rig.program("broker-ctl"), "--url", broker.url(), *map(str, arguments)], capture_output=True,
                          timeout=60, check=False, input=data, text=True, errors="replace")
    check(done.returncode == code, f"{arguments}: {done}")
    return done


def refused(rig, broker, *arguments, said, code=DATA):
    done = ctl(rig, broker, *arguments, code=code)
    check(said in done.stderr and done.stderr.count("\n") == 1 and done.stdout == "", f"{done}")


def answer(rig, broker, *arguments):
    row, = json.loads(ctl(rig, broker, "-o", "json", *arguments).stdout)
    return row


def sub(rig, broker, *arguments):
    before = len(broker.ask("subs"))
    process = rig.client("broker-ctl", "--url", broker.url(), "sub", *arguments)
    until(20, lambda: len(broker.ask("subs")) > before or not process.is_running(), process.log())
    return process


def topic(broker, name):
    return next((row for row in broker.ask("topics") if row["topic"] == name), None)


# ---- topics ----

def test_history_goes(rig, broker):
    ctl(rig, broker, "pub", "kept.a", "--count", 100)
    ctl(rig, broker, "pub", "kept.b", "--count", 3)
    row = answer(rig, broker, "topics", "purge", "kept.a")
    check(row["messages"] == 100 and row["note"] == "100 messages dropped" and row["result"] == "done", row)
    ctl(rig, broker, "pub", "kept.a", "after")
    reader = sub(rig, broker, "kept.a", "--start", "first", "--count", 1, "-F", "%s %p")
    check(reader.line() == "101 after", "only what came later")
    check(topic(broker, "kept.b")["log_messages"] == 3, "another topic stays as it is")
    check(answer(rig, broker, "topics", "purge", "kept.a")["messages"] == 1, "once more")
    check(answer(rig, broker, "topics", "purge", "kept.a")["note"] == "0 messages dropped", "nothing is left")


def test_readers_hear_of_it_by_a_reason_of_its_own(rig, broker):
    """One that stands still: it has some, and loses the rest."""
    lazy = [sub(rig, broker, "t.a", "-o", "jsonl", "--credit", 1, "--policy", policy, "--slow-block", "10m")
            for policy in ("drop-oldest", "block")]
    ctl(rig, broker, "pub", "t.a", "first")
    check([json.loads(reader.line())["payload"] for reader in lazy] == ["first"] * 2, "they read")
    for reader in lazy:
        reader.signal(19)
    for number in range(40):
        ctl(rig, broker, "pub", "t.a", str(number))
    held = topic(broker, "t.a")["log_messages"]
    row = answer(rig, broker, "topics", "purge", "t.a")
    check(20 < row["messages"] <= held, f"{row} {held}")
    ctl(rig, broker, "pub", "t.a", "last")
    for reader in lazy:
        reader.signal(18)
    for reader in lazy:
        got, lost = 1, 0
        while True:
            message = json.loads(reader.line())
            got, lost = got + 1, lost + message["lost"]
            if message["payload"] == "last":
                break
        check(got + lost == 42 and lost >= 20, f"{got} {lost}")
    rows = until(10, lambda: [row for row in broker.ask("subs") if row["lost"] > 0], "counted")
    check(len(rows) == 2 and all(row["lost_purged"] == row["lost"] and row["lost_slow"] == row["lost_trimmed"] == 0
                                 for row in rows), rows)
    total = sum(row["lost_purged"] for row in broker.ask("workers"))
    check(total == sum(row["lost"] for row in rows), total)


def test_publishers_go_on_when_a_full_topic_is_emptied(rig):
    broker = rig.broker("-o", 'topics=( { match = "full"; max_bytes = "1M"; full = "block"; } )')
    reader = sub(rig, broker, "full", "--credit", 1, "--policy", "block", "--slow-block", "10m", "--stats")
    reader.signal(19)
    writer = rig.client("broker-ctl", "--url", broker.url(), "pub", "full", "--count", 4000, "--size", 1000)
    until(20, lambda: (topic(broker, "full") or {"log_bytes": 0})["log_bytes"] > 600000, "it fills")

    def purge():
        if writer.is_running():
            answer(rig, broker, "topics", "purge", "full")
        return not writer.is_running()
    until(60, purge, "the writer waits")
    check(writer.wait() == 0, writer.log())


def test_a_topic_is_removed(rig, broker):
    ctl(rig, broker, "pub", "kept.a", "x")
    ctl(rig, broker, "pub", "kept.a", "high", "--priority", "high")
    reader = sub(rig, broker, "kept.a")
    refused(rig, broker, "topics", "rm", "kept.a", said="broker-ctl: topic rm kept.a: somebody reads it by its name",
            code=UNAVAILABLE)
    reader.signal(2)
    reader.wait()
    writer = rig.client("broker-ctl", "--url", broker.url(), "pub", "kept.a", "--lines")
    writer.tell("y")
    until(10, lambda: topic(broker, "kept.a")["messages"] >= 2, "it came")
    refused(rig, broker, "topics", "rm", "kept.a", said="somebody publishes to it", code=UNAVAILABLE)
    writer.end_input()
    check(writer.wait() == 0, writer.log())
    wild = sub(rig, broker, "kept.>")
    ctl(rig, broker, "topics", "rm", "kept.a")
    until(10, lambda: topic(broker, "kept.a") is None, "it is gone")
    refused(rig, broker, "topics", "rm", "kept.a", said="there is no topic of that name")
    refused(rig, broker, "topics", "purge", "kept.a", said="there is no topic of that name")
    ctl(rig, broker, "pub", "kept.a", "anew")
    check(wild.line() == "anew", "who reads by a wildcard finds it again")
    reader = sub(rig, broker, "kept.a", "--start", "first", "--count", 1, "-F", "%s %p")
    check(reader.line() == "1 anew", "with numbers from 1")


# ---- queues ----

def test_messages_come_again(rig, broker):
    reader = sub(rig, broker, "jobs.>", "--durable", "d", "--ack", "explicit", "--ack-wait", "10m", "-F", "%p", "--count", 1,
                 "--hold")
    ctl(rig, broker, "pub", "jobs.a", "one")
    ctl(rig, broker, "pub", "jobs.a", "two")
    check(reader.line() == "one", "the first one is acknowledged, the second one waits")
    until(10, lambda: broker.ask("queues")[0]["pending"] == 1, broker.ask("queues"))
    row = answer(rig, broker, "queues", "redeliver", "d")
    check(row["messages"] == 1 and row["note"] == "1 message to be redelivered", row)
    until(10, lambda: broker.ask("queues")[0]["redelivered"] == 1, "it has come again")
    refused(rig, broker, "queues", "redeliver", "none", said="there is none of that name")
    refused(rig, broker, "queues", "redeliver", "d", "nobody-7", said="there is none of that name")
    refused(rig, broker, "queues", "rm", "d", said="it is in use", code=UNAVAILABLE)
    reader.end_input()
    check(reader.wait() == 0, reader.log())
    check(answer(rig, broker, "queues", "redeliver", "d")["messages"] == 0, "a queue without members")
    ctl(rig, broker, "queues", "rm", "d")
    check(broker.ask("queues") == [], "it is forgotten")


# ---- clients ----

def test_a_client_is_told_why(rig, broker):
    reader = sub(rig, broker, "t.a")
    number = next(row["id"] for row in broker.clients() if row["name"] == "broker-ctl")
    check(answer(rig, broker, "clients", "kick", number, "--reason", "the lens is dirty")["clients"] == 1, "one")
    check(reader.wait() == UNAVAILABLE, reader.log())
    check("an operator has ended it: the lens is dirty" in reader.log(), reader.log())
    reader = sub(rig, broker, "t.a", "--client-name", "camera")
    check(answer(rig, broker, "kick", "camera")["result"] == "done", "by name")
    check(reader.wait() == UNAVAILABLE and "an operator has ended it\n" in reader.log(), reader.log())
    refused(rig, broker, "kick", number, "--reason", "x" * 151, said="takes a text, 1 to 150 bytes", code=USAGE)
    refused(rig, broker, "kick", number, "--reason", "a\nb", said="up to 150 bytes", code=USAGE)
    refused(rig, broker, "kick", number, "--reason", "gone", said="no client has that number")


def test_a_reason_is_text(rig, broker):
    """Such a kick would be carried out, and neither its answer nor its event could be written."""
    reader = sub(rig, broker, "t.a")
    number = next(row["id"] for row in broker.clients() if row["name"] == "broker-ctl")
    done = ctl(rig, broker, "kick", number, "--reason", b"a\xffb".decode(errors="surrogateescape"), code=USAGE)
    check("UTF-8" in done.stderr and reader.is_running(), done.stderr)


# ---- they ask ----

ASKING = ("topics purge kept.a", "topics rm kept.a", "queues redeliver d", "queues rm d", "durable rm d", "clients kick 3",
          "kick --user u", "block u", "drain", "stop")


@pytest.mark.parametrize("line", ASKING)
def test_without_a_terminal_they_need_yes(rig, line):
    """No broker is asked, or needed."""
    url = f"unix://{rig.folder}/nobody.sock"
    env = {**os.environ, "XDG_CONFIG_HOME": str(rig.folder), "AMB_URL": url}
    ways = ([], {}, url), (["--url", "unix:///none/other"], {}, "unix:///none/other"), (["--context", "plant"], {}, url + "2")
    subprocess.run([rig.program("broker-ctl"), "context", "add", "plant", "--url", url + "2"], env={**env, "AMB_URL": ""},
                   check=True, timeout=30, capture_output=True)
    for before, more, named in ways:
        done = subprocess.run([rig.program("broker-ctl"), *before, *line.split()], capture_output=True, text=True, timeout=30,
                              check=False, stdin=subprocess.DEVNULL, env={**env, **more})
        called = " ".join(word for word in line.split()[:2] if word not in ("3", "--user", "u"))
        check(done.returncode == USAGE and done.stdout == "", done)
        check(done.stderr == f"broker-ctl: {called}: needs --yes without a terminal; it would be at the broker {named}\n", done)


def asked(rig, url, line, typed, before=lambda: None):
    """On a terminal: the exit code once that is typed, after a look."""
    main, terminal = os.openpty()
    process = subprocess.Popen([rig.program("broker-ctl"), "--url", url, *line.split()], stdin=terminal,
                               stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    said = b""
    try:
        while not said.endswith(b"[y/N] "):
            said += os.read(main, 4096)
        check(f"broker-ctl: {line}: at the broker {url}? [y/N] ".encode() in said, said)
        before()
        os.write(main, typed.encode() + b"\n")
        return process.wait(60)
    finally:
        process.kill()
        process.wait()
        os.close(main)


@pytest.mark.parametrize("typed, is_done", (("y", True), ("yes", True), ("n", False), ("", False), ("yep", False)))
def test_on_a_terminal_they_name_the_broker_and_ask(rig, typed, is_done):
    broker = rig.broker()
    ctl(rig, broker, "pub", "a", "x")
    code = asked(rig, broker.url(), "topics rm a", typed,
                 lambda: check(topic(broker, "a") is not None, "nothing is done yet"))
    check((code, topic(broker, "a") is None) == ((0, True) if is_done else (USAGE, False)), code)


def test_whom_a_kick_means_is_asked(rig):
    for line in ("clients kick 3", "kick --user u"):
        check(asked(rig, f"unix://{rig.folder}/nobody.sock", line, "n") == USAGE, line)


# ---- events, and the log ----

def test_each_has_an_event_and_a_line(rig, broker):
    events = sub(rig, broker, "$SYS.command", "-o", "jsonl")
    ctl(rig, broker, "pub", "kept.a", "x")
    ctl(rig, broker, "topics", "purge", "kept.a")
    ctl(rig, broker, "topics", "rm", "kept.a")
    ctl(rig, broker, "topics", "rm", "kept.a", code=DATA)
    ctl(rig, broker, "kick", 999, "--reason", "for a test", code=DATA)
    expected = (("topic purge kept.a", "done", "1 message dropped"), ("topic rm kept.a", "done", ""),
                ("topic rm kept.a", "failed", "there is no topic of that name"),
                ("kick 999 -- for a test", "failed", "no client has that number or name"))
    for words, result, note in expected:
        event = json.loads(json.loads(events.line())["payload"])
        check((event["command"], event["result"], event["note"]) == (words, result, note), event)
        check(event["user"] == "0" or event["user"].isdigit(), event)
        line = f"({event['user']}): {words}: {result}{': ' if note else ''}{note}"
        check(line in broker.log(), f"{line}\n{broker.log()}")


@pytest.mark.parametrize("line, said", (
    ("topics rm", "topics rm TOPIC: is missing"),
    ("topics purge", "topics purge TOPIC: is missing"),
    ("topics purge a b c", "one argument too many"),
    ("queues redeliver", "queues redeliver NAME: is missing"),
    ("kick", "kick: takes a client, or --user NAME"),
    ("block x --reason y", "block --reason: no such option"),
))
def test_wrong_lines(rig, line, said):
    done = subprocess.run([rig.program("broker-ctl"), *line.split()], capture_output=True, text=True, timeout=30, check=False)
    check(done.returncode == USAGE and said in done.stderr, f"{line}: {done}")
