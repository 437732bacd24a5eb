# SPDX-License-Identifier: Apache-2.0
"""Acknowledgements, groups and durable names with real processes: the examples, and the shell.

    queues_test.py
"""
import json
import signal
import subprocess

import pytest

from harness import Failure, check, until


class World:
    def __init__(self, rig, broker, url):
        self.rig, self.broker, self.url = rig, broker, url

    def ctl(self, *words, url=None, **options):
        return subprocess.run([self.rig.program("broker-ctl"), "--url", url or self.url, *words],
                              capture_output=True, timeout=30, check=False, text=True, **options)

    def remove(self, name):
        return self.ctl("durable", "rm", name, "--yes", url=self.broker.url("ring"))

    def admin(self, what):
        return self.broker.ask(what)

    def example(self, name, *words):
        program = self.rig.build / "docs" / "examples" / f"example-{name}"
        return self.rig.start([str(program), *words], env={"AMB_URL": self.url})

    def publish(self, topic, *texts):
        for text in texts:
            done = self.ctl("pub", topic, input=text)
            check(done.returncode == 0, f"pub: {done}")

    def queue(self, **wanted):
        rows = [q for q in self.admin("queues")
                if all(q[key] == value for key, value in wanted.items())]
        return rows[0] if rows else None


def lines_there(process):
    lines = []
    try:
        while True:
            lines.append(process.line(0.05))
    except Failure:
        return lines


def workers(world, kept):
    """kept: dead letters of former rounds, which are there for who comes later."""
    letters = world.example("deadletters")
    for _ in range(kept):
        letters.line()
    first = world.example("worker")
    second = world.example("worker")
    until(20, lambda: (world.queue(group="resizers") or {}).get("members") == 2, "two members")
    until(20, lambda: any(s["pattern"] == "$DLQ.>" for s in world.admin("subs")), "a reader")
    world.publish("jobs.resize", *[f"job{i}" for i in range(20)])
    seen = []

    def look():
        for worker in (first, second):
            seen.extend(lines_there(worker))
        return len(seen) >= 20

    until(20, look, "twenty jobs")
    check(sorted(seen) == sorted(f"job{i}, delivery 1" for i in range(20)), f"{seen}")
    # Given up at once; and after three times.
    events = world.rig.start([world.rig.program("broker-ctl"), "--url", world.url, "sub",
                              "$SYS.dead_letter", "--count", "2", "--timeout", "20"])
    until(20, lambda: any(s["pattern"] == "$SYS.dead_letter" for s in world.admin("subs")), "events")
    world.publish("jobs.resize", "bad", "later")
    lines = sorted([letters.line(), letters.line()])
    check(lines[0].startswith("jobs.resize ") and lines[0].endswith(
        "bad: nobody can do this, after 1"), f"{lines}")
    check(lines[1].endswith("later: delivered 3 times, after 3"), f"{lines}")
    check("$DLQ.jobs.resize" in events.line(), "an event says so")
    check(events.wait() == 0, events.log())
    until(20, lambda: world.queue(group="resizers")["pending"] == 0, "all acknowledged")
    check(world.queue(group="resizers")["dead"] == 2, "dead letters are counted")
    # Nobody is there: the name keeps the place.
    for worker in (first, second):
        worker.signal(signal.SIGTERM)
        check(worker.wait() == 0, worker.log())
    until(20, lambda: world.queue(durable="resize")["members"] == 0, "no member")
    world.publish("jobs.resize", "meanwhile")
    third = world.example("worker")
    check(third.line() == "meanwhile, delivery 1", "what came meanwhile")
    # Killed with a job in its hands, which another one gets.
    until(20, lambda: world.queue(group="resizers")["pending"] == 0, "all acknowledged")
    third.signal(signal.SIGSTOP)
    world.publish("jobs.resize", "orphan")
    until(20, lambda: world.queue(group="resizers")["pending"] == 1, "it is given to somebody")
    fourth = world.example("worker")
    until(20, lambda: world.queue(group="resizers")["members"] == 2, "two members")
    third.kill()
    check(fourth.line() == "orphan, delivery 2", "what a dead worker had")
    fourth.signal(signal.SIGTERM)
    check(fourth.wait() == 0, fourth.log())
    letters.signal(signal.SIGTERM)
    check(letters.wait() == 0, letters.log())
    until(20, lambda: world.queue(durable="resize")["members"] == 0, "no member")
    removed = world.remove("resize")
    check(removed.returncode == 0, f"{removed}")
    check(world.queue(durable="resize") is None, "the name is gone")
    check(world.remove("resize").returncode != 0, "it can be removed once")


