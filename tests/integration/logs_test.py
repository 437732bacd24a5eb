# SPDX-License-Identifier: Apache-2.0
"""Log lines of a broker: their formats, a client that but looks, and lines that repeat.

    logs_test.py
"""
import json
import os
import re
import signal
import subprocess

from harness import check, until

TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (ERROR|WARN|INFO|DEBUG) .+")


def ctl(rig, broker, *words):
    done = subprocess.run([rig.program("broker-ctl"), "--url", broker.unix_url, *words], capture_output=True,
                          text=True, timeout=60, check=False)
    check(done.returncode == 0, f"{done}")
    return done.stdout


def lines_of(broker):
    """Whole ones: a last one may be on its way."""
    return broker.log().split("\n")[:-1]


def test_lines_are_text_or_json_and_a_reload_changes_that(rig):
    config = rig.folder / "broker.conf"
    config.write_text('log = { format = "auto"; };\n')
    broker = rig.broker("--config", config)
    until(10, lambda: any(" ready " in line for line in lines_of(broker)), "it is ready")
    check(all(TEXT.fullmatch(line) for line in lines_of(broker)), broker.log())
    before = len(lines_of(broker))
    config.write_text('log = { format = "json"; };\n')
    ctl(rig, broker, "config", "reload")
    broker.stop()
    fresh = [json.loads(line) for line in lines_of(broker)[before + 1:]]
    check(fresh and all(set(line) == {"time", "level", "text"} for line in fresh), f"{fresh}")
    check(fresh[-1]["text"] == "ended" and fresh[-1]["level"] == "info", f"{fresh}")


def test_the_journal_gets_priorities(rig):
    """Its stream is known by device and inode, so this file stands for it."""
    path = rig.folder / "journal"
    with open(path, "wb") as log:
        at = os.fstat(log.fileno())
        done = subprocess.run([rig.program("brokerd"), "--dev", "--listen", f"unix://{rig.folder}/a.sock", "--until-eof"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, timeout=60, check=False,
                              env={**os.environ, **rig.env, "JOURNAL_STREAM": f"{at.st_dev}:{at.st_ino}"})
    lines = path.read_text().splitlines()
    check(done.returncode == 0 and lines, f"{done} {lines}")
    check(all(re.fullmatch(r"<[3467]>[^<].*", line) for line in lines), f"{lines}")
    check("<6>ended" in lines, f"{lines}")


def test_another_stream_is_no_journal(rig):
    broker = rig.broker(env={"JOURNAL_STREAM": "8:1"})
    broker.stop()
    check(all(TEXT.fullmatch(line) for line in lines_of(broker)), broker.log())


def test_a_client_that_asks_for_a_view_is_no_news(rig):
    broker = rig.broker()
    for _ in range(5):
        ctl(rig, broker, "topics")
    check(not any(" INFO client " in line for line in lines_of(broker)), broker.log())
    subprocess.run([rig.program("broker-ctl"), "--url", broker.unix_url, "pub", "a"], input="x", text=True, timeout=60,
                   check=True)
    until(10, lambda: any("ended: bye" in line for line in lines_of(broker)), broker.log())
    told = [line for line in lines_of(broker) if "client 6 (broker-ctl): " in line]
    check(len(told) == 2 and "ring from unix" in told[0], broker.log())
    broker.stop()
    quiet = rig.broker("-o", "log.level=debug")
    ctl(rig, quiet, "topics")
    until(10, lambda: any(" DEBUG client 1 (broker-ctl): ended: bye" in line for line in lines_of(quiet)), quiet.log())
    quiet.stop()


def test_a_client_that_does_nothing_is_noted(rig):
    broker = rig.broker()
    idle = rig.client("test-asker", broker.unix_url)  # It asks when it is told to.
    until(20, lambda: any("ring from unix" in line for line in lines_of(broker)), broker.log())
    idle.end_input()
    idle.wait()
    broker.stop()


def test_a_signal_has_each_fault_in_the_log(rig):
    config = rig.folder / "broker.conf"
    config.write_text("")
    broker = rig.broker("--config", config)
    config.write_text("limits = { nothing = 1; };\nlog = { level = 3; };\nserver = { workers = 300; };\n")
    broker.signal(signal.SIGHUP)
    until(20, lambda: f"ERROR reload: {config}:3: server.workers: out of range" in broker.log(), "the last fault")
    check(f": {config}:1: limits.nothing: unknown key" in broker.log() and "(and 2 more)" in broker.log(), broker.log())
    check(f"ERROR reload: {config}:2: log.level: wrong type" in broker.log(), broker.log())
    broker.stop()


def test_a_reload_that_is_refused_again_and_again_is_counted(rig):
    config = rig.folder / "broker.conf"
    config.write_text("")
    broker = rig.broker("--config", config)
    config.write_text("limits = { nothing = 1; };\n")
    for _ in range(20):
        done = subprocess.run([rig.program("broker-ctl"), "--url", broker.unix_url, "config", "reload"], timeout=60,
                              capture_output=True, text=True, check=False)
        check(done.returncode != 0 and "nothing" in done.stderr, f"{done}")  # The asker is told each time.
    for number in range(2, 5):  # A signal is answered by the log alone, each time.
        broker.signal(signal.SIGHUP)
        until(20, lambda number=number: broker.log().count("ERROR reload refused") >= number, "a line for each signal")
    broker.stop()
    refused = [line for line in lines_of(broker) if " ERROR " in line and "reload refused" in line]
    check(len(refused) == 5 and refused[-1].endswith("(19 more of this within a minute)"), broker.log())
