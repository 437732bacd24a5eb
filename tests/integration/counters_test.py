# SPDX-License-Identifier: Apache-2.0
"""The counters file of a broker that is killed, or stopped, under load: its figures are young, whole, and
never run backwards, and the next broker keeps it as .old. Files that are none are refused.

    pytest-3 counters_test.py [--tries 8] [--rounds 10]     kills, and stops
"""
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import pytest
from harness import PATIENT, check, patience, starved, until

SECONDS = 3000  # of a thousand kills, about a second each
YOUNG_S = 1.0
ROUNDED_S = 0.05  # an age that is told
ENTRY = 80  # bytes of a message of 64, with its record
SILENT = re.compile(r"last active ([0-9.]+) s ago")


@pytest.fixture
def folder():
    """In memory: there a broker makes its counters file by itself."""
    with tempfile.TemporaryDirectory(prefix="amb-counters-", dir="/dev/shm") as name:
        yield pathlib.Path(name)


def run(ctl, *words):
    return subprocess.run([ctl, *words], capture_output=True, text=True, timeout=30, check=False)


def view(ctl, file, *words):
    """A view of a file, and what is said of whose it is."""
    done = run(ctl, "--file", file, *words, "-o", "json")
    check(done.returncode == 0, f"{words}: {done.stderr}")
    return json.loads(done.stdout), done.stderr


class Broker:
    """A brokerd in that folder, and a publisher and a subscriber that never end."""

    def __init__(self, rig, build, folder, options=()):
        self.url = f"unix://{folder}/s"
        self.file = f"{folder}/s.counters"
        self.process = rig.start([f"{build}/broker/brokerd", "--dev", "--listen", self.url,
                                  "-o", "server.counters_objects=256", *options])
        self.process.expect("ready")
        self.load = [rig.start([f"{build}/tools/broker-ctl", "sub", "a.>", "--stats", "--url",
                                self.url]),
                     rig.start([f"{build}/tools/broker-ctl", "pub", "a.b", "--count", "1000000000",
                                "--url", self.url])]

    def end_load(self):
        for process in self.load:
            process.kill()


def figures(ctl, file):
    """All counters of the file, and the numbers of the topic a.b; what is said of the broker, and when at the latest."""
    rows, said = view(ctl, file, "metrics")
    said_at = time.time()
    counted = {(row["metric"], row.get("worker")): row["value"] for row in rows["metrics"]
               if row["metric"].endswith("_total")}
    topics, _ = view(ctl, file, "topics", "a.b")
    return counted, topics["topics"], said, said_at


def compare(before, after):
    for key, value in before[0].items():
        check(after[0][key] >= value, f"{key} ran backwards: {value}, then {after[0][key]}")
    if before[1] and after[1] and "messages" in before[1][0] and "messages" in after[1][0]:
        for column in ("messages", "bytes", "last_seq"):
            check(after[1][0][column] >= before[1][0][column], f"{column} of a.b ran backwards")


def whole(topics):
    """The figures of a topic fit each other: they are of one moment."""
    for row in topics:
        if "messages" in row:
            check(row["bytes"] == ENTRY * row["messages"], f"torn: {row}")
            check(row["last_seq"] >= row["messages"], f"torn: {row}")


def moving(ctl, file):
    """Waits until the topic has been copied into its slot."""
    return until(10, lambda: any(row.get("messages", 0) > 0
                                 for row in view(ctl, file, "topics", "a.b")[0]["topics"]),
                 "no figures of a.b")


def young(figures, since, before, after):
    """Its last sign of life was at most YOUNG_S before the moment `since`, at which it was ended or stopped. What
    broker-ctl needs to start is no age, nor is the time that the broker's threads were ready and had no core."""
    *_, said, said_at = figures
    age, without = float(SILENT.search(said).group(1)) - (said_at - since), starved(before, after)
    check(age <= patience(YOUNG_S) + without, f"the figures were {age} s old, without {without} s of them")


def test_watch_keeps_its_pace_when_the_broker_has_gone(rig, build, folder):
    broker = Broker(rig, build, folder)
    watching = rig.start([f"{build}/tools/broker-ctl", "status", "-o", "jsonl", "--watch", "200ms", "--timeout", "3s",
                          "--url", broker.url])
    watching.line()
    broker.process.kill()
    watching.all_lines()
    answers = watching.log().count(" is gone; last active ")
    check(2 <= answers <= 16, f"{answers} answers of the counters file in 3 s, one each 200 ms")


def test_a_file_is_watched(rig, build, folder):
    process = rig.start([f"{build}/broker/brokerd", "--dev", "--listen", f"unix://{folder}/s"])
    process.expect("ready")
    watching = rig.start([f"{build}/tools/broker-ctl", "--file", f"{folder}/s.counters", "status", "--columns", "clients",
                          "-o", "csv", "--watch", "100ms"])
    check([watching.line() for _ in range(3)] == ["clients", "0", "0"], "a head, and a row each time")
    process.kill()
    check(watching.line() == "0", "it goes on")
    watching.signal(signal.SIGINT)
    check(watching.wait() == 0, watching.log())


