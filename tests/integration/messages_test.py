# SPDX-License-Identifier: Apache-2.0
"""Messages for people: texts and lines go out by broker-ctl pub, and come in by sub as text, by a format, as
JSON, or on a meter."""
import base64
import json
import os
import pty
import re
import subprocess

import pytest
from harness import check, until

USAGE = 64
DATA = 65
LATE = 75
MESSAGES = 100000
BINARY = bytes(range(256))


@pytest.fixture
def broker(rig):
    return rig.broker("-o", 'topics=( { match = "t.small"; max_bytes = "1M"; } )')


class Lines:
    """What a subscriber has printed. It is there once this is: its messages begin with the next one published."""

    def __init__(self, rig, broker, *arguments):
        self.broker = broker
        before = len(broker.ask("subs"))
        self.process = rig.client("broker-ctl", "--url", broker.url(), "sub", *arguments)
        wanted = before + sum(1 for word in arguments if str(word).startswith("t."))
        until(20, lambda: len(broker.ask("subs")) >= wanted, "no subscription")

    def rows(self):
        rows = self.process.all_lines()
        check(self.process.wait() == 0, self.process.log())
        return rows


def ctl(rig, broker, *arguments, data=b""):
    return subprocess.run([rig.program("broker-ctl"), "--url", broker.url(), *map(str, arguments)], capture_output=True,
                          timeout=60, check=False, input=data)


def pub(rig, broker, *arguments, data=b""):
    done = ctl(rig, broker, "pub", *arguments, data=data)
    check(done.returncode == 0 and done.stderr == b"", f"{arguments}: {done}")


# ---- out ----

def test_texts(rig, broker):
    got = Lines(rig, broker, "t.a", "--count", 6, "-F", "%p|%k|%P")
    pub(rig, broker, "t.a", "a text")
    pub(rig, broker, "t.a", "--text", "another one")
    pub(rig, broker, "t.a", "")
    pub(rig, broker, "t.a", "twice", "--count", 2)
    pub(rig, broker, "t.a", "keyed", "--key", "k", "--prop", "x=1")
    check(got.rows() == ["a text||", "another one||", "||", "twice||", "twice||", "keyed|k|x=1"], "texts")


def test_lines(rig, broker):
    got = Lines(rig, broker, "t.a", "--count", 5, "-F", "%x")
    pub(rig, broker, "t.a", "--lines", data=b"one\n\ntwo\r\n\x00\xff\nlast")
    check([bytes.fromhex(row) for row in got.rows()] == [b"one", b"", b"two\r", b"\x00\xff", b"last"], "lines")
    got = Lines(rig, broker, "t.a", "--count", 1)
    pub(rig, broker, "t.a", data=b"all\nof it")
    check(got.rows() == ["all", "of it"], "as one")


def test_a_line_leaves_as_it_comes(rig, broker):
    got = Lines(rig, broker, "t.a")
    typing = rig.client("broker-ctl", "--url", broker.url(), "pub", "t.a", "--lines")
    for word in ("first", "second"):
        typing.tell(word)
        check(got.process.line() == word, word)
    typing.signal(2)
    check(typing.wait() == LATE and "stopped by a signal" in typing.log(), typing.log())
    typing = rig.client("broker-ctl", "--url", broker.url(), "--timeout", "3s", "pub", "t.a", "--lines")
    check(typing.wait() == LATE, typing.log())


