# SPDX-License-Identifier: Apache-2.0
"""Looking at a broker from a shell: events as lines, checks for Nagios, round trips."""
import json
import re
import subprocess

import pytest
from harness import check, until

USAGE, DATA, UNAVAILABLE, LATE, CONFIG = 64, 65, 69, 75, 78
OK, WARNING, CRITICAL, UNKNOWN = range(4)
NOWHERE = "unix:///none/broker.sock"


@pytest.fixture
def broker(rig):
    return rig.broker("-o", 'topics=( { match = "small"; max_bytes = "1M"; } )')


def ctl(rig, url, *arguments, code=0):
    done = subprocess.run([rig.program("broker-ctl"), "--url", url, *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False, stdin=subprocess.DEVNULL)
    check(done.returncode == code, f"{arguments}: {done}")
    return done


def events(rig, broker, *arguments):
    before = len(broker.ask("subs"))
    process = rig.client("broker-ctl", "--url", broker.url(), "events", *arguments)
    until(20, lambda: len(broker.ask("subs")) > before or not process.is_running(), "no subscription")
    return process


def test_events(rig, broker):
    text, rows = events(rig, broker), events(rig, broker, "client.*", "-o", "jsonl")
    chosen = events(rig, broker, "command", "--count", 1)
    ctl(rig, broker.url(), "--client-name", "two words", "pub", "small", "x")
    row = json.loads(rows.line())
    while row["name"] != "two words":
        row = json.loads(rows.line())
    check(row["event"] == "client.come" and row["time_ns"] > 10**18, row)
    line = text.line()
    while "two words" not in line:
        line = text.line()
    check(re.match(r'\d{4}-\d\d-\d\dT[0-9:.]{18}Z client\.come client=\d+ name="two words" ', line), line)
    ctl(rig, broker.url(), "topics", "purge", "small", "--yes")
    check('command command="topic purge small" ' in chosen.line(), "the command")
    check(chosen.wait() == 0, chosen.log())
    for process in (text, rows):
        process.signal(2)
        check(process.wait() == 0, process.log())
    ctl(rig, broker.url(), "events", "no.such", "--count", 1, "--timeout", "300ms", code=LATE)
    ctl(rig, broker.url(), "events", "no.such", "--timeout", "300ms")


def test_a_name_cannot_add_fields_to_a_line(rig, broker):
    text = events(rig, broker, "client.come")

    def line_with(part):
        line = text.line()
        while part not in line:
            line = text.line()
        return line
    ctl(rig, broker.url(), "--client-name", 'x" user="root', "pub", "small", "x")
    check(r' name="x\" user=\"root" address=' in line_with("root"), "one value")
    ctl(rig, broker.url(), "--client-name", "x\\", "pub", "small", "x")
    check(r' name="x\\" address=' in line_with(' name="x'), "a backslash")


def test_checks_that_are_fine(rig, broker):
    for name in ("ready", "health", "lag", "memory", "loss", "queues"):
        limits = ("--warn", "60", "--critical", "60") if name == "health" else ()
        line = ctl(rig, broker.url(), "check", name, *limits).stdout
        check(re.match(rf"{name.upper()} OK - [^|]+ \| \w+=[0-9.e+-]+\S*\n$", line), line)
        row = json.loads(ctl(rig, broker.url(), "-o", "json", "check", name, *limits).stdout)
        check(row["check"] == name and row["state"] == "OK" and row["text"].startswith(f"{name.upper()} OK"), row)


def test_checks_that_find_something(rig, broker):
    reader = rig.client("broker-ctl", "--url", broker.url(), "sub", "small", "--credit", 1, "--policy", "drop-oldest", "--stats")
    until(20, lambda: broker.ask("subs"), "no subscription")
    reader.signal(19)
    ctl(rig, broker.url(), "pub", "small", "--count", 20000, "--size", 1000)
    line = ctl(rig, broker.url(), "check", "lag", "--warn", 1000, "--critical", "1G", code=WARNING).stdout
    check(line.startswith("LAG WARNING - "), line)
    ctl(rig, broker.url(), "check", "lag", "--warn", 1000, "--critical", 2000, code=CRITICAL)
    reader.signal(18)
    until(20, lambda: sum(row["lost_slow"] for row in broker.ask("workers")) > 10000, "it loses")
    line = ctl(rig, broker.url(), "check", "loss", code=CRITICAL).stdout
    check(re.match(r"LOSS CRITICAL - \d+ messages lost \| lost=\d+c;0;1000;0\n$", line), line)
    ctl(rig, broker.url(), "check", "loss", "--critical", 10**9, code=WARNING)
    ctl(rig, broker.url(), "check", "loss", "--warn", 10**9, "--critical", 10**9)


def rows_of(rig, view, *arguments):
    """The rows of an answer, without a line about a file."""
    done = subprocess.run([rig.program("broker-ctl"), "-o", "json", *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False, stdin=subprocess.DEVNULL)
    check(done.returncode == 0, done)
    return json.loads(done.stdout)[view]


def test_answers_have_units_and_tables_one_rule_for_numbers(rig, broker):
    ctl(rig, broker.url(), "pub", "small", "--count", 10, "--size", 3000)
    at = ("--url", broker.url())
    units = rows_of(rig, "units", *at, "topics")
    check(units["bytes"] == "bytes" and units["messages"] == "messages" and "topic" not in units, units)
    check(rows_of(rig, "units", *at, "topics", "--columns", "topic,bytes") == {"bytes": "bytes"}, "those that are there")
    check(rows_of(rig, "units", *at, "status")["uptime_s"] == "s", "status")
    check("used_bytes" in rows_of(rig, "units", *at, "memory"), "memory")
    exact = rows_of(rig, "topics", *at, "topics")[0]["bytes"]
    table = ctl(rig, broker.url(), "topics", "--columns", "bytes,messages", "--no-header").stdout
    check(table.split() == [f"{exact / 1024:.1f}", "KiB", "10"], table)
    table = ctl(rig, broker.url(), "-o", "csv", "topics", "--columns", "bytes,messages").stdout
    check(table == f"bytes,messages\n{exact},10\n", table)
    row = json.loads(ctl(rig, broker.url(), "-o", "jsonl", "topics", "--top", 1).stdout)
    check("units" not in row and row["bytes"] == exact, row)
    table = ctl(rig, broker.url(), "metrics", "--columns", "metric,value,unit").stdout
    check(re.search(r"^ambroker_memory_limit_bytes +[0-9.]+ [MG]iB +bytes *$", table, re.M), table)
    check(re.search(r"^uptime_s +[0-9.]+ \w+$", ctl(rig, broker.url(), "status").stdout, re.M), "status")
    closed = ctl(rig, broker.url(), "clients", "--closed", "--columns", "name,closed_s", "--no-header").stdout
    check(re.fullmatch(r"(broker-ctl +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ *\n){5,}", closed), closed)


def test_losses_outlive_their_client_and_the_broker(rig):
    file = rig.folder / "counters"
    broker = rig.broker("-o", 'topics=( { match = "small"; max_bytes = "1M"; } )', "-o", f"server.counters_file={file}")

    def losses(*arguments):
        return rows_of(rig, "loss", "--url", broker.url(), "loss", *arguments)
    check(losses() == [] and "(none)" in ctl(rig, broker.url(), "loss").stdout, "nothing lost")
    reader = rig.client("broker-ctl", "--url", broker.url(), "--client-name", "the reader", "sub", "small", "--credit", 1,
                        "--policy", "drop-oldest", "--stats")
    until(20, lambda: broker.ask("subs"), "no subscription")
    reader.signal(19)
    ctl(rig, broker.url(), "pub", "small", "--count", 20000, "--size", 1000)
    until(20, lambda: losses() and losses()[0]["count"] > 10000, "a reader that stands still loses")
    row = losses("small")[0]
    check(row["pattern"] == "small" and row["client_name"] == "the reader" and row["reason"] == "slow", row)
    check(row["subscription"] == broker.ask("subs")[0]["id"] and row["client"] == broker.ask("subs")[0]["client"], row)
    check(900_000_000 < row["first_s"] <= row["last_s"], row)
    check(losses("other") == [], "another pattern")
    ctl(rig, broker.url(), "loss", "--sort", "nonsense", code=USAGE)
    reader.signal(9)
    until(20, lambda: not broker.ask("subs"), "it has gone")
    last = losses()
    check(len(last) == 1 and last[0]["count"] >= row["count"] and last[0]["client_name"] == "the reader", last)
    broker.signal(9)
    check(rows_of(rig, "loss", "loss", "--file", file) == last, "from the file")


def test_log_lines_are_counted_and_outlive_the_broker(rig):
    config = rig.folder / "broker.conf"
    config.write_text("")
    file = rig.folder / "counters"
    broker = rig.broker("--config", config, "-o", f"server.counters_file={file}")

    def refusals(*arguments):
        rows = rows_of(rig, "errors", "errors", *arguments)
        return [row for row in rows if "reload refused" in row["line"] and row["level"] == "error"]
    at = ("--url", broker.unix_url)
    check(not refusals(*at), "nothing refused yet")
    config.write_text("limits = { nothing = 1; };\n")
    for number in range(1, 21):  # Most of these are not written.
        ctl(rig, broker.unix_url, "config", "reload", code=CONFIG)
        check([row["count"] for row in refusals(*at)] == [number], f"{number}: {refusals(*at)}")
    for number in range(21, 24):  # These are, each time.
        broker.signal(1)
        until(20, lambda number=number: [row["count"] for row in refusals(*at)] == [number], "a line for each signal")
    row = refusals(*at)[0]
    check("nothing" in row["line"] and 900_000_000 < row["first_s"] <= row["last_s"], row)
    totals = rows_of(rig, "metrics", *at, "metrics")
    check([m["value"] for m in totals if m["metric"] == "ambroker_log_errors_total"] == [23], totals)
    config.write_text("limits = { another = 1; };\n")
    ctl(rig, broker.unix_url, "config", "reload", code=CONFIG)
    check(sorted(row["count"] for row in refusals(*at)) == [1, 23], "a row of its own")
    check(len(rows_of(rig, "errors", *at, "errors", "--top", 1)) == 1, "--top")
    last = refusals(*at)
    broker.signal(9)
    check(refusals("--file", file) == last, "from the file")


def test_a_broker_that_is_not_there(rig, broker):
    for name, code in (("ready", CRITICAL), ("health", CRITICAL), ("loss", UNKNOWN), ("memory", UNKNOWN)):
        done = ctl(rig, NOWHERE, "check", name, code=code)
        check(done.stdout == f"{name.upper()} {'CRITICAL' if code == CRITICAL else 'UNKNOWN'} - no session with the broker\n",
              done)
    ctl(rig, NOWHERE, "ping", code=UNAVAILABLE)
    ctl(rig, NOWHERE, "events", code=UNAVAILABLE)
    broker.signal(19)
    ctl(rig, broker.url(), "--timeout", "1s", "check", "ready", code=CRITICAL)
    broker.signal(18)


def test_round_trips(rig, broker):
    lines = ctl(rig, broker.url(), "ping", "--count", 3, "--interval", "10ms").stdout.splitlines()
    check(len(lines) == 4 and re.match(r"unix://\S+: 1: [0-9.]+ (us|ms)$", lines[0]), lines)
    check(re.match(r"3 of 3 answered: at least [0-9.]+ \w+, on average [0-9.]+ \w+, at most [0-9.]+ \w+$", lines[3]), lines)
    rows = [json.loads(line) for line in ctl(rig, broker.url(), "-o", "jsonl", "ping", "--interval", "1ms").stdout.splitlines()]
    check([row["number"] for row in rows] == [1, 2, 3, 4] and all(row["round_trip_ns"] > 1000 for row in rows), rows)
    head, *rows = ctl(rig, broker.url(), "-o", "csv", "ping", "--interval", "1ms").stdout.splitlines()
    check(head == "number,round_trip_ns" and [row.split(",")[0] for row in rows] == ["1", "2", "3", "4"], rows)


@pytest.mark.parametrize("end", ("stop", "kill"))
def test_a_broker_that_goes_between_two_round_trips(rig, broker, end):
    process = rig.client("broker-ctl", "--url", broker.url(), "ping", "--count", 2, "--interval", "1h")
    process.line()
    getattr(broker, end)()
    check(process.wait() == UNAVAILABLE and "broker-ctl: ping: " in process.log(), process.log())


@pytest.mark.parametrize("line, said", (
    ("check", "check CHECK: is missing"),
    ("check leg", "CHECK takes ready, health, lag, memory, loss or queues (did you mean lag?)"),
    ("check memory --warn 101", "check memory --warn '101': takes a percentage"),
    ("check health --critical 1M", "check health --critical '1M': takes a time"),
    ("check lag --warn soon", "check lag --warn 'soon': takes bytes"),
    ("check ready --warn 1", "check ready --warn '1': takes no limit"),
    ("check loss --warn 9 --critical 3", "check loss --warn: is above --critical"),
    ("ping --count 0", "takes a number of round trips, 1 to"),
    ("ping now", "takes no arguments"),
    ("events --count 0", "takes a number of events, 1 to"),
    ("events a b", "one argument too many"),
    ("events -o csv", "events --output 'csv': takes table, json or jsonl"),
))
def test_wrong_lines(rig, line, said):
    done = ctl(rig, NOWHERE, *line.split(), code=USAGE)
    check(said in done.stderr and done.stderr.count("\n") == 1 and done.stdout == "", f"{line}: {done}")