def resume(world):
    first = world.example("resume", "1")
    until(20, lambda: world.queue(durable="billing"), "its name")
    world.publish("orders.new", "a")
    check(first.line() == "a" and first.wait() == 0, first.log())
    world.publish("orders.new", "b", "c", "d")
    second = world.example("resume", "2")
    check([second.line(), second.line()] == ["b", "c"] and second.wait() == 0, second.log())
    third = world.example("resume", "1")
    check(third.line() == "d" and third.wait() == 0, third.log())
    world.remove("billing")


def shell(world, topic):
    """A NAKed message comes again to whoever is there, and says how often."""
    refuser = world.rig.start([world.rig.program("broker-ctl"), "--url", world.url, "-o", "json",
                               "sub", topic, "--group", "g", "--nak", "--count", "1"])
    until(20, lambda: world.queue(group="g"), "its group")
    taker = world.rig.start([world.rig.program("broker-ctl"), "--url", world.url, "-o", "json",
                             "sub", topic, "--group", "g", "--ack", "explicit", "--count",
                             "1", "--timeout", "20"])
    until(20, lambda: world.queue(group="g")["members"] == 2, "two members")
    world.publish(topic, "one", "two")
    one = json.loads(refuser.line())
    two = json.loads(taker.line())
    check(one["deliveries"] == 1, f"{one}")
    check(refuser.wait() == 0, refuser.log())
    check(taker.wait() == 0, taker.log())
    check({one["seq"], two["seq"]} <= {1, 2}, f"{one} {two}")
    bad = world.ctl("sub", "x", "--ack", "cumulative", "--group", "g")
    check(bad.returncode != 0 and "EXPLICIT" in bad.stderr, f"{bad}")
    status = world.admin("status")
    check(status["dead_letters"] >= 2, f"{status}")


def slow(world, topic, members):
    """Its credit is four times the work that ack_wait has time for: all of it gets done, once and for all."""
    program = world.rig.start([world.rig.program("test-slow_member"), world.url, topic,
                               str(members)])
    check(program.wait(120) == 0, f"slow members get on: {program.log()}")
    print(program.line())
    until(20, lambda: world.queue(durable="slow")["members"] == 0, "no member")
    rest = world.queue(durable="slow")
    check(rest["pending"] == 0 and rest["dead"] == 0, f"nothing is left: {rest}")
    check(rest["settled_late"] > 0, f"late ones count: {rest}")
    world.remove("slow")


@pytest.mark.parametrize("members", (1, 2))
@pytest.mark.parametrize("link", ("ring", "stream"))
def test_members_that_are_slower_than_their_credit_get_on(rig, link, members):
    broker = rig.broker("-o", "server.workers=2")
    slow(World(rig, broker, broker.url(link)), f"slow.{link}", members)
    broker.check_alive()
    broker.stop()


@pytest.mark.parametrize("link", ("ring", "stream"))
def test_queues(rig, link):
    broker = rig.broker("-o", "server.workers=2")
    world = World(rig, broker, broker.url(link))
    workers(world, 0)
    resume(world)
    shell(world, f"shell.{link}")
    broker.check_alive()
    broker.stop()
