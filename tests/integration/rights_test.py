# SPDX-License-Identifier: Apache-2.0
"""Rights of users: topics, patterns, names and administration, and a reload that takes some away.

    rights_test.py

Skipped unless root, for clients have other uids.
"""
import json
import signal
import subprocess

import pytest
from harness import Failure, as_user, check, until

ALICE, BOB, OPERATOR, READER, BOSS = 12345, 12346, 12347, 12348, 12349
FORBIDDEN = 77
USERS = {
    "alice": f"alice:plant:camera:-:-:uid/{ALICE}",
    "bob": f"bob:plant:viewer:-:-:uid/{BOB}",
    "op": f"op:$:ops:-:-:uid/{OPERATOR}",
    "reader": f"reader:$:views:-:-:uid/{READER}",
    "boss": f"boss:plant:all:-:-:uid/{BOSS}",
}
ROLES = {
    "camera": 'publish = ( "cam.%u.>", "ask" ); subscribe = ( "cfg.>" ); request = true;',
    "viewer": 'subscribe = { allow = ( "cam.>", "cfg.>", "ask" ); deny = ( "cfg.secret.>" ); };'
              'shared = ( "workers" ); reply = true;',
    "ops": 'admin = "operate"; subscribe = ( "$SYS.>", "$DLQ.>", "cfg.>" ); publish = ( "cfg.>" );',
    "all": 'subscribe = ( ">" ); publish = ( ">" );',
    "views": 'admin = "read";',
}


class World:
    """A broker with a configuration and a users file that change."""

    def __init__(self, rig):
        self.rig = rig
        self.users, self.roles = dict(USERS), dict(ROLES)
        self.users_file, self.config = rig.folder / "users", rig.folder / "broker.conf"
        self.has_users = True
        self.write()
        self.broker = rig.broker("--config", self.config, "-o", "server.workers=2",
                                 socket_query="?mode=0666", tcp=False)
        self.readers = []

    def write(self):
        self.users_file.write_text("".join(f"{line}\n" for line in self.users.values()))
        self.users_file.chmod(0o600)
        roles = ",\n".join(f'{{ name = "{name}"; {rest} }}' for name, rest in self.roles.items())
        users = f'auth = {{ users = "{self.users_file}"; }};\n' if self.has_users else ""
        self.config.write_text(f'roles = ( {roles} );\n{users}')

    def reload(self, words):
        self.write()
        before = self.broker.log().count(words)
        self.broker.signal(signal.SIGHUP)
        until(10, lambda: self.broker.log().count(words) > before, f"the log says: {words}")

    def command(self, *words):
        return [self.rig.program("broker-ctl"), "--url", self.broker.unix_url, *map(str, words)]

    def ctl(self, user, *words, data="x"):
        return subprocess.run([*as_user(user), *self.command(*words)], input=data, text=True,
                              capture_output=True, timeout=30, check=False)

    def publish(self, user, topic, data="x"):
        done = self.ctl(user, "pub", topic, "--timeout", 10, data=data)
        check(done.returncode in (0, FORBIDDEN), f"{topic}: {done}")
        check(done.returncode == 0 or "role of this user" in done.stderr, f"{topic}: {done}")
        return done.returncode == 0

    def start(self, user, *words):
        process = self.rig.start([*as_user(user), *self.command(*words)])
        self.readers.append(process)
        return process

    def sub(self, user, *words):
        """A subscription that the broker has."""
        before = len(self.broker.ask("subs"))
        process = self.start(user, "sub", *words)
        until(20, lambda: len(self.broker.ask("subs")) > before or not process.is_running(),
              f"a subscription: {words}")
        check(process.is_running(), f"{words}: {process.log()}")
        return process

    def row(self, user):
        rows = [row for row in self.broker.clients() if row["user"] == user]
        return rows[0] if rows else None

    def end(self):
        for reader in self.readers:
            if reader.is_running():
                reader.kill()
        self.broker.stop()


@pytest.fixture
def world(rig, other_uids):
    own = World(rig)
    yield own
    own.end()


def refused(done, words="role of this user"):
    check(done.returncode == FORBIDDEN and words in done.stderr, f"{done}")


def test_topics_and_patterns(world):
    check(world.publish(ALICE, "cam.alice.x"), "her own")
    for topic in ("cam.bob.x", "cam.%u.x", "cam.alice", "cfg.a", "other"):
        check(not world.publish(ALICE, topic), f"{topic} is not hers")
    check(not world.publish(BOB, "cam.bob.x"), "he publishes nothing")
    for user, pattern in ((ALICE, "cam.alice.x"), (ALICE, ">"), (ALICE, "$SYS.>"),
                          (BOB, "cfg.secret.a"), (BOB, "cfg.secret.>"), (BOB, "*.a"),
                          (BOB, "$DLQ.>")):
        refused(world.ctl(user, "sub", pattern, "--timeout", 5))
    check(world.publish(0, "anything"), "root may all")
    check(world.broker.ask("status")["forbidden"] >= 13, "they are counted")


