# SPDX-License-Identifier: Apache-2.0
"""broker-ctl trace beside readers that are slow, lazy, choosy, staged, or members of a group: the
stages of each batch add up, and each reason is right. Who may, what bad input gets, and its end.

    trace_test.py
"""
import json
import subprocess
import time

import pytest
from harness import check, until

USAGE, UNAVAILABLE, LATE = 64, 69, 75
STAGES = ("head", "body", "routed", "appended", "over")


@pytest.fixture
def broker(rig):
    return rig.broker("-o", "server.workers=2")


def ctl(rig, url, *arguments, code=0):
    done = subprocess.run([rig.program("broker-ctl"), "--url", url, *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False, stdin=subprocess.DEVNULL)
    check(done.returncode == code, f"{arguments}: {done}")
    return done


def reader(rig, broker, name, *words, link="ring", **more):
    before = len(broker.ask("subs"))
    process = rig.client("broker-ctl", "--url", broker.url(link), "--client-name", name, "sub", *words, **more)
    until(20, lambda: len(broker.ask("subs")) > before, f"{name} reads")
    return process


class Trace:
    """One that is under way: armed, when this returns."""

    def __init__(self, rig, broker, *words, timeout="20s"):
        before = broker.log().count(": armed")
        self.process = rig.client("broker-ctl", "--url", broker.url(), "-o", "json", "--timeout", timeout, "trace", *words)
        until(20, lambda: broker.log().count(": armed") > before or not self.process.is_running(), "armed")

    def rows(self, code=0):
        answer = json.loads(self.process.line(30))
        check(self.process.wait() == code, self.process.log())
        check(answer["not_shown"] == answer["not_noted"] == 0, answer)
        return answer["trace"]


def of(rows, **wanted):
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def add_up(rows, batches, readers):
    """Each batch has each of its stages once, in the order of time; each reader has come to one end."""
    for batch in range(1, batches + 1):
        mine = of(rows, batch=batch)
        for stage in STAGES:
            check(len(of(mine, stage=stage)) == 1, f"batch {batch}: {stage}: {mine}")
        check(of(mine, stage="appended")[0]["readers"] == readers, mine)
        times = [row["after_ns"] for row in mine]
        check(times[0] == 0 and times == sorted(times), times)
        check([row["stage"] for row in mine][:3] == list(STAGES[:3]) and mine[-1]["stage"] == "over", mine)
        messages = of(mine, stage="head")[0]["messages"]
        ends = {}
        for row in mine:
            if row["stage"] in ("given back", "acknowledged", "left out", "dropped"):
                ends[row["reader"]] = ends.get(row["reader"], 0) + (row["messages"] or messages)
        check(sum(ends.values()) == readers * messages, f"batch {batch}: {ends} of {readers} * {messages}: {mine}")
        given = sum(row["messages"] for row in mine if row["stage"] in ("given back", "acknowledged"))
        check(of(mine, stage="over")[0]["messages"] == given, mine)


def publish(rig, broker, topic, count, *words):
    for number in range(count):
        ctl(rig, broker.url(), "pub", topic, f"message {number}", *words)


def test_beside_a_slow_a_lazy_and_a_choosy_reader(rig, broker):
    slow = reader(rig, broker, "slow", "show.a", "--credit", 1, "--policy", "block", "--slow-block", "60s")
    lazy = reader(rig, broker, "lazy", "show.>", "--lazy")
    choosy = reader(rig, broker, "choosy", "show.*", "--filter", "kind = 7")
    far = reader(rig, broker, "far", "show.a", link="stream")
    slow.signal(19)
    trace = Trace(rig, broker, "show.>", "--count", 3)
    publish(rig, broker, "show.a", 3)
    until(20, lambda: [row["messages"] for row in broker.ask("topics")] == [3], "published")
    time.sleep(0.05)  # The reader is slow for so long.
    slow.signal(18)
    rows = trace.rows()
    add_up(rows, 3, 4)
    check(not of(rows, stage="refused") and not of(rows, stage="dropped"), rows)
    check({row["topic"] for row in rows} == {"show.a"}, rows)
    for batch in (1, 2, 3):
        mine = of(rows, batch=batch)
        check(of(mine, name="lazy", stage="written")[0]["how"] == "lazy", mine)
        check([row["why"] for row in of(mine, name="choosy")] == ["filter"], mine)
        check(of(mine, name="choosy")[0]["stage"] == "left out", mine)
        copied = of(mine, name="far", stage="written")[0]
        check(copied["how"] == "copied" and copied["link"] == "stream" and copied["not_in_place"], copied)
        written = of(mine, name="slow", stage="written")[0]
        held = of(mine, name="slow", stage="held")
        check([row["why"] for row in held] == (["credit"] if batch > 1 else []), mine)
        if batch > 1:
            check(written["after_ns"] >= 40e6 > held[0]["after_ns"], mine)
        back = of(mine, name="slow", stage="given back")[0]
        check(back["after_ns"] >= written["after_ns"] and back["reader"] == written["reader"], mine)
    for process in (slow, lazy, choosy, far):
        process.signal(2)
        check(process.wait() == 0, process.log())


def test_in_place(rig, broker):
    reader(rig, broker, "near", "place")


    def written_now():
        trace = Trace(rig, broker, "place", "--count", 1)
        publish(rig, broker, "place", 1)
        rows = trace.rows()
        add_up(rows, 1, 1)
        return of(rows, stage="written")[0]
    written = written_now()  # It maps the segment with this one.
    check(written["how"] == "copied" and "mapping" in written["not_in_place"], written)
    written = until(20, lambda: next((row for row in [written_now()] if row["how"] == "mapped"), None), "mapped")
    check(written["how"] == "mapped" and written["link"] == "ring" and written["not_in_place"] is None, written)


def test_a_staged_reader(rig, build):
    """On the fake driver: a batch in GPU memory, and a reader that wants host memory."""
    rig.env |= {"AMB_CUDA_LIBRARY": str(build / "tests/fakecuda/libfakecuda.so"), "FAKECUDA_MEMORY": "1G",
                "FAKECUDA_MACHINE": str(rig.folder / "machine")}
    broker = rig.broker("-o", "memory.cuda.size=64M", "-o", "memory.cuda.devices=0")
    reader(rig, broker, "host", "gpu.a", "--stats")
    trace = Trace(rig, broker, "gpu.a", "--count", 1)
    publisher = rig.client("test-member", broker.url(), "gpu.a", "lease", 1, "gpu")
    check(publisher.wait(60) == 0, publisher.log())
    rows = trace.rows()
    add_up(rows, 1, 1)
    written = of(rows, stage="written")[0]
    check(written["how"] == "staged" and "host memory" in written["not_in_place"], written)
    held = [row["why"] for row in of(rows, stage="held")]
    check(held[0] == "staging" and set(held) <= {"staging", "mapping"}, rows)


def test_a_reader_that_loses(rig):
    broker = rig.broker("-o", 'topics=( { match = "small"; max_messages = 2; full = "drop-oldest"; } )')
    slow = reader(rig, broker, "slow", "small", "--credit", 1, "--policy", "drop-oldest")
    slow.signal(19)
    trace = Trace(rig, broker, "small", "--count", 6)
    publish(rig, broker, "small", 6)
    slow.signal(18)
    rows = trace.rows()
    add_up(rows, 6, 1)
    dropped = of(rows, stage="dropped")
    check([row["batch"] for row in dropped] == [2, 3, 4] and {row["why"] for row in dropped} == {"slow"}, dropped)


def test_a_group(rig, broker):
    members = [reader(rig, broker, name, "jobs", "--group", "g", "--ack", "explicit", "--credit", 1) for name in ("one", "two")]
    trace = Trace(rig, broker, "jobs", "--count", 4)
    publish(rig, broker, "jobs", 4)
    rows = trace.rows()
    add_up(rows, 4, 1)
    for batch in range(1, 5):
        mine = of(rows, batch=batch)
        given = of(mine, stage="given")[0]
        check(given["kind"] == "queue", given)
        check({row["why"] for row in of(mine, stage="held")} <= {"members"}, mine)
        acked = of(mine, stage="acknowledged")[0]
        check(acked["kind"] == "sub" and acked["name"] in ("one", "two") and acked["messages"] == 1, acked)
    for member in members:
        member.signal(2)


def test_nobody_publishes(rig, broker):
    done = ctl(rig, broker.url(), "trace", "no.body", "--timeout", "300ms", code=LATE)
    check(done.stdout == "" and done.stderr == "broker-ctl: trace no.body: nobody has published to it meanwhile\n", done)
    answer = json.loads(ctl(rig, broker.url(), "-o", "json", "trace", "no.body", "--timeout", "300ms", code=LATE).stdout)
    check(answer == {"trace": [], "batches": 0, "of": 10, "not_shown": 0, "not_noted": 0, "units": {}}, answer)
    trace = Trace(rig, broker, "some", "--count", 3, timeout="2s")
    publish(rig, broker, "some", 1)
    rows = trace.rows(LATE)
    add_up(rows, 1, 0)
    check("1 of 3 batches have come" in trace.process.log(), trace.process.log())


def test_a_batch_that_is_still_held(rig, broker):
    slow = reader(rig, broker, "slow", "held", "--credit", 1, "--policy", "block", "--slow-block", "60s")
    slow.signal(19)
    trace = Trace(rig, broker, "held", "--count", 2, timeout="3s")
    publish(rig, broker, "held", 2)
    rows = trace.rows()
    check([row["batch"] for row in of(rows, stage="held", why="credit")] == [2], rows)
    check(not of(rows, stage="over"), rows)
    check("2 of the batches were not over" in trace.process.log(), trace.process.log())
    slow.signal(18)


def test_a_client_that_goes_leaves_nothing(rig, broker):
    for _ in range(6):  # more than may be armed at a time
        trace = Trace(rig, broker, "gone")
        trace.process.kill()
        until(20, lambda: "trace gone 10 20000ms: failed: its client has gone" in broker.log(), "disarmed")
        publish(rig, broker, "gone", 1)
    until(20, lambda: broker.log().count("trace gone 10 20000ms: failed") == 6, "all of them")
    trace = Trace(rig, broker, "gone", "--count", 1)
    trace.process.signal(2)
    check(trace.process.wait() == -2, trace.process.log())
    done = ctl(rig, broker.url(), "trace", "a..b", code=USAGE)
    check(done.stderr == "broker-ctl: trace a..b 10 10000ms: has an empty token\n", done)
    broker.stop()


def test_the_broker_ends_meanwhile(rig, broker):
    trace = Trace(rig, broker, "over")
    broker.stop()
    check(trace.process.wait() == UNAVAILABLE, trace.process.log())


def test_so_many_at_a_time(rig, broker):
    traces = [Trace(rig, broker, f"many.{number}") for number in range(4)]
    done = ctl(rig, broker.url(), "trace", "many.5", code=UNAVAILABLE)
    check("as many traces are under way as there may be" in done.stderr, done)
    for trace in traces:
        trace.process.kill()
    until(20, lambda: broker.log().count("its client has gone") == 4, "disarmed")


def test_forms(rig, broker):
    def shown(*words):
        process = rig.client("broker-ctl", "--url", broker.url(), "--timeout", "20s", *words)
        until(20, lambda: "armed" in broker.log(), "armed")
        publish(rig, broker, "form", 1)
        lines = process.all_lines()
        check(process.wait() == 0, process.log())
        return lines
    lines = shown("-o", "jsonl", "trace", "form", "--count", 1)
    check([json.loads(line)["stage"] for line in lines] == list(STAGES), lines)
    done = ctl(rig, broker.url(), "trace", "form", "--count", 1, "--columns", "batch,nothing", "--timeout", "300ms", code=LATE)
    check("nobody" in done.stderr, done)


@pytest.mark.parametrize("line, said", (
    ("trace", "trace PATTERN: is missing"),
    ("trace a b", "trace"),
    ("trace a --count 0", "trace --count '0': takes"),
    ("trace a --count 101", "trace --count '101': takes"),
    ("trace a --timeout 2h", "trace --timeout '2h': takes a time of 1ms to 1h"),
    ("trace a --timeout forever", "trace --timeout 'forever': takes a time of 1ms to 1h"),
    ("trace a --timeout 0", "trace --timeout '0': takes a time of 1ms to 1h"),
    ("trace a_5_1s", "trace: an argument has no blank"),
    ("trace a --watch 1s", "trace --watch: no such option"),
))
def test_wrong_words(rig, line, said):
    done = ctl(rig, "unix:///none/broker.sock", *(word.replace("_", " ") for word in line.split()), code=USAGE)
    check(said in done.stderr, done)
