# SPDX-License-Identifier: Apache-2.0
"""Every row of a quota below, at and past its limit: of a user by one session and by many, and of a tenant.

    quotas.py BUILD [--only ROW|rates|quiet|crowd] [--short 1] [--quiet 0.5]

Each row has a user with that limit alone, and a tenant with it and two users without limits. A refusal
names the key and the limit, and the session that was refused goes on. short: without the case of one
session; quiet: a part of the 90 % that the quiet user must keep, for a machine that others use too.
"""
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import check, main, starved, until  # noqa: E402
from led import ALL, Broker, Client, Refused  # noqa: E402

LIMIT = 6
ELIMIT, BUSY = -10, -67
BLOCKED_QUOTA = 6
BATCH = 64 << 10
SESSIONS = 3
SPAN_S = 4  # of a rate


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


def sent_in(client, handle, seconds, size):
    """Messages that the broker took meanwhile: those in a window yet are not counted."""
    return int(client.say("for", handle, seconds, size).split()[0])


class Span:
    """A measurement of SPAN_S seconds by clients that begin one after the other."""

    def __init__(self, world, clients):
        self.processes = [world.broker.process, *(client.process for client in clients)]
        self.before = [process.waited() for process in self.processes]
        self.begin = time.monotonic()

    def end(self):
        """most_s: from the first one's begin to the last one's end. least_s: without what the broker's and the
        clients' threads were ready for and had no core: a rate that nobody can use then is gone."""
        self.most_s = time.monotonic() - self.begin
        without = sum(starved(before, process.waited()) for before, process in zip(self.before, self.processes))
        self.least_s = max(0, SPAN_S - without)

    def holds(self, row, limit, sent, slack=0):
        """So many were allowed, and hardly fewer."""
        check(sent <= self.most_s * limit + slack, f"{row}: {sent} of {limit} a second in {self.most_s:.2f} s")
        check(sent >= self.least_s * limit * 0.7, f"{row}: {sent} of {limit} a second in {self.least_s:.2f} s")


def check_rate(rig, cases, row, limit, size, slack):
    """Of a user by one session and by three, of a tenant: the rate is the limit's, and no lower."""
    each = 1 if row == "in_msgs" else size
    for users, owner in cases:
        world = World(rig, row, limit, **owner)
        clients = [world.client(user) for user in users]
        for number, client in enumerate(clients):
            client.say("pub", 0, f"r.{number}")
        span = Span(world, clients)
        for client in clients:
            client.process.tell(f"0 for 0 {SPAN_S} {size}")
        sent = sum(answers(clients)) * each
        span.end()
        # Slack of a client: its window, a batch that waits and the next one, and the burst.
        span.holds(row, limit, sent, slack * len(clients))
        check(world.line()["refused"] > 0, f"{world.line()}")
        world.client("free").say("pub", 0, "r.free")
        check(sent_in(world.client("free"), 0, 0, size) == 0, "nothing")
        world.broker.stop()
        print(f"{row}, {users}: {sent / span.most_s:.0f} a second of {limit}")


def check_host_bytes(rig, cases):
    """Logs fill up to the limit; the publisher waits, is told why, and goes on when they are read."""
    limit, size = 1 << 20, 8192
    for users, owner in cases:
        world = World(rig, "host_bytes", limit, **owner)
        clients = [world.client(user) for user in users]
        for number, client in enumerate(clients):
            client.say("sub", 0, f"h.{number}", "credit=1")
            client.say("pub", 1, f"h.{number}")
        sent = 0
        for client in clients:
            count, blocked = map(int, client.say("fill", 1, 1000, size, 500).split())
            sent += count
            check(blocked == BLOCKED_QUOTA, f"{client.user} waits for {blocked}")
        own = 2 * BATCH * len(clients)  # in the clients: a batch that waits, and the next one
        check(limit * 0.5 <= sent * size <= limit + own, f"host_bytes: {sent} messages of {size}")
        line = world.line()
        # Two workers take it in pieces of 64 KiB. An allocation is more than its batch, which is small on a busy machine:
        # what comes through windows that are open already may cost a batch more for each client.
        check(line["used"] <= limit + 4 * BATCH + own and line["refused"] > 0, f"{line}")
        check(world.client("op").say("ask", "quotas") != "", "others go on")
        for client in clients:
            client.say("take", 0, 300)
        for client in clients:
            count = int(client.say("fill", 1, 8, size, 5000).split()[0])
            check(count == 8, f"{client.user}: {count} of 8")
        world.broker.stop()
        print(f"host_bytes, {users}: {sent * size} of {limit}, and more once they are read")


