# SPDX-License-Identifier: Apache-2.0
"""Administration: levels by role over TLS, Unix socket and TCP; kick, block, reload, drain; and the audit
log of all that.

    admin_test.py
"""
import json
import os
import signal
import subprocess

import pytest
from harness import check, until

USAGE, DATA, UNAVAILABLE, SOFTWARE, FORBIDDEN, CONFIG = 64, 65, 69, 70, 77, 78
ROLES = """\
roles = ( { name = "camera"; publish = ( "cam.%u.>" ); subscribe = ( "cfg.>" ); },
          { name = "viewer"; subscribe = ( "cam.>", "cfg.>" ); },
          { name = "writer"; publish = ( "cfg.>", "cam.>" ); },
          { name = "views"; subscribe = ( "$SYS.>" ); admin = "read"; },
          { name = "ops"; admin = "operate"; } );
"""
USERS = (("cam7", "plant", "camera"), ("viewer", "plant", "viewer"), ("writer", "plant", "writer"),
         ("views", "$", "views"), ("ops", "$", "ops"), ("local", "plant", "ops"))


class World:
    """A broker behind all doors, its users made by broker-ctl user."""

    def __init__(self, rig, more=""):
        self.rig, self.folder = rig, rig.folder
        self.more = more
        self.audit, self.users, self.config = (rig.folder / name for name in ("audit.jsonl", "users", "broker.conf"))
        self.tool("tls", "init", "--dir", rig.folder, "--name", "127.0.0.1")
        for name, tenant, role in USERS:
            self.tool("user", "add", name, "--tenant", tenant, "--role", role, "--file", self.users, "--new-key",
                      self.cred(name), "--ca", rig.folder / "ca.pem")
        self.write()
        self.broker = rig.broker("--config", self.config, "--listen", "tls://127.0.0.1:0", dev=False,
                                 socket_query="?mode=0666")
        self.started = []

    def cred(self, name):
        return self.folder / f"{name}.cred"

    def write(self, roles=ROLES):
        self.config.write_text(
            f'server = {{ workers = 2; }};\nmemory = {{ host = {{ size = "64M"; segment = "16M"; }}; }};\n'
            f'tls = {{ certificate = "{self.folder}/server.pem"; key = "{self.folder}/server.key"; }};\n'
            f'auth = {{ users = "{self.users}"; }};\nlog = {{ audit = "{self.audit}"; }};\n{roles}{self.more}')

    def tool(self, *words):
        done = subprocess.run([self.rig.program("broker-ctl"), *map(str, words)], text=True, capture_output=True,
                              timeout=30, check=False)
        check(done.returncode == 0, f"{done}")
        return done.stdout

    def command(self, user, *words, door="tls"):
        url = {"tls": self.broker.tls_url, "tcp": self.broker.tcp_url, "unix": self.broker.unix_url}[door]
        who = () if user is None else ("--credentials", self.cred(user))
        return [self.rig.program("broker-ctl"), "--url", url, *map(str, who), *map(str, words)]

    def ctl(self, user, *words, door="tls", data="x"):
        if words[0] in ("kick", "block", "drain", "durable") and "--yes" not in words:
            words = (*words, "--yes")
        return subprocess.run(self.command(user, *words, door=door), input=data, text=True, capture_output=True,
                              timeout=60, check=False)

    def start(self, user, *words, door="tls"):
        process = self.rig.start(self.command(user, *words, door=door))
        self.started.append(process)
        return process

    def sub(self, user, pattern, *words, door="tls"):
        before = len(self.broker.ask("subs"))
        process = self.start(user, "sub", pattern, *words, door=door)
        until(20, lambda: len(self.broker.ask("subs")) > before or not process.is_running(), f"{user}: {pattern}")
        check(process.is_running(), process.log())
        return process

    def number(self, user):
        return next(row["id"] for row in self.broker.clients() if row["user"] == user)

    def lines(self, **parts):
        """Lines of the audit log that have these parts."""
        text = self.audit.read_text()
        check(text == "" or text.endswith("\n"), "whole lines")
        lines = [json.loads(line) for line in text.splitlines()]
        return [line for line in lines if all(line.get(key) == value for key, value in parts.items())]

    def line(self, **parts):
        return until(10, lambda: self.lines(**parts), f"a line {parts}\n{self.audit.read_text()}")[-1]

    def end(self):
        for process in self.started:
            if process.is_running():
                process.kill()
        if self.broker.is_running():
            self.broker.stop()


