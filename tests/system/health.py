# SPDX-License-Identifier: Apache-2.0
"""What probes are told of a packaged broker under systemd: a thread that hangs, a drain, a full memory, a wrong
file at a reload.

    pytest-3 tests/system/health.py"""
import contextlib
import signal
import socket
import time

import pytest
from halt import halted, has_died
from harness import check, patience, until

UNIT = "ambroker.service"
CONFIG = "/etc/ambroker/broker.conf"
URL = "unix:///run/ambroker/broker.sock"
DOOR = "/run/ambroker/broker.sock.http"
TOLD_S = 11  # of a thread that hangs
WATCHDOG_S = 30  # of the unit


def ask(system, path):
    """The status of that probe, and what it says."""
    with socket.socket(socket.AF_UNIX) as conn:
        conn.settimeout(30)
        conn.connect(str(system.path(DOOR)))
        conn.sendall(f"GET {path} HTTP/1.0\r\nHost: broker\r\n\r\n".encode())
        data = b""
        while piece := conn.recv(65536):
            data += piece
    head, _, body = data.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body


def probes(system):
    return ask(system, "/healthz")[0], ask(system, "/readyz")[0]


def ctl(*words):
    return ("broker-ctl", "--url", URL, *words)


def journal(system):
    return system.say("journalctl", "--no-pager", "-o", "cat", "-u", UNIT)


@contextlib.contextmanager
def stuck_reader(system, topic):
    """A client that takes nothing."""
    reader = system.start(*ctl("sub", topic, "-o", "json"))
    until(20, lambda: f'"{topic}"' in system.say(*ctl("subs", "-o", "json")), "it reads")
    pid = system.say("pgrep", "-n", "-x", "broker-ctl")
    system.run("kill", "-STOP", pid)
    try:
        yield pid
    finally:
        system.run("kill", "-KILL", pid, fails=True)
        reader.send_signal(signal.SIGCONT)  # nsenter stops when what it runs is stopped.
        reader.communicate(timeout=60)


@pytest.fixture(autouse=True)
def configured(system):
    """Each test begins with a healthy broker, and may change its file."""
    right = system.say("cat", CONFIG)
    system.run("systemctl", "reset-failed", UNIT)  # It is started more often than systemd allows in ten seconds.
    system.run("systemctl", "restart", UNIT)
    check(probes(system) == (200, 200), "at the start")
    yield
    system.run("sh", "-c", f"cat >{CONFIG}", text=right + "\n")


def test_a_worker_that_hangs_is_told_and_the_broker_started_again(system):
    pid = system.main_pid(UNIT)
    restarts = int(system.show(UNIT, "NRestarts"))
    began = time.monotonic()
    with halted(system.outside(pid), "amb-worker-0") as thread:
        until(TOLD_S + 5, lambda: ask(system, "/healthz")[0] == 503, "/healthz does not tell of it")
        lasted = time.monotonic() - began
        check(lasted <= patience(TOLD_S), f"told after {lasted:.1f} s")
        check("worker 0 has not turned" in ask(system, "/healthz")[1], "which thread")
        check(system.main_pid(UNIT) == pid, "ended before the watchdog's time")
        until(WATCHDOG_S + 30, lambda: has_died(thread), "systemd ends it")
    until(20, lambda: system.main_pid(UNIT) not in (0, pid), "systemd starts it again")
    system.await_unit(UNIT, "active")
    check(int(system.show(UNIT, "NRestarts")) == restarts + 1, "more than one restart")
    log = journal(system)
    check("thread worker-0 has not answered" in log and "Watchdog timeout" in log, log[-3000:])
    check(probes(system) == (200, 200), "after the restart")
    system.run(*ctl("pub", "a", "--text", "hello"))


def test_a_drain_is_healthy_and_not_ready(system):
    with stuck_reader(system, "drained") as reader:
        system.run(*ctl("pub", "drained", "--count", "200", "--size", "100"))
        system.run("systemctl", "stop", "--no-block", UNIT)
        until(20, lambda: ask(system, "/readyz")[0] == 503, "/readyz does not tell of the drain")
        check(ask(system, "/healthz")[0] == 200, "a drain is no illness")
        check(system.show(UNIT, "ActiveState") == "deactivating", "the drain is over")
        check(system.show(UNIT, "StatusText").startswith("draining: "), system.show(UNIT, "StatusText"))
        system.run("kill", "-CONT", reader)
        system.await_unit(UNIT, "inactive")
    check(system.show(UNIT, "Result") == "success", system.show(UNIT, "Result"))


def test_a_full_memory_is_healthy_and_ready(system):
    """A restart would lose messages, and no other broker would be emptier."""
    small = """memory = { host = { size = "16M"; segment = "4M"; }; };
topics = ( { match = "full"; full = "reject"; max_bytes = "1G"; } );
limits = { peer_timeout = "1m"; };
"""
    system.run("sh", "-c", f"cat >{CONFIG}", text=small)
    system.run("systemctl", "restart", UNIT)
    with stuck_reader(system, "full"):
        done = system.run(*ctl("pub", "full", "--count", "200", "--size", "1M", "--timeout", "5"), fails=True)
        check(done.returncode == 75, f"16 MiB of memory took 200 MiB: {done.stdout}")
        check(probes(system) == (200, 200), f"{probes(system)}")


@pytest.mark.parametrize("wrong", ("limits = { nothing = 1; };", 'limits = { window = "1"; };', "limits = {",
                                   'server = { name = "other"; };'))
def test_a_reload_of_a_wrong_file_fails(system, wrong):
    pid = system.main_pid(UNIT)
    right = system.say("cat", CONFIG)
    system.run("sh", "-c", f"cat >{CONFIG}", text=wrong + "\n")
    done = system.run("systemctl", "reload", UNIT, fails=True)
    check(done.returncode != 0, f"in force: {wrong}")
    log = journal(system)
    check(f"{CONFIG}:1" in log, log[-3000:])
    check(system.show(UNIT, "ActiveState") == "active", "systemd takes it for dead")
    system.run("sh", "-c", f"cat >{CONFIG}", text=right + "\n")
    system.run("systemctl", "reload", UNIT)
    check(system.main_pid(UNIT) == pid and probes(system) == (200, 200), "the broker is another one")
