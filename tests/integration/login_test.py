# SPDX-License-Identifier: Apache-2.0
"""Users of a users file: who comes in, as whom, and what a reload makes of it.

    login_test.py

Those of other uids are skipped unless root.
"""
import json
import os
import pathlib
import signal
import subprocess

import pytest
from harness import as_user, check, until

ALICE, BOB, STRANGER, OVERFLOW = 12345, 12346, 12347, 65534
FORBIDDEN, CONFIG = 77, 78
LINES = {
    "alice": f"alice:plant:camera:-:-:uid/{ALICE}",
    "bob": f"bob:plant:camera:-:-:uid/{BOB}",
}
ROLES = 'roles=( { name = "camera"; publish = ( ">" ); subscribe = ( ">" ); } )'


class Users:
    """A users file, and a broker of it."""

    def __init__(self, rig, *options, lines=LINES.values(), **more):
        self.rig = rig
        self.path = rig.folder / "users"
        self.write(*lines)
        self.broker = rig.broker("-o", f"auth.users={self.path}", "-o", ROLES, *options,
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


@pytest.mark.usefixtures("other_uids")
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


@pytest.mark.usefixtures("other_uids")
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


class Doors:
    """A broker with users behind each door, their files made by broker-ctl as README says."""

    def __init__(self, rig, *options):
        self.rig, self.folder = rig, rig.folder / "doors"
        self.folder.mkdir()
        self.tool("tls", "init", "--dir", self.folder, "--name", "127.0.0.1")
        self.tool("tls", "issue", "web", "--dir", self.folder, "--name", "spiffe://plant/web")
        self.key = self.tool("key", "new", self.path("cam7.cred"), "--user", "cam7", "--ca",
                             self.path("ca.pem"))
        self.token = self.tool("key", "new", "--token", self.path("web.token"))
        self.users = self.folder / "users"
        self.write(f"cam7:plant:camera:-:-:{self.key}",
                   f"web:plant:camera:-:-:{self.token},cert/uri=spiffe://plant/web")
        self.broker = rig.broker(
            "--listen", "tls://127.0.0.1:0", "-o", f"auth.users={self.users}", "-o", ROLES,
            "-o", f"tls.certificate={self.path('server.pem')}",
            "-o", f"tls.key={self.path('server.key')}", "-o", f"tls.ca={self.path('ca.pem')}",
            "-o", "tls.clients=optional", *options)
        self.urls = {"unix": self.broker.unix_url, "tcp": self.broker.tcp_url,
                     "tls": self.broker.tls_url}

    def path(self, file):
        return str(self.folder / file)

    def write(self, *lines):
        self.users.write_text("".join(line + "\n" for line in lines))
        self.users.chmod(0o600)

    def tool(self, *words):
        done = subprocess.run([self.rig.program("broker-ctl"), *map(str, words)], text=True,
                              capture_output=True, timeout=30, check=False)
        check(done.returncode == 0, f"{done}")
        return done.stdout.strip()

    def pub(self, door, credentials=None, **env):
        extra = {"AMB_CA": self.path("ca.pem")}
        if credentials is not None:
            extra["AMB_CREDENTIALS"] = self.path(credentials)
        extra.update({name: self.path(file) for name, file in env.items()})
        url = ("--url", self.urls[door]) if door in self.urls else ()
        return subprocess.run([self.rig.program("broker-ctl"), *url, "pub", "fine", "--count", "1",
                               "--size", "1", "--timeout", "5"], text=True, capture_output=True,
                              timeout=30, check=False, env={**os.environ, **extra}, input="")


def test_keys_tokens_and_certificates(rig):
    doors = Doors(rig)
    cert = {"AMB_CERTIFICATE": "web.pem", "AMB_KEY": "web.key"}
    for door, credentials, env, words in (
        ("unix", "cam7.cred", {}, None),
        ("tcp", "cam7.cred", {}, None),
        ("tls", "cam7.cred", {}, None),
        ("unix", "web.token", {}, None),
        ("tls", "web.token", {}, None),
        ("tls", None, cert, None),
        ("tcp", "web.token", {}, "takes a token by tls:// or unix:// only"),
        ("tcp", None, {}, "wants a user's credentials"),
        ("tls", None, {}, "wants a user's credentials"),
        ("tls", "none.cred", {}, "none.cred cannot be read"),
    ):
        done = doors.pub(door, credentials, **env)
        expected = 0 if words is None else FORBIDDEN
        check(done.returncode == expected and (words or "") in done.stderr,
              f"{door} {credentials}: {done}")
    # Keys that nobody has, and a key of another user's name.
    doors.tool("key", "new", doors.path("strange.cred"))
    text = pathlib.Path(doors.path("cam7.cred")).read_text()
    for name, changed in (("other", text.replace("user = cam7", "user = web")),):
        pathlib.Path(doors.path(f"{name}.cred")).write_text(changed)
        os.chmod(doors.path(f"{name}.cred"), 0o600)
    for credentials in ("strange.cred", "other.cred"):
        done = doors.pub("tls", credentials)
        check(done.returncode == FORBIDDEN and "not authenticated" in done.stderr, f"{done}")
    check("not authenticated: " in doors.broker.log(), "the log has a reason")
    # A file that others may read is used nowhere.
    os.chmod(doors.path("cam7.cred"), 0o644)
    done = doors.pub("unix", "cam7.cred")
    check(done.returncode != 0 and "can be read by others (got mode 0644" in done.stderr, f"{done}")
    doors.broker.stop()


def test_a_file_says_where_and_who(rig):
    doors = Doors(rig)
    doors.tool("--url", doors.urls["tls"], "key", "new", doors.path("all.cred"), "--user", "cam8",
               "--ca", doors.path("ca.pem"))
    shown = json.loads(doors.tool("-o", "json", "key", "show", doors.path("all.cred")))[0]
    check(shown["user"] == "cam8" and shown["url"] == doors.urls["tls"], f"{shown}")
    doors.write(f"cam7:plant:camera:-:-:{doors.key}", f"cam8:plant:camera:-:-:{shown['credential']}")
    doors.broker.signal(signal.SIGHUP)
    until(10, lambda: "in force from now on: auth.users" in doors.broker.log(), "the reload")
    env = {name: value for name, value in os.environ.items() if name not in ("AMB_CA", "AMB_URL")}
    env["AMB_CREDENTIALS"] = doors.path("all.cred")
    sub = rig.start([rig.program("broker-ctl"), "sub", "fine", "--count", "1"], env=env)
    until(20, lambda: [row for row in doors.broker.clients() if row["user"] == "cam8"], "cam8")
    row = next(row for row in doors.broker.clients() if row["user"] == "cam8")
    check(row["mechanism"] == "key" and row["suite"].startswith("TLS_") and
          row["tenant"] == "plant", f"{row}")
    until(20, lambda: doors.broker.ask("subs"), "its subscription")
    check(doors.pub("unix", "cam7.cred").returncode == 0, "a message")
    check(sub.wait() == 0, sub.log())
    # Nothing is overwritten, and what is no file of ours is said.
    for words in (("new", doors.path("all.cred")), ("show", doors.path("ca.pem") + ".none"),
                  ("new", doors.path("x.cred"), "--ca", doors.path("server.key"))):
        done = subprocess.run([rig.program("broker-ctl"), "key", *words], capture_output=True,
                              timeout=30, check=False, text=True)
        check(done.returncode == 65 and done.stderr != "", f"{done}")
    doors.broker.stop()


def test_a_key_that_is_taken_back_ends_its_sessions(rig):
    doors = Doors(rig)
    web = {"AMB_CREDENTIALS": doors.path("web.token"), "AMB_CA": doors.path("ca.pem")}
    cam = {"AMB_CREDENTIALS": doors.path("cam7.cred"), "AMB_CA": doors.path("ca.pem")}
    subs = {name: rig.start([rig.program("broker-ctl"), "--url", doors.urls["tls"], "sub", "fine",
                             "--reconnect"], env=env)
            for name, env in (("web", web), ("cam7", cam))}
    until(20, lambda: {row["user"] for row in doors.broker.clients()} == {"web", "cam7"}, "both")
    doors.write(f"web:plant:camera:-:-:{doors.token}")
    doors.broker.signal(signal.SIGHUP)
    check(subs["cam7"].wait() == FORBIDDEN, f"it ends for good: {subs['cam7'].log()}")
    check({row["user"] for row in doors.broker.clients()} == {"web"}, "web has noticed nothing")
    check(doors.pub("tls", "cam7.cred").returncode == FORBIDDEN, "and is not let in again")
    subs["web"].kill()
    doors.broker.stop()


class TwoHosts:
    """Two network namespaces with a wire between them. Nothing else is in them."""

    def __init__(self):
        number = os.getpid()
        self.names = [f"amb-a{number}", f"amb-b{number}"]
        self.addresses = ["10.77.0.1", "10.77.0.2"]

    def ip(self, *words):
        return subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)

    def __enter__(self):
        try:
            for name in self.names:
                self.ip("netns", "add", name)
            ends = [f"va{os.getpid()}", f"vb{os.getpid()}"]
            self.ip("link", "add", ends[0], "netns", self.names[0], "type", "veth", "peer", "name",
                    ends[1], "netns", self.names[1])
            for name, end, address in zip(self.names, ends, self.addresses):
                self.ip("-n", name, "address", "add", f"{address}/24", "dev", end)
                self.ip("-n", name, "link", "set", end, "up")
                self.ip("-n", name, "link", "set", "lo", "up")
        except (OSError, subprocess.SubprocessError) as error:
            self.__exit__()
            pytest.skip(f"no network namespaces: {error}")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True,
                           timeout=30)

    def on(self, host):
        return ("ip", "netns", "exec", self.names[host])


