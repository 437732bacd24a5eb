# SPDX-License-Identifier: Apache-2.0
"""What a machine may do to a broker: a log that cannot be written, a storm of SIGHUP, a wall clock that jumps.

    hardship_test.py
"""
import os
import signal
import struct
import threading
import time

import pytest
from harness import LINKS, Failure, check, until

HANGUPS_A_SECOND = 1000
SECONDS, STORM_S = 120, 3
DAY_NS = 86_400_000_000_000
JUMPS_DAYS = (10, 0, -10, 10, 0)


def send(rig, url, topic, *words, env=None):
    writer = rig.client("broker-ctl", "--url", url, "pub", topic, *words, env=env)
    check(writer.wait(60) == 0, writer.log())
    rig.forget(writer)


def test_a_log_on_a_full_disk(rig):
    """Standard error is /dev/full from the first line on: each write has no room."""
    path = rig.folder / "full.sock"
    broker = rig.start(["sh", "-c", 'exec "$@" 2>/dev/full', "-", rig.program("brokerd"), "--dev", "--listen",
                        f"unix://{path}", "-o", "log.level=debug"])
    broker.expect("ready", 60)
    reader = rig.client("broker-ctl", "--url", f"unix://{path}", "sub", "a", "--count", "200", "--stats")
    send(rig, f"unix://{path}", "a", "--count", "200", "--size", "100", "--wait-subscribers", "1")
    check(reader.wait(60) == 0, reader.log())
    for _ in range(20):
        broker.signal(signal.SIGHUP)
        broker.signal(signal.SIGUSR1)
    send(rig, f"unix://{path}", "a", "--count", "10", "--size", "100")
    broker.signal(signal.SIGTERM)
    check(broker.wait(30) == 0, "it ends well, and not before")


def test_a_storm_of_hangups(rig):
    """A thousand a second: each reads the whole configuration, or is one with those that wait."""
    config = rig.folder / "broker.conf"
    config.write_text('log = { level = "info"; };\n')
    broker = rig.broker("--config", config)
    reader = rig.client("broker-ctl", "--url", broker.unix_url, "sub", "a", "--count", "2000", "--stats")
    until(20, lambda: broker.ask("subs"), "it has subscribed")
    is_over = threading.Event()
    sent = [0]

    def storm():
        due = time.monotonic()
        while not is_over.is_set():
            os.kill(broker.pid, signal.SIGHUP)
            sent[0] += 1
            due += 1 / HANGUPS_A_SECOND
            is_over.wait(max(0, due - time.monotonic()))

    thread = threading.Thread(target=storm)
    begin = time.monotonic()
    thread.start()
    try:
        send(rig, broker.unix_url, "a", "--count", "2000", "--size", "100", "--rate", str(2000 // STORM_S))
        check(reader.wait(60) == 0, reader.log())
    finally:
        is_over.set()
        thread.join()
    took = time.monotonic() - begin
    log = broker.log()
    print(f"{sent[0]} SIGHUP in {took:.1f} s, {log.count('valid and unchanged')} reloads told, {len(log)} bytes of log")
    check(sent[0] > 500, "a storm")
    check(len(log) < 200 * sent[0] + 20000, "a line each at most")
    config.write_text('log = { level = "debug"; };\n')
    broker.signal(signal.SIGHUP)
    until(20, lambda: "in force from now on" in broker.log(), "the last one is heard")
    broker.stop()


@pytest.mark.parametrize("link", LINKS)
def test_a_wall_clock_that_jumps(rig, links, link):
    """Ten days on and back, in the broker and its clients: no session ends, nothing is lost, and neither what is kept
    for an hour nor a message that is good for a minute goes. What is to be given again comes when it should."""
    if link not in links:
        pytest.skip(f"without {link}")
    try:
        preload = rig.program("test-shift.so")
    except Failure:
        pytest.skip("not in a sanitized build")
    file = rig.folder / "shift"
    file.write_bytes(bytes(8))
    env = {"LD_PRELOAD": preload, "AMB_SHIFT_FILE": str(file)}
    config = rig.folder / "broker.conf"
    config.write_text('topics = ( { match = "kept"; retain = { messages = 100; age = "1h"; }; } );\n')
    broker = rig.broker("--config", config, "-o", "limits.peer_timeout=3s", "-o", "limits.heartbeat=1s", env=env)
    url = broker.url(link)
    send(rig, url, "kept", "--count", "5", "--size", "8", "--ttl", "60s", env=env)
    reader = rig.client("broker-ctl", "--url", url, "-o", "json", "sub", "a", env=env)
    writer = rig.client("broker-ctl", "--url", url, "pub", "a", "--count", "1000000", "--size", "8", "--rate", "50",
                        env=env)
    until(20, lambda: len(broker.clients()) == 2 and broker.ask("subs"), "both are there")
    before = sorted(row["id"] for row in broker.clients())
    for days in JUMPS_DAYS:
        with open(file, "r+b") as numbers:  # in place: it is mapped
            numbers.write(struct.pack("q", days * DAY_NS))
        for _ in range(50):
            reader.line()
        begin = time.monotonic()
        again = rig.client("broker-ctl", "--url", url, "sub", "kept", "--start", "first", "--count", "10", "--ack",
                           "explicit", "--ack-wait", "1s", "--max-deliver", "2", "--nak", env=env)
        check(again.wait(20) == 0, f"all that is kept, twice, after {days} days: {again.log()}")
        check(time.monotonic() - begin < 15, "not late")
        rig.forget(again)
        until(20, lambda: len(broker.clients()) == 2, "it has gone")
    check(sorted(row["id"] for row in broker.clients()) == before, "no session has ended")
    check("no heartbeat" not in broker.log(), broker.log()[-2000:])
    check(writer.is_running() and reader.is_running(), f"{writer.log()} {reader.log()}")
    writer.kill()
    reader.kill()
    broker.stop()