@pytest.fixture
def world(rig):
    own = World(rig)
    yield own
    own.end()


def ok(done):
    check(done.returncode == 0, f"{done}")
    return done.stdout


def refused(done, words, code=FORBIDDEN):
    check(done.returncode == code and words in done.stderr, f"{done}")


def test_a_user_is_added_tested_and_refused(world):
    """Show 4 of the trust page: by which line, and what the audit log says."""
    cred = world.folder / "cam9.cred"
    world.tool("user", "add", "cam9", "--role", "camera", "--file", world.users, "--new-key", cred, "--ca",
               world.folder / "ca.pem")
    ok(world.ctl("ops", "reload"))
    done = world.ctl("views", "-o", "json", "user", "test", "cam9", "publish", "cam.8.x")
    row = json.loads(done.stdout)[0]
    check(done.returncode == FORBIDDEN and row["answer"] == "no" and row["why"] == "no role allows it", f"{row}")
    row = json.loads(ok(world.ctl("views", "-o", "json", "user", "test", "cam9", "publish", "cam.cam9.x")))[0]
    check(row["answer"] == "yes" and row["role"] == "camera" and row["pattern"] == "cam.%u.>" and
          row["where"] == f"{world.config}:6", f"{row}")
    refused(world.ctl("cam9", "pub", "cam.8.x"), "no role of this user allows it")
    ok(world.ctl("cam9", "pub", "cam.cam9.x"))
    line = world.line(event="refused", user="cam9")
    check(line["what"] == "publish cam.8.x" and line["tenant"] == "default" and line["by"] == "key" and
          line["result"] == "refused" and line["why"] == "no role of this user allows it" and
          line["from"].startswith("127.0.0.1:"), f"{line}")
    check(len(world.lines(event="login", user="cam9")) >= 2, "logins")
    refused(world.ctl("cam9", "pub", "$SYS.x"), "are the broker's")
    refused(world.ctl("cam9", "sub", "other.>", "--timeout", "5"), "no role of this user allows it")
    for what in ("publish $SYS.x", "subscribe other.>"):
        world.line(event="refused", user="cam9", what=what)


def test_levels_by_door(world):
    """Show 8: status, kick and reload by `read` and by `operate`, over TLS, the Unix socket and plain TCP."""
    world.sub("viewer", "cam.>")
    for door in ("tls", "unix"):
        ok(world.ctl("views", "status", door=door))
        for words in (("kick", world.number("viewer")), ("kick", "--user", "viewer"), ("block", "viewer"),
                      ("unblock", "viewer"), ("reload",), ("drain",), ("durable", "rm", "d")):
            refused(world.ctl("views", *words, door=door), 'no role of this user has admin = "operate"')
            line = world.line(event="refused", user="views", what=" ".join(map(str, words)))
            check(line["result"] == "refused" and "operate" in line["why"], f"{line}")
        refused(world.ctl("viewer", "status", door=door), 'admin = "read"')
        ok(world.ctl("ops", "status", door=door))
        ok(world.ctl("ops", "reload", door=door))
    check('limits.window = "2M"' in ok(world.ctl("views", "config", "show", "--role", "running")), "a view")
    for door in ("tls", "unix"):
        for words in (("config", "set", "log.level=info"), ("config", "diff", world.config), ("config", "test", world.config)):
            refused(world.ctl("views", *words, door=door), 'no role of this user has admin = "')
        for key in ("roles=( )", "auth.users=/u", "log.audit=", "tls.ca=/c", "http.insecure=true", "auth.token=s3cret",
                    'topics=( { match = "a"; trust = "publisher"; } )'):
            refused(world.ctl("ops", "config", "set", key, door=door), 'no role of this user has admin = "admin"')
    refused(world.ctl("ops", "config", "test", "/etc/passwd"), 'no role of this user has admin = "admin"')
    ok(world.ctl("ops", "config", "test", world.config, door="unix"))
    ok(world.ctl("ops", "config", "set", "limits.window=1M"))
    check(world.line(event="command", what="config set limits.window=1M")["user"] == "ops", "it is recorded")
    check("s3cret" not in world.audit.read_text() + world.broker.log(), "and no secret is")
    for user in ("views", "ops"):
        for words in (("status",), ("kick", "--user", "viewer"), ("reload",)):
            refused(world.ctl(user, *words, door="tcp"), "only on a unix:// or a tls:// URL")
            until(10, lambda parts={"user": user, "what": " ".join(words)}: any(
                line["why"].startswith("only on a unix") for line in world.lines(event="refused", by="key", **parts)),
                  "it is recorded")
    check(world.line(event="view", user="views", what="status")["result"] == "done", "a view")
    number = world.number("viewer")
    ok(world.ctl("ops", "kick", "--yes", number))
    lines = until(10, lambda: [line for line in world.lines(event="command", what=f"kick {number}")
                               if "command" in line] if world.lines(what=f"kick {number}", result="done") else None,
                  "two lines")
    check([line["result"] for line in lines] == ["begun", "done"] and
          lines[0]["command"] == lines[1]["command"] and lines[0]["user"] == "ops", f"{lines}")


