# SPDX-License-Identifier: Apache-2.0
"""A reader that is stopped for longer than peer_timeout and goes on later; a client that forks.

    frozen_test.py

Frozen: it is expired and others go on; what it holds in place stays as it was, shown as
quarantined, until its process ends. Forked: the child may do nothing, the parent goes on, and its
end ends the session although the child lives.
"""
import os
import signal
import time

import pytest

from harness import check, patience, until

PEER_TIMEOUT = 2
HELD = 40


@pytest.fixture
def broker(rig):
    broker = rig.broker(
        *("-o", f"limits.peer_timeout={PEER_TIMEOUT}s", "-o", "limits.heartbeat=500ms"),
        *("-o", "server.workers=2"),
    )
    broker.ask("status")
    yield broker
    until(1, lambda: broker.used_bytes() == 0, f"bytes return: {broker.ask('memory')}")
    broker.stop()


@pytest.fixture
def checker(rig, broker):
    checker = rig.client(
        "test-checker", broker.url("ring"), broker.url("stream"), "pair", "--rate", "400"
    )
    checker.expect("ready")
    yield checker
    checker.signal(signal.SIGTERM)
    report = checker.line()
    check(checker.wait() == 0, f"the checker: {report} {checker.log()}")


def find(broker, name):
    return next((row for row in broker.clients() if row["name"] == name), None)


def check_back(broker, since, within=1):
    """Nothing but the checker's own is left within a second of `since`."""
    until(
        max(0.05, since + within - time.monotonic()),
        lambda: find(broker, "holder") is None,
        f"the session is gone: {broker.clients()}",
    )
    quarantined = sum(row["quarantined_bytes"] for row in broker.ask("memory"))
    check(quarantined == 0, f"{quarantined} bytes are still quarantined")


def test_a_frozen_reader_keeps_its_messages(rig, broker, checker, link):
    holder = rig.client("test-holder", broker.url(link), "check.>", HELD)
    holder.expect("holding")
    # In place; the first ones may have come as copies, before the segment was mapped.
    in_place = find(broker, "holder")["mapped_bytes"]
    holder.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    if link == "ring":
        check(in_place > 0, "nothing is held in place")
        # Nothing but the silence says so: the process lives, its socket is open.
        row = until(
            PEER_TIMEOUT + 2,
            lambda: next((r for r in broker.clients() if r["state"] == "quarantined"), None),
            f"quarantined: {broker.clients()}",
        )
        check(row["name"] == "holder" and row["pid"] == holder.pid, f"who is this: {row}")
        check(row["quarantined_bytes"] >= in_place, f"fewer than the {in_place} held: {row}")
        shown = sum(r["quarantined_bytes"] for r in broker.ask("memory"))
        check(shown >= in_place, f"memory shows {shown} bytes quarantined of {in_place}")
    else:
        until(PEER_TIMEOUT + 2, lambda: find(broker, "holder") is None, "expired")
    check(time.monotonic() - stopped >= PEER_TIMEOUT - 0.5, "expired too early")
    time.sleep(1)  # The memory of what others give back is used again and again.
    check(broker.ask("status")["expired"] >= 1, "nobody counts as expired")

    holder.signal(signal.SIGCONT)
    resumed = time.monotonic()
    status = int(holder.expect("ended", 2)[1])
    took = time.monotonic() - resumed
    check(-72 <= status <= -64, f"its call ended with {status}, which is no session's end")
    check(took < patience(1), f"its call took {took:.2f} s to end")
    check(holder.expect("checked")[1:] == [str(HELD), "0"], "held messages have changed")
    time.sleep(1)
    if link == "ring":
        check(find(broker, "holder")["state"] == "quarantined", "its process still lives")
    holder.end_input()
    check(holder.expect("checked")[1:] == [str(HELD), "0"], "held messages have changed later")
    check(holder.wait() == 0, "holder")
    check_back(broker, time.monotonic())
    print(f"{link}: frozen, expired, told {status} after {took * 1000:.0f} ms", flush=True)


def test_an_idle_client_expires(rig, broker, link):
    """Frozen while nobody sends anything: nothing but time ends it."""
    holder = rig.client("test-holder", broker.url(link), "silence", 0)
    holder.expect("holding")
    holder.signal(signal.SIGSTOP)
    until(
        PEER_TIMEOUT + 3,
        lambda: find(broker, "holder") is None,
        f"expired without traffic: {broker.clients()}",
    )
    holder.signal(signal.SIGCONT)
    check(-72 <= int(holder.expect("ended", 2)[1]) <= -64, "its call ended otherwise")
    holder.kill()


def test_a_fork_may_do_nothing(rig, broker, checker, link):
    holder = rig.client("test-holder", broker.url(link), "check.>", HELD, "--fork")
    holder.expect("holding")
    answers = {}
    for _ in range(2):  # Either may be the first to speak.
        words = holder.line().split()
        answers[words[0]] = words[1:]
    child, *calls = answers["child"]
    check(answers["parent"] == ["0"], f"the parent after the fork: {answers}")
    for call in calls:
        name, status = call.split("=")
        expected = "-1" if name == "fd" else "-96"
        check(status == expected, f"in the child {name} answers {status}")
    child_pidfd = os.pidfd_open(int(child))
    try:
        time.sleep(0.2)
        check(find(broker, "holder")["state"] == "live", "the parent's session")
        holder.kill()
        # The child keeps the sockets of UCX open, so the link's end is not seen but waited for.
        start = time.monotonic()
        check_back(broker, start, 2 if link == "ucx" else 1)
        seconds = time.monotonic() - start
        signal.pidfd_send_signal(child_pidfd, 0)  # it lives
    finally:
        signal.pidfd_send_signal(child_pidfd, signal.SIGKILL)
        os.close(child_pidfd)
    print(f"{link}: forked, back after {seconds:.3f} s", flush=True)
