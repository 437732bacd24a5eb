# SPDX-License-Identifier: Apache-2.0
"""Users of a users file: who comes in, as whom, and what a reload makes of it.

    login_test.py

Skipped unless root, where clients are to have other uids.
"""
import os
import signal
import subprocess

import pytest
from harness import check, until

ALICE, BOB, STRANGER, OVERFLOW = 12345, 12346, 12347, 65534
FORBIDDEN, CONFIG = 77, 78
LINES = {
    "alice": f"alice:plant:camera:-:-:uid/{ALICE}",
    "bob": f"bob:plant:-:-:-:uid/{BOB}",
}


def as_user(number):
    return ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups"]


class Users:
    """A users file, and a broker of it."""

    def __init__(self, rig, *options, lines=LINES.values(), **more):
        self.rig = rig
        self.path = rig.folder / "users"
        self.write(*lines)
        self.broker = rig.broker("-o", f"auth.users={self.path}", *options,
                                 socket_query="?mode=0666", tcp=False, **more)

    def write(self, *lines, mode=0o600):
        self.path.write_text("".join(line + "\n" for line in lines))
        self.path.chmod(mode)

    def reload(self, words):
        before = self.broker.log().count(words)
        self.broker.signal(signal.SIGHUP)
        until(10, lambda: self.broker.log().count(words) > before, f"the log says: {words}")

    def ctl(self, user, *words, data="x", seconds=30):
        return subprocess.run([*as_user(user), self.rig.program("broker-ctl"), "--url",
                               self.broker.unix_url, *map(str, words)], input=data, text=True,
                              capture_output=True, timeout=seconds, check=False)

    def is_in(self, user):
        done = self.ctl(user, "pub", "fine", "--count", 1, "--size", 1, "--timeout", 5)
        check(done.returncode in (0, FORBIDDEN), f"{done}")
        check(done.returncode == 0 or "not authenticated" in done.stderr, f"{done}")
        return done.returncode == 0


@pytest.fixture(autouse=True)
def needs_root(rig):
    if os.geteuid() != 0:
        pytest.skip("not root")
    probe = subprocess.run([*as_user(STRANGER), "test", "-x", rig.program("broker-ctl")],
                           check=False, capture_output=True, timeout=30)
    if probe.returncode != 0:
        pytest.skip(f"other users cannot get at {rig.build}")


def test_who_is_listed_is_in(rig):
    users = Users(rig)
    for user, may in ((ALICE, True), (BOB, True), (STRANGER, False), (OVERFLOW, False), (0, True)):
        check(users.is_in(user) is may, f"{user}: {may}")
    waiters = {name: rig.client("test-waiter", users.broker.unix_url, prefix=as_user(number))
               for name, number in (("alice", ALICE), ("bob", BOB))}
    for waiter in waiters.values():
        waiter.expect("waiting")
    rows = {row["user"]: row for row in users.broker.clients()}
    check({"alice", "bob"} <= set(rows), f"{rows}")
    check(rows["alice"]["tenant"] == "plant" and rows["alice"]["mechanism"] == "uid" and
          rows["alice"]["suite"] == "", f"{rows['alice']}")
    # Names are the user's.
    taken = users.ctl(ALICE, "sub", "jobs", "--durable", "d", "--ack", "explicit", "--timeout", 1)
    owners = [row["user"] for row in users.broker.ask("queues")]
    check(owners == ["plant:alice"], f"{taken} {owners}")
    for waiter in waiters.values():
        waiter.kill()
    users.broker.stop()


def test_a_reload_is_whole_or_nothing(rig):
    users = Users(rig)
    waiter = rig.client("test-waiter", users.broker.unix_url, prefix=as_user(ALICE))
    other = rig.client("test-waiter", users.broker.unix_url, prefix=as_user(BOB))
    waiter.expect("waiting")
    other.expect("waiting")
    # Wrong in every way: nothing changes.
    for lines, mode, words in (
        ([LINES["bob"], "carol:plant:-:-:-:pass/word"], 0o600, "users:2: credential"),
        ([LINES["bob"], LINES["bob"]], 0o600, "users:2: the user bob is there twice"),
        ([LINES["bob"]], 0o640, "can be read by others"),
        (["x" * 5000], 0o600, "users:1: is longer than 4096 bytes"),
        ([LINES["bob"], "a\0b"], 0o600, "users:2: has a NUL"),
    ):
        users.write(*lines, mode=mode)
        users.reload(words)
        check(users.is_in(ALICE) and users.is_in(BOB), f"{words}: nobody is out")
    users.write(LINES["bob"])
    users.reload("in force from now on: auth.users")
    until(10, lambda: [row["user"] for row in users.broker.clients()].count("alice") == 0,
          "her session ends")
    check(not users.is_in(ALICE) and users.is_in(BOB), "alice alone is out")
    check({row["user"] for row in users.broker.clients()} == {"bob"}, "bob has noticed nothing")
    users.reload("the configuration is valid and unchanged")
    users.write(LINES["alice"], LINES["bob"])
    users.reload("in force from now on: auth.users")
    check(users.is_in(ALICE), "she is back")
    waiter.kill()
    other.kill()
    users.broker.stop()


def test_wrong_files_at_the_start(rig):
    path = rig.folder / "users"
    for text, mode, more, words in (
        ("a:b", 0o600, (), "users:1: roles missing"),
        (LINES["alice"], 0o644, (), "can be read by others (got mode 0644"),
        (LINES["alice"], 0o600, ("-o", "auth.token=x"), "auth.users: auth.token is set too"),
    ):
        path.write_text(text)
        path.chmod(mode)
        done = subprocess.run([rig.program("brokerd"), "--dev", "--listen",
                               f"unix://{rig.folder}/none.sock", "-o", f"auth.users={path}", *more],
                              capture_output=True, timeout=30, check=False, text=True)
        check(done.returncode == CONFIG and words in done.stderr, f"{done}")
        check(not (rig.folder / "none.sock").exists(), "no socket is opened")