def test_kick_and_block(world):
    """One who is kicked does not come back by itself; one who is blocked is not let in."""
    other = world.sub("viewer", "cfg.>", "--reconnect")
    reader = world.sub("viewer", "cam.>", "--reconnect", door="unix")
    publisher = world.start("cam7", "pub", "cam.cam7.x", "--size", "10", "--hold")
    until(20, lambda: any(row["user"] == "cam7" for row in world.broker.clients()), "cam7")
    done = ok(world.ctl("ops", "-o", "json", "kick", "--yes", "--user", "viewer"))
    check(json.loads(done)[0]["clients"] == 2, done)
    for process in (other, reader):
        check(process.wait() == UNAVAILABLE and "operator" in process.log(), process.log())
    check(publisher.is_running(), "others see nothing")
    refused(world.ctl("ops", "kick", "--yes", "--user", "viewer"), "no client of that user", DATA)
    refused(world.ctl("ops", "kick", "--yes", "99999"), "no client has that number", DATA)
    refused(world.ctl("ops", "kick", "--yes"), "", USAGE)
    reader = world.sub("viewer", "cam.>", "--reconnect")
    ok(world.ctl("ops", "block", "--yes", "viewer"))
    check(reader.wait() == FORBIDDEN and "not authenticated" in reader.log(), reader.log())
    refused(world.ctl("viewer", "sub", "cam.>", "--timeout", "5"), "not authenticated")
    check(world.line(event="refused", what="login")["why"] == "its user is blocked", "its reason")
    check("viewer" in ok(world.ctl("views", "blocked")), "the table")
    row = json.loads(world.ctl("views", "-o", "json", "user", "test", "viewer", "subscribe", "cam.a").stdout)[0]
    check(row["may_enter"] is False, f"{row}")
    ok(world.ctl("ops", "reload"))
    refused(world.ctl("viewer", "sub", "cam.>", "--timeout", "5"), "not authenticated")
    refused(world.ctl("ops", "block", "--yes", "viewer"), "blocked already", DATA)
    refused(world.ctl("ops", "block", "--yes", "nobody7"), "no user of that name", DATA)
    ok(world.ctl("ops", "unblock", "viewer"))
    refused(world.ctl("ops", "unblock", "viewer"), "is not blocked", DATA)
    world.sub("viewer", "cam.>")


def test_a_user_who_is_removed(world):
    """Show 5: publisher, subscriber and mapped reader of a user end; others see nothing, and a deny ends only
    what it forbids. They do so within a second on a quiet machine, which is not judged here."""
    gone = {"mapped": world.sub("viewer", "cam.>", door="unix"), "sub": world.sub("viewer", "cfg.>"),
            "pub": None}
    world.tool("user", "set", "viewer", "--role", "viewer", "--role", "writer", "--file", world.users)
    ok(world.ctl("ops", "reload"))
    gone["pub"] = world.start("viewer", "pub", "cam.viewer.x", "--size", "100", "--rate", "50", "--count", "100000")
    other = world.sub("cam7", "cfg.>", "--reconnect")
    until(20, lambda: any(row["delivered"] > 5 for row in world.broker.ask("subs")), "messages flow")
    rows = [row for row in world.broker.clients() if row["user"] == "viewer"]
    check({row["link"] for row in rows} == {"ring", "stream"}, f"{rows}")
    before = world.number("cam7")
    world.tool("user", "rm", "viewer", "--file", world.users)
    ok(world.ctl("ops", "reload"))
    until(20, lambda: not any(row["user"] == "viewer" for row in world.broker.clients()), "their sessions end")
    for what, process in gone.items():
        check(process.wait(5) == FORBIDDEN and "not authenticated" in process.log(), f"{what}: {process.log()}")
    check(world.number("cam7") == before and other.is_running(), "others see nothing")
    # A deny ends the one subscription that it forbids; the other one of the user comes back.
    stays = world.start("cam7", "pub", "cam.cam7.x", "--size", "100", "--rate", "20", "--count", "100000",
                        "--reconnect")
    until(20, lambda: len([row for row in world.broker.clients() if row["user"] == "cam7"]) == 2, "both")
    world.write(ROLES.replace('subscribe = ( "cfg.>" ); }', 'subscribe = { allow = ( "cfg.>" ); deny = ( "cfg.>" ); }; }'))
    ok(world.ctl("ops", "reload"))
    check(other.wait(10) != 0, other.log())
    until(20, lambda: [row for row in world.broker.clients() if row["user"] == "cam7"], "its publisher is back")
    check(stays.is_running(), stays.log())


