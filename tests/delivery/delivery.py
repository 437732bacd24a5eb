#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight publishers, eight subscribers, 64 topics: what was delivered, judged from logs alone.

    delivery.py BUILD [--messages N] [--links ring,stream,ucx,tls] [--policy block|drop-oldest|ack|cumulative|group]
                [--confirm delivered] [--kills N] [--restarts N [--end term]] [--reloads N] [--pause SECONDS]
                [--max BYTES] [--seed N]

test-load's processes write down what they post and what they get (load.c), delivery-check judges
(check.c). N messages from each publisher, 0 B to 16 MiB; each topic has two subscribers. Clients take
the links in turn. --kills: that many publishers are killed at random, and a quarter as many
subscribers; others take their places. --restarts: that many brokers are killed, and others take their
place; what was lost must be what that explains. --end term: they are asked to end instead, and must do
so well. --reloads: so often the configuration changes, and is in force before the next event. Between two
such events at most --pause passes.
With ack and group each message is acknowledged, some after they have come twice; cumulative: some, each
for all before it; group: the eight are members of one, and dead members' messages go to the others. With
drop-oldest topics hold 200 KB, and subscribers are stopped now and then: losses must be exact. --confirm
delivered: publishers wait until their messages have been delivered, and what they were told must be
in the logs of those who got it, whoever was killed.

Where nobody is killed the broker's figures are compared, too: those of the views, of /metrics and of its
counters file must be what the checker has counted, and no client's end lowers a total.
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import scrape
from harness import LINKS, Failure, check, check_time, main, until

CLIENTS = 8
LOG_MAX = 4000  # characters of a publisher's log that are told


class Load:
    """The clients of one run and their logs."""

    def __init__(self, rig, broker, options):
        self.rig = rig
        self.broker = broker
        self.messages = int(options.get("messages", 4000))
        self.policy = options.get("policy", "block")
        self.confirm = options.get("confirm", "accepted")
        self.max = options.get("max", str(16 << 20))
        self.links = options["links"].split(",") if "links" in options else LINKS
        check("restarts" not in options or self.policy == "block" or self.confirm == "delivered",
              "sequences begin anew: acknowledged messages must say whose they are (--confirm delivered)")
        self.kills = int(options.get("kills", 0))
        self.logs = {}  # by client
        self.pubs = []
        self.subs = []
        self.killed = set()
        self.starts = []  # of brokers behind the first, ns

    def kill(self, client):
        self.killed.add(client)
        client.kill()

    def start(self, kind, number, *arguments):
        log = str(self.rig.folder / f"log-{len(self.logs)}")
        link = self.links[number % len(self.links)]
        url = self.broker.url(link)
        if self.policy == "group":  # Of one user: its members come by the Unix socket all.
            url = f"{self.broker.unix_url}?link={link}"
        client = self.rig.client("test-load", kind, url, log, *arguments)
        client.number = number
        self.logs[client] = log
        return client

    def written(self):
        """The logs to be judged. Who was killed before it had one has done nothing."""
        return [log for client, log in self.logs.items()
                if client not in self.killed or os.path.exists(log)]

    def subscribe(self, number, *late):
        groups = 1 << number % CLIENTS | 1 << (number + 1) % CLIENTS
        if self.policy == "group":
            groups = (1 << CLIENTS) - 1
        room = self.messages * (CLIENTS + 1 + self.kills) * 4
        sub = self.start("sub", number, f"{groups:x}", str(room), self.policy, *late)
        sub.expect("ready", 70)  # longer than it tries to connect
        self.subs.append(sub)

    def publish(self, number):
        self.pubs.append(self.start("pub", number + 1, str(len(self.logs) + 1), str(self.messages),
                                    self.max, self.confirm))

    def publishing(self):
        """The publishers that go on. Fails where one has ended badly by itself."""
        going = [pub for pub in self.pubs if pub.is_running()]
        for pub in self.pubs:
            status = pub.popen.poll()
            check(pub in self.killed or status in (None, 0), f"{pub.name}, a publisher over "
                  f"{self.links[pub.number % len(self.links)]}, ended with {status}\n{pub.log()[-LOG_MAX:]}")
        return going

    def until(self, seconds, condition, text):
        """Waits for the condition. Fails at once where a publisher has ended badly by itself."""
        def holds():
            self.publishing()
            return condition()
        until(seconds, holds, text)

    def finish(self, seconds):
        """Waits until all have published all."""
        deadline = time.monotonic() + seconds
        while going := self.publishing():
            check_time(time.monotonic() < deadline,
                       f"{', '.join(pub.name for pub in going)}: not done in {seconds} s")
            time.sleep(0.01)
        for pub in self.pubs:
            if pub not in self.killed:  # UCX writes there too.
                check("done" in pub.all_lines(seconds), f"{pub.name} has not said that it is done: {pub.log()[-LOG_MAX:]}")


def count_of(path):
    """Records in a log, which may not be there yet."""
    try:
        with open(path, "rb") as log:
            return int.from_bytes(log.read(40)[32:], "little")
    except FileNotFoundError:
        return 0


