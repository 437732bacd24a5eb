# SPDX-License-Identifier: Apache-2.0
"""Two tenants with the same topics, durables, groups and publishers' names, and no crossing.

    tenants.py BUILD [--tries 10000] [--seed N]

Each tenant's users publish, read, ask and answer by names that the other one has too. Between these
they try what should lead to the other tenant: its patterns, inboxes, queues, names, views, events and
retained messages, and commands that end its sessions, block its users or remove its durable names.
A word that only one tenant says and the other one hears is a crossing.
"""
import json
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import check, main  # noqa: E402
from led import ALL, Broker, Refused  # noqa: E402

TENANTS = ("plant", "lab")
TOPICS = ("cam.1", "cam.2", "cfg.a", "jobs.x", "a")
READERS = {0: (">", ""), 1: ("cam.*", ""), 2: ("cfg.a", ""), 3: ("jobs.>", "group=workers ack=1"),
           4: ("cam.>", "durable=d ack=1"), 5: ("$SYS.>", ""), 6: ("$DLQ.>", ""), 7: ("ask", "")}
EVENTS, LETTERS, QUESTIONS = 5, 6, 7
VIEWS = ("status", "topics", "subs", "queues", "clients", "transports", "paths", "topics >",
         "paths puppet", "quotas", "blocked")
OPERATORS_VIEWS = ("workers", "memory", "doctor", "topo")
OF_ALL = ("reload", "drain")
FORBIDDEN, NOT_FOUND, BUSY = -9, -12, -67


class Tenant:
    """Three users of one tenant: the first has the readers, the second one does the rest, and the third
    may give commands."""

    def __init__(self, broker, name):
        self.name, self.sent, self.inbox = name, [], None
        self.reader = broker.client(f"{name}1")
        for handle, (pattern, more) in READERS.items():
            self.reader.say("sub", handle, pattern, more)
        self.writer = broker.client(f"{name}2")
        self.writer.say("sub", 3, "jobs.>", "group=workers", "ack=1")
        for handle, topic in enumerate(TOPICS):
            self.writer.say("pub", handle, topic, "robot")
        self.writer.say("pub", len(TOPICS), f"own.{name}secret")
        self.leader = broker.client(f"{name}3")
        self.leader.say("sub", 0, "jobs.x", f"durable=only-{name}", "ack=1")
        self.leader.say("unsub", 0)
        self.numbers = [row["id"] for row in json.loads(self.leader.say("ask", "clients"))["clients"]]
        check(len(self.numbers) == 3, f"{name} sees its own: {self.numbers}")

    def publish(self, number):
        handle = number % (len(TOPICS) + 1)
        text = f"{self.name}-{len(self.sent)}"
        self.writer.say("send", handle, text, 5000)
        self.sent.append(((*TOPICS, f"own.{self.name}secret")[handle], text))

    def ask(self):
        """A request of one of its users that the other one answers."""
        self.writer.process.tell(f"0 request ask {self.name}-question 20000")
        self.reader.say("answer", QUESTIONS, f"{self.name}-answer", 20000)
        answer = self.writer.process.line(30)
        check(answer.endswith(f" {self.name}-answer"), f"{self.name} is answered: {answer}")
        self.inbox = answer.split()[1]
        check(self.inbox.startswith("$INBOX."), answer)

    def bury(self):
        """A message of its group becomes a dead letter."""
        text = f"{self.name}-dead"
        self.writer.say("send", TOPICS.index("jobs.x"), text, 5000)
        self.sent.append(("jobs.x", text))
        for who in (self.reader, self.writer):
            try:
                who.say("term", 3, 200)
                return
            except Refused:
                continue


