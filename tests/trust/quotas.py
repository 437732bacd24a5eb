# SPDX-License-Identifier: Apache-2.0
"""Every row of a quota below, at and past its limit: of a user by one session and by many, and of a tenant.

    quotas.py BUILD [--only ROW]

Each row has a user with that limit alone, and a tenant with it and two users without limits. A refusal
names the key and the limit, and the session that was refused goes on.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import check, main, until  # noqa: E402
from led import ALL, Broker, Client, Refused  # noqa: E402

LIMIT = 6
ELIMIT, BUSY = -10, -67
SESSIONS = 3


class Objects:
    """Things of one kind that sessions have, numbered by the order in which they were made."""

    status = ELIMIT
    linger = False  # they count for a while yet, or until another one needs the place

    def __init__(self, world, users):
        self.world = world
        self.clients = [world.client(user) for user in users]
        self.count = 0

    def prepare(self):
        """Once, before the first one."""

    def client(self, number):
        return self.clients[number % len(self.clients)]

    def more(self):
        self.make(self.client(self.count), self.count)
        self.count += 1

    def refuses(self, words):
        """One more, from each session."""
        for client in self.clients:
            text = self.try_one(client)
            check(words in text, f"{type(self).__name__}: {text} has not: {words}")
            check("limit: " in text, text)

    def try_one(self, client):
        try:
            self.make(client, 1000 + self.count)
        except Refused as refused:
            check(refused.status == self.status, f"{refused}")
            return refused.text
        check(False, f"{type(self).__name__}: number {self.count + 1} of {client.user} was not refused")

    def less(self):
        self.count -= 1
        self.unmake(self.client(self.count), self.count)

    def is_alive(self):
        for client in self.clients:
            client.say("ask", "status")


class Subscriptions(Objects):
    def make(self, client, number):
        client.say("sub", number, f"s.{number}")

    def unmake(self, client, number):
        client.say("unsub", number)


class Publishers(Objects):
    def make(self, client, number):
        client.say("pub", number, "the.same")

    def unmake(self, client, number):
        client.say("unpub", number)


class Topics(Objects):
    linger = True

    def make(self, client, number):
        client.say("pub", number, f"t.{client.user}.{number}")

    def unmake(self, client, number):
        client.say("unpub", number)


class Names(Objects):
    linger = True

    def make(self, client, number):
        client.say("pub", number, "the.same", f"name{number}")

    def unmake(self, client, number):
        client.say("unpub", number)

    def more(self):
        def made():
            try:
                self.make(self.client(self.count), self.count)
            except Refused:
                return False
            return True

        until(20, made, "nobody has the name any more, and there is room")
        self.count += 1


class Connections(Objects):
    """Sessions themselves: each is a slot of the first client."""

    status = BUSY

    def __init__(self, world, users):
        self.world, self.users = world, users
        self.clients = [Client(world.broker, user, connects=False) for user in users]
        self.count = 0

    def make(self, client, number):
        client.connect(number % 500)

    def unmake(self, client, number):
        client.say("close", slot=number)

    def is_alive(self):
        """Those that are there."""
        self.clients[0].say("ask", "status", slot=0)


class Pairs(Objects):
    """A subscription with a wildcard reads so many topics that have messages."""

    def prepare(self):
        self.feeder = self.world.client("feeder")
        for number in range(self.world.limit):
            self.feed(number)

    def feed(self, number):
        self.feeder.say("pub", number, f"w.{number}")
        self.feeder.say("send", number, "x", 5000)

    def make(self, client, number):
        """Each reads one topic: a wildcard that one name matches."""
        client.say("sub", number, f"*.{number % self.world.limit}")

    def unmake(self, client, number):
        client.say("unsub", number)


ROWS = {"subscriptions": Subscriptions, "publishers": Publishers, "topics": Topics, "names": Names,
        "connections": Connections, "pairs": Pairs}


class World:
    """A broker where one user has the limit, and one tenant."""

    def __init__(self, rig, row, limit):
        self.rig, self.row, self.limit = rig, row, limit
        self.broker = Broker(
            rig,
            {"one": ("plant", "all", "small"), "free": ("plant", "all", "-"),
             "a": ("lab", "all", "-"), "b": ("lab", "all", "-"),
             "feeder": ("plant", "all", "-"), "labfeeder": ("lab", "all", "-"),
             "op": ("$", "ops", "-")},
            {"all": ALL + ' admin = "read";', "ops": 'admin = "read"; subscribe = ( "$SYS.>" );'},
            f'quotas = ( {{ name = "small"; {row} = {limit}; }} );\n'
            'tenants = ( { name = "plant"; }, { name = "lab"; quota = "small"; } );',
            ("-o", "limits.dedup_window=1s"))
        self.operator = self.broker.client("op")
        self.operator.say("sub", 0, "$SYS.quota.>")
        self.owner = {}

    def client(self, user):
        return self.broker.client("labfeeder" if user == "feeder" and self.owner.get("of") == "tenant"
                                  else user)

    def watch(self, **owner):
        self.owner = owner

    def line(self, key=None):
        rows = json.loads(self.operator.say("ask", "quotas"))["quotas"]
        return next(row for row in rows if row["key"] == (key or self.row) and
                    all(row[name] == value for name, value in self.owner.items()))

    def events(self):
        return [(topic, json.loads(text)) for topic, text in self.operator.messages(0, 1500)]


def check_events(world):
    wanted = {("$SYS.quota.near", world.row), ("$SYS.quota.full", world.row)}
    found = {(topic, event["key"]) for topic, event in world.events()
             if event["of"] == world.owner["of"]}
    check(("$SYS.quota.full", world.row) in found and found <= wanted, f"{world.row}: {found}")


def check_row(world, users, words, kind):
    """Below, at and past it; and below it again."""
    objects = kind(world, users)
    objects.prepare()
    spare = world.line()["used"] if kind is not Connections else 0
    while objects.count < world.limit - spare:
        objects.more()
    check(world.line()["used"] == world.limit, f"{world.row}: {world.line()}")
    objects.refuses(words)
    objects.is_alive()
    check(world.line()["refused"] >= len(users), f"{world.line()}")
    check_events(world)
    for _ in range(2):
        objects.less()
    if not objects.linger:
        until(20, lambda: world.line()["used"] == world.limit - 2, "two less")
    for _ in range(2):
        objects.more()
    objects.refuses(words)
    objects.is_alive()
    check(world.line()["used"] == world.limit, f"{world.row}: {world.line()}")


def check_others(world):
    """A user without that limit makes more than that, meanwhile."""
    if world.row in ROWS and world.row != "connections":
        other = ROWS[world.row](world, ["free"])
        other.prepare()
        for number in range(2 * world.limit):
            other.make(other.clients[0], number)


def check_growth(rig):
    """Topics come that a wildcard matches: past the limit its client ends, and its publisher does not."""
    world = World(rig, "pairs", LIMIT)
    world.watch(of="user", user="one")
    reader, feeder = world.client("one"), world.client("feeder")
    reader.say("sub", 0, "g.>")
    for number in range(LIMIT):
        feeder.say("pub", number, f"g.{number}")
        feeder.say("send", number, "x", 5000)
    check(len(reader.messages(0, 500)) == LIMIT, "all that it may read")
    feeder.say("pub", LIMIT, f"g.{LIMIT}")
    feeder.say("send", LIMIT, "x", 5000)

    def is_over():
        try:
            reader.say("next", 0, 100)
        except Refused as refused:
            return refused.text if "pairs = " in refused.text else False
        return False

    text = until(20, is_over, "the client hears that it is past its pairs")
    check(f"pairs = {LIMIT}" in text, text)
    for number in range(LIMIT + 1):
        feeder.say("send", number, "y", 5000)
    world.broker.stop()


def check_reload(rig):
    """Limits change while objects are there: fewer take nothing back, and more are there at once."""
    world = World(rig, "publishers", 4)
    world.watch(of="user", user="one")
    publishers = Publishers(world, ["one"])
    for _ in range(4):
        publishers.more()
    publishers.refuses("publishers = 4")
    for limit, more in ((6, 2), (2, 0), (7, 1)):
        world.broker.more = world.broker.more.replace(f"publishers = {world.limit}",
                                                      f"publishers = {limit}")
        world.limit = limit
        world.broker.reload()
        for _ in range(more):
            publishers.more()
        publishers.refuses(f"publishers = {limit}")
    check(world.line()["used"] == 7, f"{world.line()}")
    world.broker.stop()


def run(rig, options):
    for row, kind in ROWS.items():
        if options.get("only", row) != row:
            continue
        for name, users, owner in (
                ("one session", ["one"], {"of": "user", "user": "one"}),
                ("many sessions", ["one"] * SESSIONS, {"of": "user", "user": "one"}),
                ("a tenant", ["a", "b"], {"of": "tenant", "tenant": "lab"})):
            world = World(rig, row, LIMIT)
            world.watch(**owner)
            check_row(world, users, f'{row} = {LIMIT} of the {owner["of"]}\'s quota "small"', kind)
            check_others(world)
            world.broker.stop()
            print(f"{row}, {name}: {LIMIT} and no more")
    if "only" not in options:
        check_growth(rig)
        check_reload(rig)
        print("pairs that grow, limits that change: as said")


if __name__ == "__main__":
    main(run, 900)