@pytest.mark.parametrize("options, said", ((("--lines",), "each line is a message"), ((), "all of it is one message")))
def test_a_person_is_told_that_input_is_read(rig, broker, options, said):
    ours, its = pty.openpty()
    with subprocess.Popen([rig.program("broker-ctl"), "--url", broker.url(), "pub", "t.a", *options], stdin=its,
                          stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        os.close(its)
        line = process.stderr.readline().decode()
        check(line == f"broker-ctl: standard input: {said}, to its end (Ctrl-D)\n", line)
        os.write(ours, b"words\n\x04\x04")
        check(process.wait(20) == 0, "ends with its input")
    os.close(ours)


# ---- in ----

def test_forms_of_text(rig, broker):
    form = "%t %s %l %h %%\\t%I"
    readers = [Lines(rig, broker, "t.a", "--count", 2, *options)
               for options in ((), ("-v",), ("--format", form), ("--raw",), ("-F", "<%x>", "--raw"))]
    pub(rig, broker, "t.a", "one")
    pub(rig, broker, "t.a", "two")
    plain, verbose, fields, raw, raw_hex = (reader.rows() for reader in readers)
    check(plain == ["one", "two"], plain)
    check(verbose == ["t.a one", "t.a two"], verbose)
    check(re.fullmatch(r"t\.a 1 3 \w+ %\t\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", fields[0]), fields)
    check(fields[1].startswith("t.a 2 3 "), fields)
    check(raw == ["onetwo"] and raw_hex == ["<6f6e65><74776f>"], f"{raw} {raw_hex}")


def test_what_a_terminal_shows(rig, broker):
    reader = rig.start([rig.program("broker-ctl"), "--url", broker.url(), "sub", "t.a", "--count", "1", "-v"], terminal=True)
    until(20, lambda: broker.ask("subs"), "no subscription")
    pub(rig, broker, "t.a", data=b"\x1b[2J\xff")
    check(reader.line() == "t.a .[2J.", "a terminal is not driven")


def test_several_patterns(rig, broker):
    got = Lines(rig, broker, "t.a", "t.b", "t.c.>", "--count", 4, "-v")
    for topic in ("t.a", "t.d", "t.b", "t.c.x", "t.a"):
        pub(rig, broker, topic, "x")
    check(sorted(got.rows()) == ["t.a x", "t.a x", "t.b x", "t.c.x x"], "each once")
    got = Lines(rig, broker, "t.a", "t.*", "--count", 2, "--ack", "explicit", "-v")
    pub(rig, broker, "t.a", "x")
    check(got.rows() == ["t.a x", "t.a x"], "once for each pattern")


def test_json(rig, broker):
    got = Lines(rig, broker, "t.a", "--count", 4, "-o", "jsonl", "--payload-max", 300)
    pub(rig, broker, "t.a", "t\u00e9xt", "--prop", "kind=trade", "--prop", "note=a \"b\"", "--key", "k7")
    pub(rig, broker, "t.a", data=BINARY)
    pub(rig, broker, "t.a", "x" * 301)
    pub(rig, broker, "t.a", data=BINARY * 2)
    rows = [json.loads(row) for row in got.rows()]
    check(rows[0]["payload"] == "t\u00e9xt" and rows[0]["key"] == "k7", rows[0])
    check(rows[0]["properties"] == {"kind": "trade", "note": 'a "b"'}, rows[0])
    check(base64.b64decode(rows[1]["payload_base64"]) == BINARY and rows[1]["properties"] == {}, rows[1])
    check("payload" not in rows[1] and "payload_cut" not in rows[1], rows[1])
    check(rows[2]["payload"] == "x" * 300 and rows[2]["payload_cut"] is True and rows[2]["size"] == 301, rows[2])
    check(base64.b64decode(rows[3]["payload_base64"]) == (BINARY * 2)[:300] and rows[3]["payload_cut"], rows[3])


def test_json_has_no_payload_that_is_elsewhere(rig, broker):
    readers = [Lines(rig, broker, "t.a", "--count", 1, "-o", "json", *options)
               for options in (("--lazy",), ("--sha256",), ("--out-dir", rig.folder / "out"))]
    pub(rig, broker, "t.a", "text")
    for reader in readers:
        row, = (json.loads(line) for line in reader.rows())
        check("payload" not in row and row["size"] == 4, row)


def test_a_meter(rig, broker):
    got = Lines(rig, broker, "t.a", "--meter", "--count", 300, "-o", "jsonl")
    text = Lines(rig, broker, "t.a", "--meter", "--count", 300)
    pub(rig, broker, "t.a", "--count", 300, "--rate", 200, "--size", 1000)
    rows = [json.loads(row) for row in got.rows()]
    check(len(rows) >= 2 and sum(row["messages"] for row in rows) == 300, rows)
    check(sum(row["bytes"] for row in rows) == 300000 and all(row["gaps"] == 0 for row in rows), rows)
    check(all(0.9 < row["seconds"] < 3 for row in rows[:-1]) and rows[0]["jitter_ns"] > 0, rows)
    head, *lines = (line.split() for line in text.rows())
    check(head == ["seconds", "messages", "bytes", "gaps", "jitter"], head)
    check(sum(int(line[1]) for line in lines) == 300, lines)


def test_gaps_on_a_meter(rig, broker):
    got = Lines(rig, broker, "t.small", "--meter", "-o", "jsonl", "--credit", 1, "--policy", "drop-oldest")
    got.process.signal(19)
    pub(rig, broker, "t.small", "--count", 20000, "--size", 1000)
    got.process.signal(18)
    rows = [json.loads(got.process.line())]
    while sum(row["messages"] + row["gaps"] for row in rows) < 20000:
        rows.append(json.loads(got.process.line()))
    check(sum(row["messages"] + row["gaps"] for row in rows) == 20000, rows)
    check(sum(row["gaps"] for row in rows) > 10000, rows)


def test_input_that_does_not_end_is_left(rig, broker):
    late = rig.client("broker-ctl", "--url", broker.url(), "--timeout", "3s", "pub", "t.a")
    check(late.wait() == LATE and "publish t.a: " in late.log(), late.log())
    stopped = rig.client("broker-ctl", "--url", broker.url(), "--client-name", "stopped", "pub", "t.a")
    until(20, lambda: [row for row in broker.clients() if row["name"] == "stopped"], "connected")
    stopped.signal(2)
    check(stopped.wait() == LATE and "stopped by a signal" in stopped.log(), stopped.log())


# ---- what is wrong ----

@pytest.mark.parametrize("line, said", (
    ("sub t -F %q", "sub -F '%q': takes a text with %t"),
    ("sub t -F %q", "position 1 has none of them"),
    ("sub t --format ab%", "position 3 has none of them"),
    ("sub t --format a\\", "position 2 has none of them"),
    ("sub t -F", "sub -F: needs a value"),
    ("sub t -v -F %t", "sub -v: does not go with -F"),
    ("sub t -v --lazy", "does not go with --lazy"),
    ("sub t --meter --sha256", "sub --meter: does not go with --sha256"),
    ("sub t --raw --meter", "sub --raw: does not go with --meter"),
    ("sub t -v -o json", "sub --verbose: does not go with --output json or jsonl"),
    ("sub t -F %t -o jsonl", "sub --format: does not go with --output json or jsonl"),
    ("sub t --payload-max many", "sub --payload-max 'many': takes bytes"),
    ("sub t --payload-max 2G", "takes bytes"),
    ("sub t u --durable d", "sub --durable: goes only with one PATTERN"),
    ("sub t u --save f", "sub --save: goes only with one PATTERN"),
    ("sub t u --start file:f", "sub --start: goes only with one PATTERN"),
    ("sub t bad..topic --timeout 5", "subscribe bad..topic: "),
    ("pub t text --file f", "pub TEXT: does not go with --file"),
    ("pub t text --lines", "pub TEXT: does not go with --lines"),
    ("pub t text --text text", "pub TEXT: does not go with --text"),
    ("pub t text --size 4", "pub TEXT: does not go with --size"),
    ("pub t --text text --lines", "pub --text: does not go with --lines"),
    ("pub t --lines --count 2", "pub --lines: does not go with --count"),
    ("pub t text more", "more: one argument too many"),
))
def test_wrong_lines(rig, broker, line, said):
    done = ctl(rig, broker, *line.split(" "))
    code = DATA if "bad..topic" in line else USAGE
    check(done.returncode == code and done.stdout == b"", f"{line}: {done}")
    text = done.stderr.decode()
    check(text.count("\n") == 1 and said in text and re.match(r"broker-ctl: [^:]+: .", text), f"{line}: {text}")


def test_nothing_is_sent_of_a_wrong_line(rig, broker):
    got = Lines(rig, broker, "t.a", "--timeout", 1)
    check(ctl(rig, broker, "pub", "t.a", "text", "--file", "/dev/null").returncode == USAGE, "refused")
    got.process.wait()
    check(got.process.all_lines() == [], "nothing came")


def test_a_position_is_replaced_as_a_whole(rig, broker):
    """A crash or a full disk in the midst of --save leaves the former position: the file itself is not written to."""
    saved, former = rig.folder / "position", rig.folder / "former"
    saved.write_bytes(b"former")
    os.link(saved, former)
    got = Lines(rig, broker, "t.a", "--count", 1, "--save", saved)
    pub(rig, broker, "t.a", "a text")
    check(got.rows() == ["a text"], "one message")
    check(former.read_bytes() == b"former" and saved.read_bytes() != b"former", "another file has the name")
    check(sorted(path.name for path in rig.folder.glob("position*")) == ["position"], "and nothing lies beside it")


def saves(rig, broker, path):
    got = Lines(rig, broker, "t.a", "--count", 1, "--save", path)
    pub(rig, broker, "t.a", "a text")
    check(got.rows() == ["a text"], "one message")


def test_a_position_goes_into_what_is_no_file(rig, broker):
    """A rename by root would put a file in the place of a pipe or a device, /dev/null too."""
    pipe = rig.folder / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    saves(rig, broker, pipe)
    check(pipe.is_fifo() and os.read(reader, 1 << 16) != b"", "the pipe has got it")
    os.close(reader)


def test_a_position_leaves_links_and_modes(rig, broker):
    saved, link = rig.folder / "position", rig.folder / "link"
    saved.write_bytes(b"former")
    saved.chmod(0o646)
    link.symlink_to(saved)
    saves(rig, broker, link)
    check(link.is_symlink() and saved.read_bytes() != b"former", "the link leads to the new position")
    check(saved.stat().st_mode & 0o777 == 0o646, f"mode {saved.stat().st_mode:o}")
    check(sorted(path.name for path in rig.folder.glob("position*")) == ["position"], "and nothing lies beside it")


# ---- all bytes ----

def patterned(number):
    if number % 3 == 0:
        return bytes(32 + (number + j) % 95 for j in range(number % 600))
    step = 1 + number % 255
    return bytes((number + j * step) & 255 for j in range(number % 600))


def test_100_000_messages_of_all_byte_values(rig, broker):
    count = MESSAGES // 10 if rig.is_sanitized() else MESSAGES
    path = rig.folder / "rows"
    with open(path, "wb") as out, subprocess.Popen(
            [rig.program("broker-ctl"), "--url", broker.url(), "sub", ">", "-o", "jsonl", "--count", str(count),
             "--policy", "block", "--slow-block", "2m", "--timeout", "2m"], stdout=out) as reader:
        until(20, lambda: broker.ask("subs"), "no subscription")
        writer = rig.start([rig.program("test-patterned"), broker.url(), str(count)])
        check(reader.wait(150) == 0 and writer.wait() == 0, writer.log())
    values, texts, next_of = set(), 0, list(range(4))
    for line in open(path, "rb"):
        row = json.loads(line)
        topic = int(row["topic"].removeprefix("patterned."))
        is_text = "payload" in row
        payload = row["payload"].encode() if is_text else base64.b64decode(row["payload_base64"], validate=True)
        check(payload == patterned(next_of[topic]) and row["lost"] == 0, f"message {next_of[topic]}: {row}")
        next_of[topic] += 4
        texts += is_text
        values |= set(payload)
    check(next_of == [count + i for i in range(4)], next_of)
    check(len(values) == 256 and count // 3 <= texts < count, f"{len(values)} values, {texts} texts")
