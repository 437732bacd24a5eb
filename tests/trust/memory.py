#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Users on one host share memory only where each may read all that lies there.

    memory.py BUILD [--users 3] [--rounds N] [--rewrites N] [--workers N] [--seed N]

Each user is a uid, with processes of its own. Each topic's payloads are full of a canary. After messages of
all sizes, leases, implicit slots, requests, replies, dead letters and reloads, each reader looks through
all that it has mapped, for canaries of topics that it may not read. A publisher writes on in its slots:
readers of other users see no change. A process that has lost its rights, and keeps its mappings, sees
nothing new. Where there are no users, the same search finds canaries, so it can find them.
"""
import collections
import os
import pathlib
import random
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import as_user, check, main, until

UIDS = {"cam": 23451, "door": 23452, "view": 23453}
SIZES = (100, 5000, 20000, 70000, 300000)
LEASED = (4096, 60000, 200000)
ROLES = """
roles = ( { name = "cam"; publish = ( "cam.>", "ask" ); subscribe = ( "cam.>" ); request = true; },
          { name = "door"; publish = ( "door.>" ); subscribe = ( "door.>", "ask" ); reply = true; },
          { name = "view"; publish = ( "log.>" ); subscribe = { allow = ( ">", "$DLQ.>" );
                                                               deny = ( "cam.secret.>" ); }; },
          { name = "less"; subscribe = ( "log.>" ); } );