def test_reload_says_what_became_of_it(world):
    done = ok(world.ctl("ops", "reload"))
    check("valid and unchanged" in done, done)
    world.users.write_text(world.users.read_text() + "x" * 5000 + "\n")
    number = len(world.users.read_text().splitlines())
    refused(world.ctl("ops", "reload"), f"users:{number}: is longer than", CONFIG)
    line = world.line(event="command", what="reload", result="failed")
    check("is longer than" in line["why"], f"{line}")
    world.users.write_text("\n".join(world.users.read_text().splitlines()[:-1]) + "\n")
    world.broker.signal(signal.SIGHUP)
    line = world.line(event="reload", by="signal")
    check(line["result"] == "done" and line["what"] == "reload", f"{line}")
    many = [world.start("ops", "reload") for _ in range(8)]
    check([process.wait() for process in many] == [0] * 8, "all are answered")
    refused(world.ctl("local", "reload"), "", FORBIDDEN)


def test_each_command_is_recorded_with_its_user(world):
    """Two lines of one number, whether it succeeds or fails. Who operates without a name of the
    users file is its uid there."""
    cases = [("kick --user viewer", "done"), ("kick 99999", "failed"), ("block viewer", "done"),
             ("unblock viewer", "done"), ("unblock viewer", "failed"), ("durable rm none", "failed"), ("reload", "done")]
    readers = [world.sub("viewer", "cam.>")]
    for user, door, name, by in (("ops", "tls", "ops", "key"), (None, "unix", str(os.geteuid()), "uid")):
        if door == "unix":
            readers.append(world.sub("viewer", "cam.>"))
        for words, result in [*cases, ("drain", "done")] if door == "unix" else cases:
            done = world.ctl(user, *words.split(), door=door)
            check((done.returncode == 0) == (result == "done"), f"{words}: {done}")
            line = world.line(event="command", what=words, result=result, user=name)
            check(line["tenant"] == "$" and line["by"] == by and "client" in line, f"{line}")
            begun = world.line(event="command", what=words, result="begun", command=line["command"])
            check(begun["user"] == name and begun["from"] == line["from"], f"{begun}")
    check(world.broker.wait(30) == 0, world.broker.log()[-2000:])
    check(all(process.wait() != 0 for process in readers), "they are kicked")


def test_an_operator_of_a_tenant_reaches_it_alone(world):
    """Of "plant": its views, users and durables. Of other tenants nothing, and nothing of the whole broker."""
    reader, views = world.sub("viewer", "cam.>"), world.sub("views", "$SYS.>")
    ok(world.ctl("writer", "pub", "cam.a"))
    rows = json.loads(ok(world.ctl("local", "-o", "json", "clients")))["clients"]
    check({row["tenant"] for row in rows} == {"plant"} and "viewer" in {row["user"] for row in rows}, f"{rows}")
    rows = json.loads(ok(world.ctl("local", "-o", "json", "topics")))["topics"]
    check([row["topic"] for row in rows] == ["cam.a"], f"{rows}")
    for view in ("workers", "memory", "doctor"):
        refused(world.ctl("local", view), "is of the whole broker")
        check("only users of the tenant" in world.line(event="refused", user="local", what=view)["why"], "its reason")
    for words in (("kick", "--user", "views"), ("block", "views")):
        refused(world.ctl("local", *words), "", DATA)
    refused(world.ctl("local", "user", "test", "views", "subscribe", "cam.>"), "no user of that name", DATA)
    ok(world.ctl("local", "kick", "--yes", "--user", "viewer"))
    check(reader.wait() != 0, "the reader of the plant has ended")
    ok(world.ctl("local", "block", "--yes", "viewer"))
    check("viewer" in ok(world.ctl("local", "blocked")), "the table")
    for words in (("reload",), ("drain",)):
        refused(world.ctl("local", *words), "of the whole broker")
    check(views.is_running(), "the user of another tenant is untouched")


