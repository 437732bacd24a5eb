# SPDX-License-Identifier: Apache-2.0
"""The broker as a service: what a manager, which is a socket of the test's own, is told of its life.

    systemd_test.py
"""
import contextlib
import select
import signal
import socket
import subprocess
import time

import pytest

from halt import halted
from harness import check, patience, until

WATCHDOG = 2.0


class Manager:
    """Listens where NOTIFY_SOCKET says."""

    def __init__(self, rig):
        self.path = rig.folder / f"notify-{rig.started}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.heard = []

    def environment(self, watchdog=None):
        more = {} if watchdog is None else {"WATCHDOG_USEC": str(int(watchdog * 1e6))}
        return {"NOTIFY_SOCKET": str(self.path), **more}

    def listen(self, seconds):
        """Lines that come within that time, with the moment of each."""
        deadline = time.monotonic() + seconds
        fresh = []
        while select.select([self.socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
            now = time.monotonic()
            fresh += [(now, line) for line in self.socket.recv(65536).decode().splitlines()]
        self.heard += fresh
        return fresh

    def await_line(self, begin, seconds=20):
        """A line that begins so, of those that have come since heard was cleared."""
        def look():
            self.listen(0.05)
            return next((line for _, line in self.heard if line.startswith(begin)), None)
        return until(seconds, look, f"a line {begin}: {self.heard[-20:]}")

    def words(self):
        return [line for _, line in self.heard]

    def is_fed(self, seconds):
        return any(line == "WATCHDOG=1" for _, line in self.listen(seconds))


@pytest.fixture
def manager(rig):
    own = Manager(rig)
    yield own
    own.socket.close()


def run_ctl(rig, broker, *words):
    return subprocess.run([rig.program("broker-ctl"), "--url", broker.unix_url, *words], capture_output=True,
                          text=True, timeout=60, check=False)


def test_ready_when_a_client_can_connect(rig, manager):
    broker = rig.broker(env=manager.environment())
    manager.await_line("READY=1")
    check(run_ctl(rig, broker, "status").returncode == 0, "ready, and nobody is let in")
    words = manager.words()
    check(words[0] == "STATUS=starting" and words[1].startswith("EXTEND_TIMEOUT_USEC="), f"{words}")
    check(words.count("READY=1") == 1, f"{words}")
    broker.stop()


def test_the_state_counts_clients(rig, manager):
    broker = rig.broker(env=manager.environment())
    manager.await_line("STATUS=0 clients, 0 messages/s, memory ")
    reader = rig.client("broker-ctl", "--url", broker.unix_url, "sub", "a")
    manager.await_line("STATUS=1 clients, ")
    manager.heard.clear()
    reader.kill()
    manager.await_line("STATUS=0 clients, ")
    broker.stop()


def test_a_reload_ends_ready_also_when_it_is_refused(rig, manager):
    config = rig.folder / "broker.conf"
    config.write_text('limits = { drain_timeout = "5s"; };\n')
    broker = rig.broker("--config", config, env=manager.environment())
    manager.await_line("READY=1")
    for text, code in (('limits = { drain_timeout = "6s"; };\n', 0), ("limits = { nothing = 1; };\n", None)):
        config.write_text(text)
        manager.heard.clear()
        done = run_ctl(rig, broker, "config", "reload")
        check(done.returncode == 0 if code == 0 else done.returncode != 0, f"{done}")
        manager.await_line("READY=1")
        words = [word for word in manager.words() if not word.startswith("STATUS=")]
        check(words[0] == "RELOADING=1" and words[1].startswith("MONOTONIC_USEC="), f"{words}")
        check(words[2:] == ["READY=1"], f"{words}")
    broker.stop()


def test_a_drain_says_so_and_asks_for_time(rig, manager):
    broker = rig.broker("-o", "limits.drain_timeout=30s", env=manager.environment())
    manager.await_line("READY=1")
    holder = rig.client("broker-ctl", "--url", broker.unix_url, "sub", "a", "-o", "json")
    until(20, lambda: broker.ask("subs"), "it reads")
    manager.heard.clear()
    holder.signal(signal.SIGSTOP)  # Messages stay undelivered.
    done = subprocess.run([rig.program("broker-ctl"), "--url", broker.unix_url, "pub", "a", "--count", "200",
                           "--size", "100"], timeout=60, check=False)
    check(done.returncode == 0, f"{done}")
    broker.signal(signal.SIGTERM)
    manager.await_line("STOPPING=1")
    manager.await_line("STATUS=draining: ")
    manager.await_line("EXTEND_TIMEOUT_USEC=")
    manager.heard.clear()
    manager.await_line("EXTEND_TIMEOUT_USEC=")  # ... once more, as long as it goes on.
    check("STOPPING=1" not in manager.words(), f"{manager.words()}")
    holder.signal(signal.SIGCONT)
    holder.kill()
    check(broker.wait(60) == 0, broker.log())


@pytest.mark.parametrize("thread", ("amb-control", "amb-worker-0", "amb-worker-1", "amb-maker"))
def test_a_thread_that_hangs_starves_the_watchdog(rig, manager, thread):
    broker = rig.broker("-o", "server.workers=2", env=manager.environment(WATCHDOG))
    manager.await_line("READY=1")
    check(manager.is_fed(WATCHDOG), f"without clients: {manager.heard}")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(halted(broker.pid, thread))
        except PermissionError as error:
            pytest.skip(f"no ptrace here: {error}")
        manager.listen(0.1)  # One may have been under way.
        check(not manager.is_fed(1.5 * WATCHDOG), f"{thread} stands still: {manager.heard}")
    until(20, lambda: manager.is_fed(0.5), "fed again")
    if thread != "amb-control":
        name = thread.removeprefix("amb-")
        check(f"thread {name} has not answered" in broker.log(), broker.log())
    broker.stop()


def test_the_watchdog_is_fed_in_time_under_load(rig, manager):
    broker = rig.broker("-o", "server.workers=2", env=manager.environment(WATCHDOG))
    manager.await_line("READY=1")
    load = rig.client("broker-ctl", "--url", broker.unix_url, "pub", "a", "--count", "400000", "--size", "100")
    reader = rig.client("broker-ctl", "--url", broker.unix_url, "sub", "a", "-o", "json")
    manager.listen(3 * WATCHDOG)
    times = [moment for moment, line in manager.heard if line == "WATCHDOG=1"]
    gaps = [b - a for a, b in zip(times, times[1:])]
    check(len(times) >= 3 and max(gaps) < patience(WATCHDOG), f"{gaps}")
    load.kill()
    reader.kill()
    broker.stop()


@pytest.mark.parametrize("environment, words", (
    ({"NOTIFY_SOCKET": "nowhere"}, "NOTIFY_SOCKET"),
    ({"NOTIFY_SOCKET": "/" + 200 * "x"}, "NOTIFY_SOCKET"),
    ({"NOTIFY_SOCKET": "/proc/none"}, "NOTIFY_SOCKET"),
    ({"NOTIFY_SOCKET": "/proc/none", "WATCHDOG_USEC": "100000"}, "NOTIFY_SOCKET"),
    ({"WATCHDOG_USEC": "1000000"}, "watchdog"),
    ({"NOTIFY_SOCKET": "@amb-nobody", "WATCHDOG_USEC": "soon", "WATCHDOG_PID": "x"}, "watchdog")))
def test_values_that_make_no_sense_get_one_warning(rig, environment, words):
    broker = rig.broker(env=environment)
    reader = rig.client("broker-ctl", "--url", broker.unix_url, "sub", "a")
    until(20, lambda: broker.clients(), "it runs on")
    reader.kill()
    broker.stop()
    warnings = [line for line in broker.log().splitlines() if " WARN " in line and words in line]
    other = [line for line in broker.log().splitlines() if " WARN " in line and "service manager" in line]
    check(len(warnings) == 1, broker.log())
    check(len(other) <= (2 if "nobody" in str(environment) else 1), broker.log())