def lines_of(process, count):
    return sorted(process.line() for _ in range(count))


def test_a_narrowed_subscription_never_sees_what_is_denied(world):
    check(world.publish(BOSS, "cfg.secret.early"), "a topic that is there before")
    bob, alice = world.sub(BOB, "cfg.>", "--start", "first"), world.sub(ALICE, "cfg.>")
    rows = {row["pattern"]: row["narrowed"] for row in world.broker.ask("subs")
            if row["client"] == world.row("bob")["id"]}
    check(rows == {"cfg.>": True}, f"the broker says so: {rows}")
    for topic in ("cfg.secret.late", "cfg.a", "cfg.secret.early", "cfg.secret.x.y", "cfg.b"):
        check(world.publish(BOSS, topic, data=topic), topic)
    check(lines_of(bob, 2) == ["cfg.a", "cfg.b"], "what he may")
    check(len(lines_of(alice, 5)) == 5, "she sees all")
    with pytest.raises(Failure):
        print(bob.line(1))
    for words in (("--group", "g"), ("--durable", "d"), ("--ack", "explicit")):
        refused(world.ctl(BOB, "sub", "cfg.*.>", *words, "--timeout", 5), "as a whole")


def test_requests_and_replies(world):
    service = world.start(BOB, "reply", "ask", "--text", "yes", "--count", 1, "--timeout", 30)
    until(20, lambda: world.broker.ask("subs"), "a service")
    done = world.ctl(ALICE, "request", "ask", "--text", "?")
    check(done.returncode == 0 and done.stdout == "yes", f"{done}")
    check(service.wait() == 0, service.log())
    done = world.ctl(BOB, "request", "ask", "--text", "?")
    check(done.returncode == FORBIDDEN, f"he does not publish: {done}")
    world.roles["camera"] = world.roles["camera"].replace("request = true;", "")
    world.reload("in force from now on: roles")
    refused(world.ctl(ALICE, "request", "ask", "--text", "?"), "has request")


def test_shared_names_are_the_tenants(world):
    world.roles["camera"] = 'subscribe = ( "cam.>" ); shared = ( "workers" );'
    world.reload("in force from now on: roles")
    for user in (ALICE, BOB):
        world.sub(user, "cam.>", "--group", "workers")
        world.sub(user, "cam.>", "--group", "own")
    queues = {(row["group"], row["user"]): row["members"] for row in world.broker.ask("queues")}
    check(queues == {("workers", "plant:"): 2, ("own", "plant:alice"): 1,
                     ("own", "plant:bob"): 1}, f"{queues}")


def test_administration(world):
    check(json.loads(world.ctl(OPERATOR, "status", "-o", "json").stdout)["forbidden"] == 0, "a view")
    check(world.ctl(READER, "clients").returncode == 0, "a view")
    for user in (ALICE, BOB):
        refused(world.ctl(user, "status"), 'has admin = "read"')
    world.sub(BOB, "cam.a", "--durable", "d").kill()
    until(10, lambda: world.broker.ask("queues")[0]["members"] == 0, "nobody uses it")
    refused(world.ctl(READER, "durable", "rm", "d", "--yes"), 'has admin = "operate"')
    check(world.ctl(OPERATOR, "durable", "rm", "d", "--yes").returncode == 0, "a command")


def test_the_broker_says_who_may_do_what(world):
    for words, answer, role, line in (
        ("alice publish cam.alice.x", "yes", "camera", "allow cam.%u.>"),
        ("alice publish cam.bob.x", "no", "", " "),
        ("bob subscribe cfg.secret.a", "no", "viewer", "deny cfg.secret.>"),
        ("bob subscribe cfg.>", "narrowed", "viewer", "deny cfg.secret.>"),
        ("bob subscribe cfg.*", "yes", "viewer", "allow cfg.>"),
        ("bob subscribe >", "no", "", " "),
        ("alice publish $SYS.a", "no", "", " "),
        ("op admin operate", "yes", "", " "),
        ("op admin admin", "no", "", " "),
    ):
        done = world.ctl(OPERATOR, "-o", "json", "user", "test", *words.split())
        check(done.returncode == (FORBIDDEN if answer == "no" else 0), f"{words}: {done}")
        row = json.loads(done.stdout)[0]
        check((row["answer"], row["role"], f"{row['list']} {row['pattern']}") ==
              (answer, role, line), f"{words}: {row}")
        check(row["where"].startswith(f"{world.config}:") == (line != " "), f"{row}")
    for words, text in (("nobody publish a", "no user of that name"),
                        ("alice publish a..b", "empty token"),
                        ("alice delete a", "takes publish, subscribe or admin")):
        done = world.ctl(OPERATOR, "user", "test", *words.split())
        check(done.returncode != 0 and text in done.stderr, f"{words}: {done}")
    refused(world.ctl(ALICE, "user", "test", "bob", "publish", "a"), 'has admin = "read"')