def replace_broker(load, options, is_killed):
    if is_killed:
        load.broker.kill()
    else:
        load.broker.stop()
    load.starts.append(time.time_ns())
    deadline = time.monotonic() + 30
    while True:
        try:
            load.broker = load.rig.broker(*options, at=load.broker)
            return
        except Failure:  # Its port is not free yet.
            check(time.monotonic() < deadline, "no broker")


def reload(load, config, number):
    """Another window, and a rule that comes and goes."""
    said = "reload: in force from now on"
    before = load.broker.log().count(said)
    rule = f'{{ match = "other.{number}.>"; max_bytes = "{1 + number % 8}M"; }}' if number % 2 else ""
    config.write_text(f'limits = {{ window = {(4 << 20) + number}; }};\ntopics = ( {rule} );\n')
    load.broker.signal(signal.SIGHUP)
    until(60, lambda: load.broker.log().count(said) > before, "the reload is in force")


def make_trouble(load, dice, events, pause, broker_options, is_killed):
    """Kills what `events` says, in this order, while all publish; how many of each were killed."""
    done = {"pub": 0, "sub": 0, "broker": 0, "reload": 0}
    if "broker" in events:
        load.until(60, lambda: all(count_of(load.logs[pub]) for pub in load.pubs), "all have begun")
    for event in events:
        time.sleep(dice.uniform(pause / 10, pause))
        living = {"pub": load.publishing(),
                  "sub": [sub for sub in load.subs if sub.is_running()]}
        if len(living["pub"]) < CLIENTS // 2:
            break
        if event == "broker":
            replace_broker(load, broker_options, is_killed)
        elif event == "reload":
            reload(load, pathlib.Path(broker_options[1]), done["reload"])
        elif living[event]:
            victim = dice.choice(living[event])
            load.kill(victim)
            if event == "pub":
                load.publish(dice.randrange(1000))
            else:  # On another link, with the same groups.
                load.subscribe(victim.number + CLIENTS, "late")
        load.broker.check_alive()
        done[event] += 1
    return done


def publish_last(load, seconds):
    """A few more, once all subscribers are back: who gets nothing from the last broker is not told of it."""
    wanted = sum(load.policy == "group" and CLIENTS or 2 for sub in load.subs if sub.is_running())
    until(30, lambda: len([row for row in load.broker.ask("subs")
                           if row["pattern"].startswith("load.")]) >= wanted, "all are back")
    load.messages = 1000
    load.publish(0)
    load.finish(seconds)


def dropped(load):
    return sum(row["dropped"] for row in load.broker.ask("workers"))


def stop_some(load, dice, first):
    """Subscribers fall behind: `first` has been stopped since before the first message, until 100 are dropped."""
    load.until(60, lambda: dropped(load) >= 100 or not load.publishing(), "100 are dropped")
    first.signal(signal.SIGCONT)
    while load.publishing():
        sub = dice.choice(load.subs)
        sub.signal(signal.SIGSTOP)
        time.sleep(dice.uniform(0.05, 0.3))
        sub.signal(signal.SIGCONT)


class Figures:
    """What the broker says that it has counted, in its views and in its file."""

    def __init__(self, load, file):
        self.load, self.file = load, file
        self.ctl = str(load.rig.program("broker-ctl"))

    def of_file(self, view):
        done = subprocess.run([self.ctl, "--file", self.file, view, "-o", "json"], capture_output=True,
                              text=True, timeout=30, check=False)
        check(done.returncode == 0, f"{view} of the file: {done.stderr}")
        answer = json.loads(done.stdout)
        return answer.get(view, answer)

    def totals(self):
        return {(row["metric"], row.get("worker")): row["value"] for row in self.load.broker.ask("metrics")
                if row["metric"].endswith("_total")}

    def compare(self, verdict):
        """Events below $SYS are messages, too, which nobody reads here."""
        for where, ask in (("views", self.load.broker.ask), ("file", self.of_file)):
            workers, topics, status = ask("workers"), ask("topics"), ask("status")
            totals = {column: sum(row[column] for row in workers)
                      for column in ("messages_in", "messages_out", "dropped", "lost_slow", "lost_trimmed",
                                     "lost_expired")}
            in_topics = {column: sum(row[column] for row in topics if row["topic"].startswith("load."))
                         for column in ("messages", "dropped")}
            events = sum(row["messages"] for row in topics if row["topic"].startswith("$SYS."))
            for name, counted, wanted in (
                    ("messages that topics have taken", in_topics["messages"], verdict["accepted"]),
                    ("messages in", totals["messages_in"] - events, verdict["accepted"]),
                    ("messages out", totals["messages_out"], verdict["received"]),
                    ("messages lost", totals["lost_slow"] + totals["lost_trimmed"] + totals["lost_expired"],
                     verdict["lost"]),
                    ("messages dropped of topics", in_topics["dropped"], totals["dropped"]),
                    ("status: in", status["messages_in"], totals["messages_in"]),
                    ("status: out", status["messages_out"], totals["messages_out"]),
                    ("status: dropped", status["dropped"], totals["dropped"])):
                check(counted == wanted, f"{where}: {name}: {counted}, not {wanted}")
        self.compare_scrape(verdict, events)

    def compare_scrape(self, verdict, events):
        """/metrics says the same, of each worker."""
        door = f"{self.load.broker.socket}.http"
        if not os.path.exists(door):  # built without HTTP
            return
        rows = self.load.broker.ask("metrics")
        now = scrape.samples(scrape.get(door))
        for name, counted, wanted in (
                ("in", scrape.total(now, "ambroker_messages_in_total") - events, verdict["accepted"]),
                ("out", scrape.total(now, "ambroker_messages_out_total"), verdict["received"]),
                ("lost", sum(scrape.total(now, f"ambroker_messages_lost_{why}_total")
                             for why in ("slow", "trimmed", "expired")), verdict["lost"])):
            check(counted == wanted, f"/metrics: messages {name}: {counted}, not {wanted}")
        compared = 0
        for row in rows:
            name = row["metric"]
            if name.startswith(("ambroker_messages_", "ambroker_bytes_", "ambroker_batches_", "ambroker_deliveries_")):
                value = now[name, f'worker="{row["worker"]}"' if "worker" in row else ""]
                check(value == row["value"], f"/metrics: {name} is {value}, and {row['value']} of the view")
                compared += 1
        check(compared >= 2 * 15, f"only {compared} figures were compared")