def test_drain_ends_the_broker(world):
    reader = world.sub("viewer", "cam.>")
    ok(world.ctl("ops", "drain", "--yes"))
    check(world.broker.wait(30) == 0, world.broker.log()[-2000:])
    check(reader.wait() != 0, "its clients end")
    check(world.line(event="command", what="drain", result="done"), "it is recorded")


def test_files_of_the_log(world):
    moved = world.folder / "audit.1"
    world.audit.rename(moved)
    ok(world.ctl("ops", "reload"))
    check(not world.audit.exists(), "the old file goes on")
    world.broker.signal(signal.SIGUSR1)
    until(10, lambda: world.audit.exists(), "it is opened again")
    ok(world.ctl("ops", "reload"))
    world.line(event="command", what="reload")
    check(world.audit.stat().st_mode & 0o7777 == 0o600, "its mode")
    # Another one at a reload, a wrong one, and none.
    other = world.folder / "other.jsonl"
    world.audit, first = other, world.audit
    world.write()
    ok(world.ctl("ops", "reload"))
    world.line(event="command", what="reload", result="done")
    size = first.stat().st_size
    world.audit = world.folder / "none" / "audit"
    world.write()
    refused(world.ctl("ops", "reload"), "log.audit: ", CONFIG)
    world.audit = other
    check(world.line(event="command", what="reload", result="failed")["why"].find("log.audit") > 0, "recorded")
    check(first.stat().st_size == size, "the former file is left alone")
    other.chmod(0o622)
    world.write()
    world.config.write_text(world.config.read_text().replace(f'"{other}"', '""'))
    ok(world.ctl("ops", "reload"))
    ok(world.ctl("ops", "status"))
    done = subprocess.run([world.rig.program("brokerd"), "--config", world.config, "--listen",
                           f"unix://{world.folder}/none.sock", "-o", f"log.audit={other}"], capture_output=True,
                          text=True, timeout=30, check=False)
    check(done.returncode == CONFIG and "log.audit: " in done.stderr and "written by others" in done.stderr, f"{done}")
    check(not (world.folder / "none.sock").exists(), "no socket is opened")


def test_a_full_disk_refuses_commands(rig):
    """The audit log lies on a tmpfs that is full; the rest goes on."""
    disk = rig.folder / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", disk],
                                           capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespace of mounts")
    world = World(rig)
    world.broker.stop()
    world.audit = disk / "audit.jsonl"
    world.write()
    script = (f'mount -t tmpfs -o size=64k,mode=755 tmpfs {disk} && '
              f'brokerd="$1" && shift && exec "$brokerd" "$@"')
    world.broker = BrokerOnFullDisk(world, script)
    try:
        full(world, disk)
    finally:
        world.end()


class BrokerOnFullDisk:
    """A broker in a namespace of mounts of its own, where the folder is a small tmpfs."""

    def __new__(cls, world, script):
        rig, program = world.rig, world.rig.program("brokerd")
        wrapper = rig.folder / "brokerd-on-tmpfs"
        wrapper.write_text(f'#!/bin/sh\nset -- {program} "$@"\n'
                           f"exec unshare --mount sh -c '{script}' sh \"$@\"\n")
        wrapper.chmod(0o755)
        original = rig.program
        rig.program = lambda name: str(wrapper) if name == "brokerd" else original(name)
        try:
            return rig.broker("--config", world.config, "--listen", "tls://127.0.0.1:0", dev=False,
                              socket_query="?mode=0666")
        finally:
            rig.program = original