"""
GROUPS = """
topics = ( { match = "cam.>"; trust_group = "cams"; }, { match = "door.>"; trust_group = "doors"; } );
"""
# Canaries that a user's processes must not have anywhere. The dead letters of cam.dead lie in the
# group of cam.secret, which view may not map, and view reads them all the same.
FORBIDDEN = {"cam": ("door", "log"), "door": ("open", "secret", "dead", "log"), "view": ("secret", "reply")}
ALLOWED = {"cam": "secret", "door": "door", "view": "open"}


class Peer:
    """A process of a user that does what it is told (tests/support/programs/mapper.c)."""

    def __init__(self, rig, broker, user, words):
        self.user, self.words = user, words
        self.process = rig.start([*as_user(UIDS[user]), rig.program("test-mapper"), broker.unix_url],
                                 env={"AMB_CREDENTIALS": ""})
        check(self.process.line() == "ready", self.process.log())

    def tell(self, *words, seconds=60):
        """Each number of the answer."""
        self.begin(*words)
        return self.end(words, seconds)

    def begin(self, *words):
        self.process.tell(" ".join(map(str, words)))

    def end(self, words=("?",), seconds=60):
        text = self.process.line(seconds)
        check(text.split()[0] == "ok", f"{self.user}: {' '.join(map(str, words))}: {text}")
        return [int(word) for word in text.split()[1:]]

    def scan(self, *names):
        return dict(zip(names, self.tell("scan", *(self.words[name] for name in names))))


class World:
    def __init__(self, rig, seed, groups=True, workers=1):
        self.rig, self.number = rig, 0
        own = random.Random(seed)
        self.words = {name: (f"canary-{name}-".encode() + own.randbytes(8)).hex()
                      for name in ("open", "secret", "dead", "door", "log", "ask", "reply", "before", "after", "gone")}
        self.users, self.config = rig.folder / "users", rig.folder / "broker.conf"
        self.roles = {user: user for user in UIDS}
        self.write()
        text = GROUPS + ROLES + f'auth = {{ users = "{self.users}"; }};\n' if groups else ""
        self.config.write_text(text)
        self.broker = rig.broker("--config", self.config, "-o", f"server.workers={workers}", "-o",
                                 "memory.host.size=256M", "-o", "memory.host.segment=16M",
                                 socket_query="?mode=0666", tcp=False)

    def peer(self, user):
        return Peer(self.rig, self.broker, user, self.words)

    def write(self):
        lines = [f"{user}:plant:{self.roles[user]}:-:-:uid/{uid}" for user, uid in UIDS.items()]
        lines.append(f"other{self.number}:plant:less:-:-:uid/{30000 + self.number}")
        new = self.users.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        new.chmod(0o600)
        new.rename(self.users)

    def reload(self):
        self.number += 1
        self.write()
        before = self.broker.log().count("reload: in force")
        self.broker.signal(signal.SIGHUP)
        until(10, lambda: self.broker.log().count("reload: in force") > before, "it has reloaded")


def publish(peer, topic, word, leases=True):
    """Returns how many messages."""
    for size in SIZES:
        peer.tell("pub", topic, size, 3, peer.words[word])
    for size in LEASED if leases else ():
        peer.tell("lease", topic, size, 2, peer.words[word])
    return 3 * len(SIZES) + (2 * len(LEASED) if leases else 0)


def one_round(peers):
    cam, door, view = (peers[user] for user in UIDS)
    opened = publish(cam, "cam.open", "open")
    hidden = publish(cam, "cam.secret.x", "secret")
    cam.tell("pub", "cam.dead", 3000, 2, cam.words["dead"])
    cam.tell("pub", "cam.dead", 50000, 2, cam.words["dead"])
    seen = publish(door, "door.a", "door")
    publish(view, "log.a", "log", leases=False)
    cam.tell("term", 1, 4)
    cam.tell("take", 0, opened + hidden + 4)
    door.tell("take", 0, seen)
    view.tell("take", 0, opened + 4)
    view.tell("take", 1, seen)
    view.tell("take", 2, 4)
    cam.begin("ask", "ask", 3, cam.words["ask"])
    door.tell("answer", 1, 3, door.words["reply"])
    cam.end()


def look(peers):
    found = 0
    for user, peer in peers.items():
        counts = peer.scan(*FORBIDDEN[user])
        check(not any(counts.values()), f"{user} has what it may not read: {counts}")
        found += len(counts)
        check(peer.scan(ALLOWED[user])[ALLOWED[user]] > 0, f"{user} finds what it may read")
    return found


def test_canaries(world, rounds):
    peers = {user: world.peer(user) for user in UIDS}
    peers["cam"].tell("sub", 0, "cam.>")
    peers["cam"].tell("sub", 1, "cam.dead", "ack")
    peers["door"].tell("sub", 0, "door.>")
    peers["door"].tell("sub", 1, "ask")
    for number, pattern in enumerate(("cam.>", "door.>", "$DLQ.>")):
        peers["view"].tell("sub", number, pattern)
    searches = 0
    for number in range(rounds):
        one_round(peers)
        if number % 10 == 3:
            world.reload()
        if number % 5 == 0 or number == rounds - 1:
            searches += look(peers)
    print(f"{rounds} rounds, {searches} searches for canaries that are not to be there: 0 found", flush=True)
    return peers


def show_who_maps(world):
    rows = {row["user"]: row["maps"] for row in world.broker.ask("clients") if row.get("user") in UIDS}
    check(rows == {"cam": "cams", "door": "doors", "view": "default doors"}, f"{rows}")
    groups = collections.Counter()
    for row in world.broker.ask("memory"):
        groups[row.get("group")] += row["segment_bytes"]
    check(all(groups[name] > 0 for name in ("default", "cams", "doors", "private")), f"{groups}")
    print(f"who maps: {rows}", flush=True)


def end(peers):
    for peer in peers.values():
        peer.process.end_input()
        check(peer.process.wait(20) == 0, peer.process.log())


def test_slots(world, rewrites):
    """One user reads where it writes, without a copy. Another user has bytes that nobody changes."""
    writer, own, view = world.peer("door"), world.peer("door"), world.peer("view")
    own.tell("sub", 0, "door.slots")
    for size in LEASED:  # Each has a segment, which is mapped with its first message.
        writer.tell("lease", "door.slots", size, 1, world.words["door"])
        own.tell("take", 0, 1)
    writer.tell("rewrite", 1)
    for _ in range(20):
        for size in LEASED:
            writer.tell("lease", "door.slots", size, 2, world.words["door"])
    mapped, copied = own.tell("hold", 0, 40 * len(LEASED))
    check(copied == 0, f"one user: {mapped} in place, {copied} copies")
    writer.tell("rewrite", 2)
    check(own.tell("changes")[0] == mapped, "who reads in place sees what is written there")
    own.tell("drop")
    print(f"one user: {mapped} leased messages mapped, 0 copies", flush=True)
    view.tell("sub", 0, "door.slots")
    for _ in range(20):
        for size in LEASED:
            writer.tell("lease", "door.slots", size, 2, world.words["door"])
    view.tell("hold", 0, 40 * len(LEASED))
    own.tell("hold", 0, 40 * len(LEASED))
    slots, = writer.tell("rewrite", rewrites, seconds=300)
    changes, = view.tell("changes")
    check(changes == 0, f"changes that another user's reader has seen: {changes}")
    print(f"another user's reader: {slots} slots rewritten {rewrites} times, {changes} changes seen", flush=True)
    view.tell("drop")
    own.tell("drop")
    end({"writer": writer, "own": own, "view": view})


def test_revoked(world):
    """It keeps what it has mapped, and a second time beside libamb."""
    writer, own, view = world.peer("door"), world.peer("door"), world.peer("view")
    own.tell("sub", 0, "door.>")
    view.tell("sub", 0, "door.>")
    for _ in range(4):
        count = publish(writer, "door.x", "door", leases=False)
        own.tell("take", 0, count)
        view.tell("take", 0, count)
    segments, = view.tell("keep")
    check(segments > 0, "it has mapped something")
    writer.tell("pub", "door.x", 300000, 4, world.words["before"])
    check(view.scan("before")["before"] > 0, "what comes before is to be seen there")
    own.tell("take", 0, 4)
    world.roles["view"] = "less"
    world.reload()
    until(10, lambda: not any(row["user"] == "view" and row["state"] == "live" and "doors" in row["maps"]
                              for row in world.broker.ask("clients")), "its session has ended")
    fresh = 0
    for size in SIZES:
        writer.tell("pub", "door.x", size, 12, world.words["after"])
        own.tell("take", 0, 12)
        fresh += 12
    check(own.scan("after")["after"] > 0, "others read them")
    found = view.scan("after")["after"]
    check(found == 0, f"a revoked process sees new messages: {found}")
    print(f"a revoked process that keeps {segments} segments: {fresh} messages since, {found} seen", flush=True)
    writer.process.kill()
    own.process.kill()
    view.process.kill()


def test_gone(world):
    """It had no session any more when its user lost the right."""
    writer, own, view = world.peer("door"), world.peer("door"), world.peer("view")
    own.tell("sub", 0, "door.>")
    view.tell("sub", 0, "door.>")
    for _ in range(4):
        count = publish(writer, "door.x", "door", leases=False)
        own.tell("take", 0, count)
        view.tell("take", 0, count)
    segments, = view.tell("keep")
    check(segments > 0 and view.scan("door")["door"] > 0, "it has mapped something, and keeps it")
    view.tell("leave")
    world.roles["view"] = "less"
    world.reload()
    for size in SIZES:
        writer.tell("pub", "door.x", size, 12, world.words["gone"])
        own.tell("take", 0, 12)
    check(own.scan("gone")["gone"] > 0, "others read them")
    found = view.scan("gone")["gone"]
    check(found == 0, f"a process that left before sees new messages: {found}")
    print(f"a process that left before and keeps {segments} segments: {12 * len(SIZES)} messages since, {found} seen",
          flush=True)
    for peer in (writer, own, view):
        peer.process.kill()
    world.roles["view"] = "view"
    world.reload()


def test_control(rig, seed):
    """Without users one map serves all: the search finds what lies there."""
    world = World(rig, seed, groups=False)
    door, cam = world.peer("door"), world.peer("cam")
    door.tell("sub", 0, "door.>")
    cam.tell("sub", 0, "cam.>")
    found = 0
    for _ in range(20):
        for peer, topic, word in ((door, "door.a", "door"), (cam, "cam.secret.x", "secret")):
            count = publish(peer, topic, word, leases=False)
            peer.tell("take", 0, count)
        found = door.scan("secret")["secret"]
        if found > 0:
            break
    check(found > 0, "without users a reader's mappings have others' messages")
    print(f"without users: {found} found where one may not read, so they can be found", flush=True)
    end({"door": door, "cam": cam})
    world.broker.stop()


def test(rig, options):
    if os.getuid() != 0:
        print("skipped: only root has processes of other users")
        return
    check(int(options.get("users", 3)) == len(UIDS), "so many users have a role here")
    seed = int(options.get("seed", random.randrange(1 << 32)))
    print(f"seed {seed}", flush=True)
    test_control(rig, seed)
    world = World(rig, seed, workers=int(options.get("workers", 1)))
    peers = test_canaries(world, int(options.get("rounds", 8)))
    show_who_maps(world)
    end(peers)
    test_slots(world, int(options.get("rewrites", 1000)))
    test_gone(world)
    test_revoked(world)
    world.broker.stop()


if __name__ == "__main__":
    main(test, 1800, observers=())