class Trial:
    """The tries of one tenant to reach another."""

    def __init__(self, rng, tenant, other):
        self.rng, self.tenant, self.other = rng, tenant, other
        self.counts, self.crossings, self.handle = {}, [], 100  # of what is open for one try

    def heard(self, what, text):
        if f"{self.other.name}" in text:
            self.crossings.append((self.tenant.name, what, text[:200]))

    def once(self):
        name = self.rng.choice(("view", "operators", "subscribe", "publish", "inbox", "queue",
                                "name", "remove", "test", "command", "account"))
        self.counts[name] = self.counts.get(name, 0) + 1
        getattr(self, name)()

    def view(self):
        view = self.rng.choice(VIEWS)
        self.heard(view, self.tenant.writer.say("ask", view))

    def operators(self):
        self.tenant.writer.refuses("of the whole broker", "ask", self.rng.choice(OPERATORS_VIEWS),
                                   status=FORBIDDEN)

    def subscribe(self):
        """To whatever the other one has, under any name, from its first message on."""
        names = (">", "own.>", f"own.{self.other.name}secret", f"{self.other.name}.>", "*.*",
                 f"{self.other.name}:cam.1", f"{self.other.name}.$SYS.>", "$DLQ.>", "$SYS.>", "cam.1")
        self.tenant.writer.say("sub", self.handle, self.rng.choice(names), "start=first")
        for topic, text in self.tenant.writer.messages(self.handle):
            self.heard("subscription", f"{topic} {text}")
        self.tenant.writer.say("unsub", self.handle)

    def publish(self):
        """Where the other one reads. Its readers are looked at in the end."""
        self.tenant.publish(self.rng.randrange(1000))

    def inbox(self):
        """To answer in another's place, and to listen to its answers."""
        writer = self.tenant.writer
        writer.say("pub", self.handle, self.other.inbox)
        writer.say("send", self.handle, f"{self.tenant.name}-forged", 5000)
        writer.say("unpub", self.handle)
        writer.say("sub", self.handle, self.other.inbox, "start=first")
        for topic, text in writer.messages(self.handle):
            check(text.startswith(self.tenant.name), f"{topic} {text}")
        writer.say("unsub", self.handle)

    def queue(self):
        """Its groups and durables have the same names: new members get nothing of the others'."""
        words = self.rng.choice((("group=workers",), ("durable=d2",), ("durable=d3", "group=workers")))
        try:
            self.tenant.writer.say("sub", self.handle, "jobs.>", *words, "ack=1", "start=first")
        except Refused as refused:  # Its own member of before is just leaving.
            check(refused.status == BUSY, f"{words}: {refused}")
            return
        for topic, text in self.tenant.writer.messages(self.handle):
            self.heard("queue", f"{topic} {text}")
        self.tenant.writer.say("unsub", self.handle)

    def name(self):
        """Both have publishers of that name on that topic, and neither is another's duplicate."""
        try:
            self.tenant.writer.say("pub", self.handle, self.rng.choice(TOPICS), "robot")
        except Refused as refused:
            check(refused.status == BUSY, f"its own one is open: {refused}")

    def remove(self):
        words = self.rng.choice((("d",), ("d", f"{self.other.name}:{self.other.name}1")))
        self.tenant.writer.refuses("admin", "ask", "durable", "rm", *words, status=FORBIDDEN)

    def test(self):
        user = f"{self.other.name}{self.rng.choice((1, 2))}"
        self.tenant.writer.refuses("no user of that name", "ask", "user", "test", user, "publish", "a")

    def command(self):
        """Who may give commands has none for the other's sessions, users and durable names."""
        user = f"{self.other.name}{self.rng.choice((1, 2, 3))}"
        words = self.rng.choice((
            ("kick", self.rng.choice(self.other.numbers)), ("kick", "--user", user), ("block", user),
            ("unblock", user), ("durable", "rm", f"only-{self.other.name}"),
            ("durable", "rm", f"only-{self.other.name}", f"{self.other.name}:{self.other.name}3")))
        self.tenant.leader.refuses("", "ask", *words, status=NOT_FOUND)
        self.tenant.leader.refuses("of the whole broker", "ask", self.rng.choice(OF_ALL),
                                   status=FORBIDDEN)

    def account(self):
        """What another tenant's user has used, and who reads and who holds what."""
        for query in (("quotas", f"{self.other.name}1"), ("queues",), ("subs", f"own.{self.other.name}secret")):
            text = self.tenant.leader.say("ask", *query)
            self.heard(" ".join(query), text.replace(" ".join(query), ""))


def foreign(topic, text):
    """Without the words that a user of the tenant has typed himself, and others tried."""
    if topic != "$SYS.command":
        return text
    event = json.loads(text)
    return json.dumps({key: value for key, value in event.items() if key != "command"})


def check_readers(tenant, other):
    """What it was sent, all of it, and no more."""
    crossings = []
    for handle, (pattern, _) in READERS.items():
        got = tenant.reader.messages(handle, 300)
        if handle == 3:
            got += tenant.writer.messages(3, 300)
        crossings += [(tenant.name, pattern, text) for topic, text in got if other.name in foreign(topic, text)]
        if handle in (0, 1, 2):
            prefix = pattern.split("*")[0].rstrip(">")
            wanted = [text for topic, text in tenant.sent if topic.startswith(prefix)]
            have = [text for topic, text in got if topic != "ask" and topic[0] != "$"]
            check(have == wanted, f"{tenant.name}: {pattern}: {len(have)} of {len(wanted)}")
        if handle == LETTERS:
            check({topic for topic, _ in got} == {"$DLQ.jobs.x"}, f"{tenant.name}: letters {got}")
        if handle == EVENTS:
            topics = {topic for topic, _ in got}
            check("$SYS.client.come" in topics and "$SYS.dead_letter" in topics, f"events: {topics}")
            whose = {json.loads(text).get("tenant") for _, text in got}
            check(whose == {tenant.name}, f"{tenant.name} hears of {whose}")
    return crossings