def test_a_reload_ends_those_who_lose(world):
    events = world.sub(OPERATOR, "$SYS.queue.gone", "--start", "new")
    alice = world.sub(ALICE, "cfg.>")
    bob = world.sub(BOB, "cam.>", "--reconnect")
    other = world.sub(BOB, "cfg.a", "--reconnect")
    world.sub(BOB, "cam.alice.x", "--durable", "waits").kill()
    ids = {user: world.row(user)["id"] for user in ("alice", "op")}
    # A gain ends nobody, and holds.
    refused(world.ctl(BOB, "sub", "more", "--timeout", 5))
    world.roles["viewer"] = world.roles["viewer"].replace('"ask"', '"ask", "more"')
    world.reload("in force from now on: roles")
    check(bob.is_running() and "rights changed" not in bob.log(), "a gain")
    world.sub(BOB, "more")
    # A deny ends his sessions. They come back, and that alone ends for good that he may not.
    world.roles["viewer"] = world.roles["viewer"].replace('deny = (', 'deny = ( "cam.>",')
    world.reload("in force from now on: roles")
    check(bob.wait() != 0 and "closed" in bob.log(), f"bob: {bob.log()}")
    until(20, lambda: "cfg.a" in {row["pattern"] for row in world.broker.ask("subs")},
          "his other one comes back")
    check(world.publish(BOSS, "cfg.a", data="back"), "a publisher of others")
    check(other.line() == "back", "and reads on")
    gone = json.loads(events.line())
    check(gone["durable"] == "waits" and gone["user"] == "plant:bob" and
          gone["why"] == "rights changed", f"{gone}")
    check(world.broker.ask("queues") == [], "it is gone")
    check({user: world.row(user)["id"] for user in ids} == ids, "others notice nothing")
    check(alice.is_running() and events.is_running(), "others notice nothing")
    # A user who is gone.
    del world.users["alice"]
    world.reload("in force from now on: auth.users")
    check(alice.wait() == FORBIDDEN and "not authenticated" in alice.log(), alice.log())


def test_wrong_roles_change_nothing(world):
    alice = world.sub(ALICE, "cfg.>")
    before = world.row("alice")["id"]
    for name, rest, words in (
        ("camera", 'publish = ( "a..b" );', "has an empty token"),
        ("camera", 'publish = ( "a.x%u" );', "'%' is not in a token that is %u or %t as a whole"),
        ("camera", 'publish = ( "$SYS.a" );', "names that begin with '$' are the broker's"),
        ("camera", 'subscribe = { allows = ( "a" ); };', "unknown key"),
        ("camera", 'admin = "root";', "roles[0].admin"),
        ("camera", 'subscribe = ( ' + ", ".join(f'"a.{i}"' for i in range(129)) + ' );',
         "wrong number of items"),
    ):
        world.roles[name] = rest
        world.reload(words)
        world.roles = dict(ROLES)
    del world.roles["viewer"]
    world.reload("users:2: no role is called \"viewer\"")
    world.roles = dict(ROLES)
    world.roles["more"] = "subscribe = ( " + ", ".join(f'"a.{i}"' for i in range(126)) + " );"
    world.users["alice"] = world.users["alice"].replace("camera", "camera,more")
    world.reload("users:1: its roles have more than 128 patterns")
    check(world.row("alice")["id"] == before and alice.is_running(), "she has noticed nothing")
    check(world.publish(ALICE, "cam.alice.x"), "and has her rights")


def test_a_name_stays_its_users_while_there_is_no_file(world):
    """The file goes, and comes back with another order: what waits for alice is not bob's."""
    def read(user):
        return world.ctl(user, "sub", "cfg.a", "--durable", "d", "--timeout", 1).stdout

    check(read(ALICE) == "" and world.publish(BOSS, "cfg.a", data="hers"), "a message waits")
    world.has_users = False
    world.reload("in force from now on: auth.users")
    world.has_users, world.users = True, dict(reversed(USERS.items()))
    world.reload("in force from now on: auth.users")
    check([row["user"] for row in world.broker.ask("queues")] == ["plant:alice"], "it is hers still")
    check(read(BOB) == "" and read(ALICE) == "hers\n", "and so is the message")