def test_two_hosts_and_one_file(rig):
    """The two commands of a quick start: all that the other host needs is the file."""
    if os.geteuid() != 0:
        pytest.skip("not root")
    state = {"XDG_STATE_HOME": str(rig.folder)}
    clean = {name: value for name, value in os.environ.items()
             if name not in ("AMB_CA", "AMB_URL", "AMB_CREDENTIALS")}
    with TwoHosts() as hosts:
        def start_broker():
            broker = rig.start([rig.program("brokerd"), "--dev", "--listen", "tls://0.0.0.0:4733"],
                               env=state, prefix=hosts.on(0))
            broker.expect("ready")
            return broker

        broker = start_broker()
        made = rig.folder / "ambroker" / "dev"
        check(f"user dev are in {made}" in broker.log(), broker.log())
        # The other host has the file alone.
        elsewhere = rig.folder / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "dev.cred").write_text((made / "dev.cred").read_text())
        os.chmod(elsewhere / "dev.cred", 0o600)
        env = {**clean, "AMB_CREDENTIALS": str(elsewhere / "dev.cred")}
        sent = os.urandom(300_000)
        sub = rig.start([rig.program("broker-ctl"), "sub", ">", "--count", "1", "--out-dir",
                         str(elsewhere)], env=env, prefix=hosts.on(1))
        pub = subprocess.run([*hosts.on(0), rig.program("broker-ctl"), "pub", "files",
                              "--wait-subscribers", "1", "--file", "/dev/stdin"], input=sent,
                             env=env, capture_output=True, timeout=60, check=False)
        check(pub.returncode == 0, f"{pub}")
        check(sub.wait(60) == 0, sub.log())
        got = [path for path in elsewhere.iterdir() if path.name != "dev.cred"]
        check(len(got) == 1 and got[0].read_bytes() == sent, f"{got}")
        for words, refused in ((("-tls1_2",), True), (("-tls1_3", "-alpn", "amb/1"), False)):
            shown = subprocess.run([*hosts.on(1), "openssl", "s_client", "-connect",
                                    f"{hosts.addresses[0]}:4733", "-CAfile", str(made / "ca.pem"),
                                    *words], input=b"", capture_output=True, timeout=30,
                                   check=False)
            text = shown.stdout.decode(errors="replace")
            check(refused != ("Verify return code: 0 (ok)" in text and
                              "ambroker dev authority" in text), f"{words}: {text}")
        before = {path.name: path.read_bytes() for path in made.iterdir()}
        broker.signal(signal.SIGTERM)
        check(broker.wait() == 0, broker.log())
        # The next start makes nothing anew.
        broker = start_broker()
        check(before == {path.name: path.read_bytes() for path in made.iterdir()}, "other files")
        again = subprocess.run([*hosts.on(1), rig.program("broker-ctl"), "status"], env=env,
                               capture_output=True, timeout=60, check=False)
        check(again.returncode == 0, f"{again}")
        broker.signal(signal.SIGHUP)
        until(20, lambda: " reload" in broker.log(), "it reads the configuration again")
        check("reload: the configuration is valid and unchanged" in broker.log(), broker.log())
        broker.signal(signal.SIGTERM)
        check(broker.wait() == 0, broker.log())