def test(rig, options):
    seed = int(options.get("seed", time.time_ns() & 0xFFFFFF))
    kills, restarts = int(options.get("kills", 0)), int(options.get("restarts", 0))
    reloads = int(options.get("reloads", 0))
    events = ["pub"] * kills + ["sub"] * (kills // 4) + ["broker"] * restarts + ["reload"] * reloads
    pause = float(options.get("pause", 1.0 if restarts else 0.15))
    drops = options.get("policy") == "drop-oldest"
    check(not (drops and reloads), "a reload would take the limit of drop-oldest away")
    seconds = int(options.get("seconds", 280))
    print(f"seed {seed}", flush=True)
    dice = random.Random(seed)
    dice.shuffle(events)
    began = time.monotonic()
    if rig.is_observed and not events:
        rig.observe("--but", "events")  # a reader of these would be among the figures that are compared
    config = rig.folder / "delivery.conf"
    config.write_text('topics = ( { match = "load.>"; max_bytes = "200K"; } );' if drops else "")
    counters = str(rig.folder / "counters")
    # A client over ucx that gets no core is longer at its handshake than the usual 10 s.
    broker_options = ("--config", str(config), "-o", "server.workers=2", "-o",
                      f"server.counters_file={counters}", "-o", "server.handshake_timeout=1m")
    broker = rig.broker(*broker_options)
    load = Load(rig, broker, options)
    for number in range(CLIENTS):
        load.subscribe(number)
    first = dice.choice(load.subs)
    if drops:
        first.signal(signal.SIGSTOP)
    for number in range(CLIENTS):
        load.publish(number)
    is_killed = options.get("end", "kill") != "term"
    killed = make_trouble(load, dice, events, pause, broker_options, is_killed)
    restarts = killed["broker"]
    check(is_killed or restarts > 0, "no broker was asked to end: too few messages for that")
    check(not reloads or killed["reload"] > 0, "no reload: too few messages for that")
    if drops:
        stop_some(load, dice, first)
    load.finish(seconds)
    if restarts:
        publish_last(load, seconds)
    figures = None if events else Figures(load, counters)
    before = figures.totals() if figures else {}
    for sub in load.subs:
        if sub.is_running():
            sub.signal(signal.SIGTERM)
    for sub in load.subs:
        check(sub.wait(60) in (0, -signal.SIGKILL), f"a subscriber: {sub.log()}")
    load.broker.check_alive()
    took = time.monotonic() - began
    judge = [str(rig.program("delivery-check")), *(["--killed"] if load.killed else []),
             *(["--restarts", ",".join(map(str, load.starts))] if restarts else []), *load.written()]
    done = subprocess.run(judge, capture_output=True, text=True, check=False)
    print(f"{took:.0f} s, {'killed' if is_killed else 'ended'}: {killed}", done.stdout.strip(), flush=True)
    check(done.returncode == 0, done.stderr)
    verdict = json.loads(done.stdout)
    check(not restarts or verdict["told"] > 0, "nobody heard of a restart")
    check(load.confirm != "delivered" or verdict["delivered"] > 0, "nothing was delivered")
    check(not drops or verdict["lost"] > 0, "nothing was dropped")
    if figures:
        with load.broker.unobserved():
            after = figures.totals()
            for metric, value in before.items():
                check(after[metric] >= value, f"{metric}: {value}, and {after[metric]} when clients have gone")
            figures.compare(verdict)
    load.broker.stop()


if __name__ == "__main__":
    main(test, 1500, observers=())