def full(world, disk):
    inside = f"/proc/{world.broker.pid}/root{disk}"

    class Seen:
        """The log as the broker sees it."""

        def read_text(self):
            with open(f"{inside}/audit.jsonl", encoding="ascii") as file:
                return file.read()

    world.audit = Seen()
    ok(world.ctl("ops", "reload"))
    reader = world.sub("viewer", "cam.>")
    with open(f"{inside}/fill", "wb", buffering=0) as fill:
        try:
            while True:
                fill.write(b"x" * 4096)
        except OSError:
            pass
    # What is left of the last page of the log takes some lines yet.
    def is_refused():
        done = world.ctl("ops", "reload")
        return done.returncode == SOFTWARE and done
    done = until(60, is_refused, "a command is refused")
    check("refused, for it cannot be recorded (log.audit: No space left on device)" in done.stderr, f"{done}")
    for words in (("kick", "--user", "viewer"), ("block", "viewer"), ("drain",)):
        refused(world.ctl("ops", *words), "cannot be recorded", SOFTWARE)
    check(reader.is_running() and world.number("viewer"), "nobody is kicked")
    ok(world.ctl("views", "status"))
    ok(world.ctl("writer", "pub", "cfg.a"))
    status = world.broker.ask("status")
    check(status["audit_lost"] > 0, f"{status}")
    rows = [row for row in world.broker.ask("doctor") if row["check"] == "audit log"]
    check(rows and rows[0]["state"] == "error" and "No space left" in rows[0]["finding"], f"{rows}")
    check(world.lines(result="refused") == [], "no line is torn")
    os.unlink(f"{inside}/fill")
    ok(world.ctl("ops", "kick", "--yes", "--user", "viewer"))
    check(reader.wait() == UNAVAILABLE, reader.log())
    check(world.line(event="lost")["count"] > 0, "they are counted")


def test_without_users_the_socket_decides(rig):
    """Root and the broker's own uid have all commands; nobody else has any."""
    broker = rig.broker("-o", f"log.audit={rig.folder}/audit.jsonl")
    def ctl(*words):
        return subprocess.run([rig.program("broker-ctl"), "--url", broker.unix_url, *words], capture_output=True,
                              text=True, timeout=30, check=False)
    victim = rig.start([rig.program("broker-ctl"), "--url", broker.tcp_url, "sub", "a.>", "--reconnect"])
    until(20, lambda: [row for row in broker.clients() if row["user"] == "tcp"], "a client of TCP")
    refused(ctl("block", "--yes", str(os.geteuid())), "cannot be blocked", DATA)
    ok(ctl("block", "--yes", "tcp"))
    check(victim.wait() == FORBIDDEN, victim.log())
    done = subprocess.run([rig.program("broker-ctl"), "--url", broker.tcp_url, "pub", "a.b", "--count", "1"],
                          capture_output=True, text=True, timeout=30, check=False)
    refused(done, "not authenticated")
    ok(ctl("unblock", "tcp"))
    refused(subprocess.run([rig.program("broker-ctl"), "--url", broker.tcp_url, "reload"], capture_output=True,
                           text=True, timeout=30, check=False), "only the broker's own user or root")
    ok(ctl("reload"))
    broker.stop()


def armed(world, user, *words):
    """A trace that is under way."""
    before = world.broker.log().count(": armed")
    process = world.start(user, "-o", "json", "--timeout", "20s", "trace", *words)
    until(20, lambda: world.broker.log().count(": armed") > before or not process.is_running(), "armed")
    return process


def topics_of(process):
    answer = json.loads(process.line(30))
    check(process.wait() == 0, process.log())
    return sorted({row["topic"] for row in answer["trace"]})


def test_a_trace_is_of_ones_own_tenant(world):
    """An operator of a tenant sees that one's batches alone; one of "$" sees all; to look is not enough."""
    cred = world.folder / "cam8.cred"
    world.tool("user", "add", "cam8", "--tenant", "mill", "--role", "camera", "--file", world.users, "--new-key", cred,
               "--ca", world.folder / "ca.pem")
    ok(world.ctl("ops", "reload"))
    refused(world.ctl("views", "trace", "cam.>"), 'no role of this user has admin = "operate"')
    refused(world.ctl("ops", "trace", "cam.>", door="tcp"), "only on a unix:// or a tls:// URL")
    plant, whole = armed(world, "local", "cam.>", "--count", 1), armed(world, "ops", "cam.>", "--count", 2)
    refused(world.ctl("local", "trace", "cam.>"), "as many traces are under way as there may be", UNAVAILABLE)
    ok(world.ctl("cam8", "pub", "cam.cam8.x"))
    ok(world.ctl("cam7", "pub", "cam.cam7.x"))
    check(topics_of(plant) == ["cam.cam7.x"], "of its tenant")
    ok(world.ctl("cam7", "pub", "cam.cam7.y"))
    check(topics_of(whole) == ["cam.cam7.y", "cam.cam8.x"], "those that the other trace has not taken")
    done = world.line(event="command", what="trace cam.> 1 20000ms", result="done")
    check(done["user"] == "local" and world.lines(command=done["command"], result="begun"), done)