def check_operators(broker, operator):
    """They see all, and have topics of their own."""
    rows = json.loads(operator.say("ask", "topics"))["topics"]
    names = {(row["tenant"], row["topic"]) for row in rows}
    check({(name, "cam.1") for name in TENANTS} <= names, f"operators see all topics: {names}")
    queues = json.loads(operator.say("ask", "queues"))["queues"]
    check({row["tenant"] for row in queues if row["durable"] == "d"} == set(TENANTS), f"{queues}")
    check({f"only-{name}" for name in TENANTS} <= {row["durable"] for row in queues}, f"{queues}")
    check(json.loads(operator.say("ask", "blocked"))["blocked"] == [], "nobody is blocked")
    rows = json.loads(operator.say("ask", "clients"))["clients"]
    users = {f"{name}{number}" for name in TENANTS for number in (1, 2, 3)}
    check(users <= {row["user"] for row in rows}, f"all sessions are there: {rows}")
    heard = [json.loads(text).get("tenant") for _, text in operator.messages(0, 300)]
    check(set(TENANTS) <= set(heard), f"operators hear of all: {set(heard)}")
    check(operator.messages(1) == [], "messages of tenants are not the operators'")
    rows = json.loads(operator.say("ask", "memory"))["memory"]
    groups = {(row["group"], row["tenant"]) for row in rows if row["kind"] == "group"}
    check({("default", name) for name in TENANTS} <= groups, f"memory of each tenant: {groups}")
    check({tenant for group, tenant in groups if group == "private"} <= {""}, f"nobody's: {groups}")
    for view in OPERATORS_VIEWS:
        operator.say("ask", view)
    check(broker.process.ask("status")["forbidden"] > 0, "refusals are counted")


def run(rig, options):
    tries, seed = int(options.get("tries", 10000)), int(options.get("seed", time.time_ns()))
    print(f"seed {seed}")
    rng = random.Random(seed)
    users = {f"{name}{i}": (name, "all,view", "-") for name in TENANTS for i in (1, 2)}
    users.update({f"{name}3": (name, "all,lead", "-") for name in TENANTS})
    users["op"] = ("$", "all,ops", "-")
    broker = Broker(rig, users,
                    {"all": ALL, "view": 'admin = "read";', "lead": 'admin = "operate";',
                     "ops": 'admin = "operate";'},
                    'tenants = ( { name = "plant"; }, { name = "lab"; } );\n'
                    'topics = ( { match = ">"; max_bytes = "8M"; slow = "block"; '
                    'retain = { messages = 4; }; } );')
    operator = broker.client("op")
    operator.say("sub", 0, "$SYS.>")
    operator.say("sub", 1, ">")
    tenants = [Tenant(broker, name) for name in TENANTS]
    for tenant in tenants:
        for _ in range(4):
            tenant.ask()
            tenant.bury()
    trials = [Trial(rng, tenants[0], tenants[1]), Trial(rng, tenants[1], tenants[0])]
    for number in range(tries):
        trials[number % 2].once()
        if number % 64 == 63:
            tenant = tenants[rng.randrange(2)]
            tenant.ask()
            drain(tenants)
    crossings = trials[0].crossings + trials[1].crossings
    for tenant, other in (tenants, tenants[::-1]):
        crossings += check_readers(tenant, other)
    check_operators(broker, operator)
    counts = {name: sum(trial.counts.get(name, 0) for trial in trials) for name in trials[0].counts}
    print(f"tries: {counts}; messages: {[len(tenant.sent) for tenant in tenants]}")
    print(f"{tries} tries, {len(crossings)} crossings")
    check(not crossings, f"crossings: {crossings[:10]}")
    broker.stop()


def drain(tenants):
    """Queues are emptied, so that nobody waits for them."""
    for tenant in tenants:
        for who in (tenant.reader, tenant.writer):
            who.messages(3)
        tenant.reader.messages(4)


if __name__ == "__main__":
    main(run, 1800, observers=())