def test_a_broker_that_is_killed_leaves_its_figures(rig, build, folder, options):
    ctl = f"{build}/tools/broker-ctl"
    former = None
    for _ in range(int(options.get("tries", 8))):
        broker = Broker(rig, build, folder)
        if former is not None:
            kept, _ = view(ctl, f"{broker.file}.old", "status")
            check(kept["epoch"] == former["epoch"], "the former file is not .old")
            check(kept["messages_in"] == former["messages_in"], "the former file has changed")
        at_first = broker.process.waited()
        moving(ctl, broker.file)
        before = figures(ctl, broker.file)
        at_last, killed = broker.process.waited(), time.time()
        broker.process.kill()
        after = figures(ctl, broker.file)
        compare(before, after)
        whole(before[1])
        whole(after[1])
        check("is gone" in after[2], after[2])
        young(after, killed, at_first, at_last)
        former, _ = view(ctl, broker.file, "status")
        broker.end_load()


def stop(pid):
    """All its threads stand still when this returns."""
    os.kill(pid, signal.SIGSTOP)
    until(10, lambda: all(task.read_text().rsplit(")", 1)[1].split()[0] == "T"
                          for task in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")),
          "it does not stop")


def await_sign_of_life(ctl, file, since):
    """Waits until the broker has had a sign of life behind that moment. While it stood still there was none."""
    def has_sign():
        asked = time.time()
        _, said = view(ctl, file, "metrics")
        return asked - float(SILENT.search(said).group(1)) > since + ROUNDED_S
    until(10, has_sign, "it goes on")


def test_a_broker_that_stands_still_is_seen(rig, build, folder, options):
    ctl = f"{build}/tools/broker-ctl"
    broker = Broker(rig, build, folder, PATIENT)  # or a view that takes long would end the load
    moving(ctl, broker.file)
    last, before = figures(ctl, broker.file), broker.process.waited()
    for _ in range(int(options.get("rounds", 10))):
        stopped = time.time()
        stop(broker.process.pid)
        after = broker.process.waited()
        try:
            now = figures(ctl, broker.file)
            again = figures(ctl, broker.file)
        finally:
            continued = time.time()
            os.kill(broker.process.pid, signal.SIGCONT)
        compare(last, now)
        whole(now[1])
        check(now[0] == again[0] and now[1] == again[1], "a broker that stands still counts")
        check("is there" in now[2], now[2])
        young(now, stopped, before, after)
        await_sign_of_life(ctl, broker.file, continued)
        last, before = now, after
    # A view of a broker that does not answer is of its file.
    stop(broker.process.pid)
    try:
        done = run(ctl, "workers", "--url", broker.url, "--timeout", "1s", "-o", "json")
    finally:
        os.kill(broker.process.pid, signal.SIGCONT)
    check(done.returncode == 0, f"{done.returncode}: {done.stderr}")
    check("s.counters: broker" in done.stderr and "is there" in done.stderr, done.stderr)
    check(json.loads(done.stdout)["workers"][0]["messages_in"] > 0, done.stdout)
    broker.end_load()


def test_views_of_a_file_are_those_of_the_broker(rig, build, folder):
    ctl = f"{build}/tools/broker-ctl"
    process = rig.start([f"{build}/broker/brokerd", "--dev", "--listen", f"unix://{folder}/s"])
    process.expect("ready")
    url = ("--url", f"unix://{folder}/s")
    reader = rig.start([ctl, "sub", "x.>", "--count", "1000000", *url])
    until(10, lambda: json.loads(run(ctl, "subs", "-o", "json", *url).stdout)["subs"],
          "no subscription")
    for topic in ("x.a", "x.b", "x.c"):
        done = run(ctl, "pub", topic, "--count", "100", *url)
        check(done.returncode == 0, done.stderr)
    for words in (("topics", "--sort", "topic"), ("subs",)):
        live = json.loads(run(ctl, *words, "-o", "json", *url).stdout)
        kept, _ = view(ctl, f"{folder}/s.counters", *words)
        check(live == kept, f"{words}: {live} and {kept}")
    status = json.loads(run(ctl, "status", "-o", "json", *url).stdout)
    check(status["messages_in"] == 300 and status["messages_out"] == 300, status)
    reader.kill()
    process.signal(signal.SIGTERM)
    process.wait()
    rows, said = view(ctl, f"{folder}/s.counters", "topics", "--match", "x.b", "--top", "5")
    check("ended in order" in said, said)
    check([row["messages"] for row in rows["topics"]] == [100], rows)


def test_clients_that_have_gone_have_their_reason(rig, build, folder):
    ctl = f"{build}/tools/broker-ctl"
    process = rig.start([f"{build}/broker/brokerd", "--dev", "--listen", f"unix://{folder}/s"])
    process.expect("ready")
    url = ("--url", f"unix://{folder}/s")
    done = run(ctl, "pub", "x", "--count", "1", *url)
    check(done.returncode == 0, done.stderr)
    killed = rig.start([ctl, "sub", "x.>", *url])
    kicked = rig.start([ctl, "sub", "y.>", *url])
    subs = until(10, lambda: [row for row in json.loads(run(ctl, "subs", "-o", "json", *url).stdout)["subs"]
                              if row["pattern"] in ("x.>", "y.>")][1:] and
                 json.loads(run(ctl, "subs", "-o", "json", *url).stdout)["subs"], "no subscriptions")
    numbers = {row["pattern"]: row["client"] for row in subs}
    killed.kill()
    done = run(ctl, "kick", "--yes", str(numbers["y.>"]), *url)
    check(done.returncode == 0, done.stderr)
    kicked.wait()

    def gone():
        rows = json.loads(run(ctl, "clients", "--closed", "-o", "json", *url).stdout)["closed"]
        rows = {row["client"]: row for row in rows}
        return rows if numbers.keys() and all(client in rows for client in numbers.values()) else None
    rows = until(10, gone, "they are not listed")
    check(rows[numbers["x.>"]]["kind"] == "lost", rows)
    check(rows[numbers["y.>"]]["kind"] == "ended" and rows[numbers["y.>"]]["why"], rows)
    check(any(row["kind"] == "left" for row in rows.values()), rows)
    process.kill()
    kept, _ = view(ctl, f"{folder}/s.counters", "clients", "--closed")
    check({row["client"] for row in kept["closed"]} >= set(numbers.values()), kept)
    done = run(ctl, "topics", "--closed", *url)
    check(done.returncode == 64 and "closed" in done.stderr, done.stderr)


def test_modes_and_places(rig, build, folder):
    def start(*options):
        process = rig.start([f"{build}/broker/brokerd", "--dev", "--listen",
                             f"unix://{folder}/s", *options])
        process.expect("ready")
        process.kill()
        return process.log()
    start()
    file = folder / "s.counters"
    check(file.stat().st_mode & 0o7777 == 0o640, oct(file.stat().st_mode))
    check(file.stat().st_blocks * 512 >= file.stat().st_size, "it is not allocated whole")
    users = folder / "users"
    users.write_text("")
    users.chmod(0o600)
    start("-o", f"auth.users={users}")
    check(file.stat().st_mode & 0o7777 == 0o600, oct(file.stat().st_mode))
    file.unlink()
    log = start("-o", "server.counters_file=none")
    check(not file.exists() and "private memory" in log, log)
    other = folder / "other"
    start("-o", f"server.counters_file={other}")
    check(other.exists() and not file.exists(), "it lies elsewhere")
    log = start("-o", f"server.counters_file={folder}/nowhere/c")
    check("WARN counters: in private memory" in log and "No such file" in log, log)


def spoilt(good, folder):
    """Name, file and the sentence that it gets."""
    bytes_of = good.read_bytes()

    def put(name, data):
        path = folder / name
        path.write_bytes(data)
        return path
    yield put("empty", b""), "too short"
    yield put("random", os.urandom(100000)), "no counters file"
    yield put("cut", bytes_of[:len(bytes_of) // 2]), "it is cut"
    yield put("head", bytes_of[:5000]), "it is cut"
    yield put("layout", bytes_of[:8] + struct.pack("<I", 99) + bytes_of[12:]), "layout is 99"
    yield put("table", bytes_of[:24] + struct.pack("<I", 511) + bytes_of[28:]), "does not fit"
    (folder / "folder").mkdir()
    yield folder / "folder", "no regular file"


def test_what_is_no_counters_file_is_refused(rig, build, folder):
    ctl = f"{build}/tools/broker-ctl"
    process = rig.start([f"{build}/broker/brokerd", "--dev", "--listen", f"unix://{folder}/s",
                         "-o", "server.counters_objects=64"])
    process.expect("ready")
    process.kill()
    good = folder / "good"
    shutil.copy(folder / "s.counters", good)
    for path, sentence in spoilt(good, folder):
        for words in ("status", "topics", "metrics"):
            done = run(ctl, "--file", path, words)
            check(done.returncode == 65, f"{path} {words}: {done.returncode} {done.stderr}")
            check(sentence in done.stderr and done.stderr.count("\n") == 1, done.stderr)
            check(done.stdout == "", done.stdout)
    for words, code in ((("--file", good, "doctor"), 64), (("--file", good, "drain"), 64),
                        (("--file", good, "topics", "--sort", "nonsense"), 64),
                        (("--file", good, "topics", "--top", "0"), 64),
                        (("--file", good, "status", "--top", "1"), 64),
                        (("--file", folder / "nothing", "status"), 65)):
        done = run(ctl, *words)
        check(done.returncode == code, f"{words}: {done.returncode} {done.stderr}")