def check_requests(rig, cases):
    """Sessions are not read for a while; that is the rate, and another user's sessions are as quick."""
    limit = 200
    for users, owner in cases:
        world = World(rig, "requests", limit, **owner)
        clients = [world.client(user) for user in users]
        free = world.client("free")
        span = Span(world, [*clients, free])
        for client in [*clients, free]:
            client.process.tell(f"0 asks {SPAN_S}")
        asked, other = sum(answers(clients)), answers([free])[0]
        span.end()
        # What a burst allows at the start, and a question that each has under way at the end.
        span.holds("requests", limit, asked, limit // 20 + 2 * len(clients))
        check(other > 2 * span.least_s * limit, f"the other user: {other}")
        check(world.line()["refused"] > 0, f"{world.line()}")
        check_events(world)
        world.broker.stop()
        print(f"requests, {users}: {asked / span.most_s:.0f} a second of {limit}; {other / span.most_s:.0f} of another user")


def subscribe_until(client, words, most=3000):
    """Subscriptions until one is refused: how many there are."""
    for number in range(most):
        try:
            client.say("sub", number, f"heap.of.a.long.name.{number}")
        except Refused as refused:
            check(refused.status == ELIMIT and words in refused.text, f"{refused}")
            return number
    raise AssertionError(f"{most} subscriptions, and none is refused")


def check_heap(rig, cases):
    """Sessions, subscriptions, queues: refused past the limit, all that is there goes on."""
    limit = 2 << 20
    for users, owner in cases:
        world = World(rig, "heap", limit, **owner)
        clients = [world.client(user) for user in users]
        feeder = world.client("feeder" if owner["of"] == "user" else "free")
        words = f'heap = {limit} of the {owner["of"]}\'s quota "small"'
        counts = [subscribe_until(client, words) for client in clients]
        check(sum(counts) > 100, f"{counts}")
        line = world.line()
        # Each session takes its pieces; what is asked for may be refused some KiB before the limit.
        check(limit - (96 << 10) <= line["used"] <= limit + (64 << 10), f"{line}")
        check(line["refused"] >= len(users), f"{line}")
        check_events(world)
        late = Client(world.broker, users[0], connects=False)
        for slot in range(3):
            try:
                late.connect(slot)
            except Refused as refused:
                check(refused.status == ELIMIT and words in refused.text, f"{refused}")
                break
        else:
            check(False, "a session past the limit")
        for client in clients:
            client.say("ask", "status")
        feeder.say("pub", 0, "heap.of.others")
        check(subscribe_some(feeder) == 500, "another user goes on")
        for client, count in zip(clients, counts):
            for number in range(count // 2, count):
                client.say("unsub", number)
        more = [subscribe_until(client, words) for client in clients[:1]]
        check(more[0] >= counts[0] // 4, f"{more} of {counts}")
        used = [world.line()["used"]]
        for client in clients:
            client.say("close")
        late.process.end_input()
        until(20, lambda: world.line()["used"] < (64 << 10), "all of it is given back")
        world.broker.stop()
        print(f"heap, {users}: {counts} subscriptions in {used[0]} of {limit}")


def subscribe_some(client):
    for number in range(500):
        client.say("sub", number, f"heap.of.a.long.name.{number}")
    return 500


def check_durables(rig):
    """Durable names cost their user heap while nobody uses them, and are refused past the limit."""
    limit = 1 << 20
    world = World(rig, "heap", limit, of="user", user="one")
    client = world.client("one")
    before, count = world.line()["used"], 0
    while count < 2000:
        try:
            client.say("sub", 0, f"d.{count}", f"durable=d{count}")
        except Refused as refused:
            check(refused.status == ELIMIT and "heap = " in refused.text, f"{refused}")
            break
        client.say("unsub", 0)
        count += 1
    check(50 < count < 2000, f"{count} durable names in {limit - before} bytes")
    client.say("close")
    used = world.line()["used"]
    check(used > (limit - before) // 2, f"{used} bytes of {count} durable names")
    world.broker.stop()
    print(f"heap: {count} durable names in {limit - before} bytes; {used} without a session")


def check_leased(rig, cases):
    """Past it libamb has memory of its own: what is published comes all the same."""
    size, count = 1 << 20, 40
    for users, owner in cases:
        for limit in (64 << 10, 256 << 20):
            world = World(rig, "leased", limit, **owner)
            clients = [world.client(user) for user in users]
            for number, client in enumerate(clients):
                client.say("pub", 0, f"l.{number}")
                sent = int(client.say("lease", 0, count, size, 30).split()[0])
                check(sent == count, f"{client.user}: {sent} of {count}")
            line = world.line()
            is_small = limit < size
            check((line["used"] == 0 and line["refused"] > 0) if is_small
                  else 0 < line["used"] <= limit, f"{line}")
            used = line["used"]
            for client in clients:
                client.say("close")
            until(20, lambda: world.line()["used"] == 0, "leases end with their sessions")
            world.broker.stop()
            print(f"leased, {users}: {used} of {limit}, and {count} messages each")


def check_lease_rate(rig, cases):
    """A user with a rate leases, and gets its slots back as the bill allows."""
    limit, size = 64 << 20, 256 << 10
    for users, owner in cases:
        world = World(rig, "in_bytes", limit, **owner)
        clients = [world.client(user) for user in users]
        span = Span(world, clients)
        for number, client in enumerate(clients):
            client.say("pub", 0, f"l.{number}")
            client.process.tell(f"0 lease 0 1000000 {size} {SPAN_S}")
        sent = sum(answers(clients)) * size
        span.end()
        leased = world.leased()
        check(leased > 0, "nobody has leased anything")
        span.holds("in_bytes, leased", limit, sent, 1.2 * limit)
        check(world.line()["refused"] > 0, f"{world.line()}")
        world.broker.stop()
        print(f"in_bytes, leased, {users}: {sent / limit:.2f} s of bytes in {span.most_s:.2f} s, {leased} leased")


def check_lease_host(rig):
    """Leases are host memory of their user: past host_bytes none, and below it they count."""
    world = World(rig, "host_bytes", 96 << 20, of="user", user="one")
    client = world.client("one")
    client.say("pub", 0, "l.a")
    client.say("lease", 0, 20, 1 << 20, 30)
    used, leased = world.line()["used"], world.leased()
    check(0 < leased <= used <= 96 << 20, f"{leased} leased, {used} in use")
    client.say("close")
    until(20, lambda: world.leased() == 0, "the lease ends")
    world.broker.stop()
    print(f"host_bytes: {used} in use, {leased} of it leased")


def check_mapped(rig, cases):
    """Messages that are held in place; past the limit they are copied."""
    size, limit, count = 64 << 10, 1 << 20, 64
    for users, owner in cases:
        world = World(rig, "mapped", limit, **owner)
        feeder = world.client("feeder" if owner["of"] == "user" else "labfeeder")
        clients = [world.client(user) for user in users]
        for client in clients:
            client.say("sub", 0, "m.a")
        feeder.say("pub", 0, "m.a")
        check(feeder.say("fill", 0, count, size, 5000).split()[0] == str(count), "all are sent")
        held = [[int(word) for word in client.say("hold", 0, count, 2000).split()]
                for client in clients]
        check(all(all_of_them == count for all_of_them, _ in held), f"{held}")
        mapped = sum(in_place for _, in_place in held)
        check(0 < mapped * size <= limit + (256 << 10), f"{held}: {mapped} of {size} in place")
        line = world.line()
        check(line["used"] <= limit + (256 << 10), f"{line}")
        for client in clients:  # While a process has them mapped, they are its user's.
            client.process.end_input()
            client.process.wait()
        until(20, lambda: world.line()["used"] == 0, "they are given back")
        world.broker.stop()
        print(f"mapped, {users}: {mapped * size} of {limit} in place, {held}")


def answers(clients):
    return [int(client.process.line(60).split()[1]) for client in clients]


def check_filter_tests(rig, cases):
    """Subscriptions with filters pause; those without, and those of others, do not."""
    limit, count = 2000, 1500
    for users, owner in cases:
        world = World(rig, "filter_tests", limit, **owner)
        feeder = world.client("feeder")
        readers = [world.client(user) for user in users]
        plain = world.client(users[0])
        # In the tenant that has the limit, nobody is without it.
        free = [] if owner["of"] == "tenant" else [world.client("free")]
        for reader in readers:  # the first one by a queue, whose tests are its user's too
            durable = ["durable=d"] if reader is readers[0] else []
            reader.say("sub", 0, "f.a", "filter=not(x='y')", *durable)
        plain.say("sub", 0, "f.a")
        for client in free:
            client.say("sub", 0, "f.a", "filter=not(x='y')")
        feeder.say("pub", 0, "f.a")
        clients = [plain, *free, *readers]
        for client in clients:
            client.process.tell(f"0 takes 0 {count} 60000")
        feeder.say("fill", 0, count, 16, 5000)
        times = [float(client.process.line(90).split()[2]) for client in clients]
        others, paused = times[:1 + len(free)], times[1 + len(free):]
        cost = 2 * count * len(readers) / limit  # a test, and the message
        check(max(others) < 0.5 * cost, f"{others}: others wait too")
        check(0.7 * cost - 0.2 < max(paused) < 1.5 * cost + 0.5, f"{paused}, and not {cost}")
        check(world.line()["refused"] > 0, f"{world.line()}")
        world.broker.stop()
        print(f"filter_tests, {users}: {max(paused):.1f} s for {cost:.1f} s of tests, "
              f"{max(others):.2f} s of others")


def check_quiet(rig, rounds=8, seconds=2, sends=200):
    """A user who takes all that he may leaves another one at least 90 % of his rate. In turns, for the machine's own
    speed changes more than that."""
    world = World(rig, "in_bytes", 20 << 20)
    quiet, parts = world.client("free"), []
    quiet.say("pub", 0, "q.a")
    greedy = [world.client("one") for _ in range(SESSIONS)]
    for number, client in enumerate(greedy):
        client.say("pub", 0, f"r.{number}")

    def time_of_sends():
        begin = time.monotonic()
        for _ in range(sends):
            quiet.say("send", 0, "x" * 100, 5000)
        return time.monotonic() - begin

    for _ in range(rounds):
        alone = time_of_sends()
        for client in greedy:
            client.process.tell(f"0 for 0 {seconds} 4096")
        beside = time_of_sends()
        check(beside < seconds, f"{beside:.1f} s: the greedy were through before")
        for client in greedy:
            client.process.line(60)
        parts.append(alone / beside)
    parts.sort()
    part = parts[len(parts) // 2]
    print(f"the quiet user: {part:.0%} of his rate ({parts[0]:.0%} to {parts[-1]:.0%} in {rounds} rounds)")
    world.broker.stop()
    return part


def check_crowd(rig, publishers=500):
    """A user has thousands of publishers that wait for his rate. Another one keeps 90 % of his own."""
    world = World(rig, "in_bytes", 1000)
    quiet = world.client("free")
    quiet.say("pub", 0, "q.a")

    def rate():
        return sorted(int(quiet.say("for", 0, 0.3, 100)) for _ in range(7))[3]

    rate()  # Windows are wide from here on.
    before = rate()
    greedy = [world.client("one") for _ in range(2 * SESSIONS)]
    for client in greedy:
        for handle in range(publishers):
            client.say("pub", handle, "r.a")
            client.say("fill", handle, 20, 4096, 1)
    beside = rate()
    for client in greedy:
        # Not one of the first: they came through a window that was open before there was a bill.
        answer = client.say("fill", publishers - 1, 20, 4096, 1)
        check(answer == f"0 {BLOCKED_QUOTA}", f"they wait all the while: {answer}")
        client.say("close")
    alone = min(before, rate())
    print(f"beside {2 * SESSIONS * publishers} publishers that wait: {beside / alone:.0%} of his rate")
    world.broker.stop()
    return beside / alone


ROWS = {"subscriptions": Subscriptions, "publishers": Publishers, "topics": Topics, "names": Names,
        "connections": Connections, "pairs": Pairs}


class World:
    """A broker where one user has the limit, and one tenant."""

    def __init__(self, rig, row, limit, **owner):
        """owner: `line` and `leased` are of that account."""
        self.row, self.limit, self.owner = row, limit, owner
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

    def client(self, user):
        return self.broker.client("labfeeder" if user == "feeder" and self.owner.get("of") == "tenant"
                                  else user)

    def line(self):
        rows = json.loads(self.operator.say("ask", "quotas"))["quotas"]
        return next(row for row in rows if row["key"] == self.row and
                    all(row[name] == value for name, value in self.owner.items()))

    def leased(self):
        """Bytes that the users of the case have leased: that row has no limit."""
        users = ["one"] if self.owner["of"] == "user" else ["a", "b"]
        rows = [json.loads(self.operator.say("ask", "quotas", user))["quotas"] for user in users]
        return sum(row["used"] for part in rows for row in part if row["key"] == "leased")

    def events(self):
        return [(topic, json.loads(text)) for topic, text in self.operator.messages(0, 1500)]


def check_events(world):
    wanted = {("$SYS.quota.near", world.row), ("$SYS.quota.full", world.row)}
    found = set()

    def is_full():
        found.update((topic, event["key"]) for topic, event in world.events()
                     if event["of"] == world.owner["of"])
        return ("$SYS.quota.full", world.row) in found

    until(20, is_full, f"{world.row}: the event that it is full")
    check(found <= wanted, f"{world.row}: {found}")


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
    world = World(rig, "pairs", LIMIT, of="user", user="one")
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


def unobserved(rig, part):
    with rig.unobserved():
        return part(rig)


def check_reload(rig):
    """Limits change while objects are there: fewer take nothing back, and more are there at once."""
    world = World(rig, "publishers", 4, of="user", user="one")
    publishers = Publishers(world, ["one"])
    for _ in range(4):
        publishers.more()
    publishers.refuses("publishers = 4")
    for limit, more in ((6, 2), (2, 0), (7, 1)):
        world.broker.more = world.broker.more.replace(f"publishers = {world.limit}",
                                                      f"publishers = {limit}")
        world.limit = limit
        world.broker.reload()
        until(10, lambda wanted=limit: world.line()["limit"] == wanted, f"a limit of {limit}")
        for _ in range(more):
            publishers.more()
        publishers.refuses(f"publishers = {limit}")
    check(world.line()["used"] == 7, f"{world.line()}")
    world.broker.stop()


def run(rig, options):
    cases = [(["one"], {"of": "user", "user": "one"}),
             (["one"] * SESSIONS, {"of": "user", "user": "one"}),
             (["a", "b"], {"of": "tenant", "tenant": "lab"})]
    if "short" in options:
        cases = cases[1:]
    for row, kind in ROWS.items():
        for users, owner in cases if options.get("only", row) == row else ():
            world = World(rig, row, LIMIT, **owner)
            check_row(world, users, f'{row} = {LIMIT} of the {owner["of"]}\'s quota "small"', kind)
            check_others(world)
            world.broker.stop()
            print(f"{row}, {users}: {LIMIT} and no more")
    if "short" in options:
        cases = cases[:1]
    parts = {
        "rates": lambda: (check_rate(rig, cases, "in_msgs", 2000, 100, 2000),
                          check_rate(rig, cases, "in_bytes", 4 << 20, 8192, 1 << 20)),
        "host_bytes": lambda: check_host_bytes(rig, cases),
        "heap": lambda: (check_heap(rig, cases), check_durables(rig)),
        "leased": lambda: (check_leased(rig, cases), check_lease_rate(rig, cases),
                           check_lease_host(rig)),
        "mapped": lambda: check_mapped(rig, cases),
        "requests": lambda: check_requests(rig, cases),
        "filter_tests": lambda: check_filter_tests(rig, cases),
        # Shares of a rate that are compared: what an observer takes of the machine differs from one moment to the next.
        "quiet": lambda: check(unobserved(rig, check_quiet) >= 0.9 * float(options.get("quiet", 1)),
                               "the quiet user is slower"),
        "crowd": lambda: check(unobserved(rig, check_crowd) >= 0.9 * float(options.get("quiet", 1)),
                               "the quiet user is slower beside publishers that wait"),
    }
    for name, part in parts.items():
        if options.get("only", name) == name:
            part()
    if "only" not in options:
        check_growth(rig)
        check_reload(rig)
        print("pairs that grow, limits that change: as said")


if __name__ == "__main__":
    main(run, 900, observers=())
