#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each allocation and each call of libssl and libucp fails once, in the broker and then in a client.

    torture.py BUILD [--step N] [--seed N] [--at N] [--only broker|client|ucp]

A library that is loaded before all others (tests/support/programs/torture_preload.c) lets the Nth one fail,
while a client connects over TLS and publishes, another one changes its keys, and the broker reloads. The
broker lives, new clients get in, and nothing is left: no session, no descriptor, and with the address
sanitizer no memory. Allocations of libconfig are left out: it looks at none of them. A client ends well, or
with a status of its own and a sentence.

Calls of libucp fail by a library that stands in its place (tests/support/programs/torture_ucp.c): in brokers
that begin, in one that goes on, and in clients. Where a build has no UCX of its own, that part is left out.

--step N: each Nth number (41), from a random one on; 1 for all. --at N: only that number.
--observers 1: somebody looks at each broker meanwhile. Not by default, for its calls are numbered, too: a number
would be another call each time.
"""
import mmap
import pathlib
import random
import re
import signal
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "stress"))
from death import standing
from doors import settle
from encrypted import Encrypted, made
from harness import SKIPPED, check, main, until
from ucp import FailingUcp

KINDS = ("allocations", "calls of libssl")
NUMBERS = struct.Struct("5q")
LOOK_EVERY = 10
NO_LINK = 64  # of one that insists on a link which is not to be had: link=ucx
ENDS = {0, 65, 69, 70, 71, 74, 75, 76, 77}  # of broker-ctl: all but usage and configuration


class Torture:
    """The file by which a process is told which call fails."""

    def __init__(self, rig, name):
        self.path = rig.folder / name
        self.path.write_bytes(bytes(NUMBERS.size))
        with open(self.path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), NUMBERS.size)

    def environment(self, rig, sanitized):
        options = "verify_asan_link_order=0:intercept_tls_get_addr=0"
        if sanitized:
            options += ":detect_leaks=1:exitcode=99:fast_unwind_on_malloc=0"  # for frames of libssl
        return {"LD_PRELOAD": rig.program("test-torture.so"), "AMB_TORTURE_FILE": str(self.path),
                "ASAN_OPTIONS": options,
                "LSAN_OPTIONS": f"suppressions={pathlib.Path(__file__).parent / 'leaks.txt'}:print_suppressions=0",
                "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}

    def arm(self, kind, number):
        """number 0: none fails."""
        due = [0, 0]
        due[kind] = number
        self.map[:NUMBERS.size] = NUMBERS.pack(*due, 0, 0, 0)

    def seen(self):
        *_, allocations, calls, failed = NUMBERS.unpack(self.map[:NUMBERS.size])
        self.map[:16] = bytes(16)
        return (allocations, calls), failed


class Scenario:
    """What is done to the broker each time."""

    def __init__(self, rig, broker):
        self.rig, self.broker = rig, broker
        self.rounds = 0

    def reloads(self):
        log = self.broker.broker.log()
        return len(re.findall(r"in force from now on|reload refused|valid and unchanged", log))

    def run(self):
        """Nothing of it needs to go well."""
        before = self.reloads()
        self.rounds += 1
        days = str(100 + self.rounds % 200)  # another certificate, so that all is made again
        if self.rounds % 5 == 1:
            self.broker.folder.make("renew", "--days", days)
            for old in self.broker.folder.path.glob("server.pem.*"):
                old.unlink()
        reader = self.rig.client("broker-ctl", "--url", self.broker.url, "sub", "torture.>", "--count", 3,
                                 "--timeout", 2, env=self.broker.env)
        self.broker.ctl("pub", "torture.a", "--count", 3, "--size", 2000, "--wait-subscribers", 1,
                        "--timeout", 2)
        self.broker.broker.signal(signal.SIGHUP)
        keys = self.rig.client("test-rekeyer", self.broker.port, 1, 2)
        keys.wait(30)
        reader.wait(30)
        try:
            until(3, lambda: self.reloads() > before, "it has reloaded, or refused to")
        except Exception:  # the line itself had no memory
            pass
        for process in (keys, reader):
            self.rig.forget(process)


def fresh_asker(rig, broker):
    """The one who asks may have been refused something meanwhile, and must hold as much as before."""
    if broker.asker is not None:
        rig.forget(broker.asker)
        broker.asker = None
    until(20, lambda: broker.clients() == [], "they have gone")


def turns(most, step, options, dice):
    """The numbers whose turn it is. The first one, which may be the only one, is not in the last quarter: a round may
    have fewer calls than the one that was counted."""
    if "at" in options:
        return [int(options["at"])]
    return range(dice.randrange(1, min(step, most * 3 // 4) + 1), most + 1, step)


def torture_broker(rig, options, sanitized, dice, folder):
    step, torture = int(options.get("step", 41)), Torture(rig, "torture-broker")
    config = rig.folder / "broker.conf"
    config.write_text(f'tls = {{ certificate = "{folder("server.pem")}"; key = "{folder("server.key")}"; }};\n'
                      f'auth = {{ token_file = "{rig.folder / "token"}"; }};\n')
    broker = Encrypted(rig, folder, "--config", config, "-o", "log.level=info", "-o",
                       "server.handshake_timeout=1s", "-o", "transports.trusted=[]",
                       env=torture.environment(rig, sanitized))
    scenario = Scenario(rig, broker)
    for _ in range(3):
        scenario.run()
    torture.arm(0, 0)
    scenario.run()
    counts, _ = torture.seen()
    print(f"broker: {counts[0]} allocations and {counts[1]} calls of libssl in a round", flush=True)
    check(counts[0] > 500 and counts[1] > 20, "the library counts")
    broker.broker.looked_at()
    with broker.broker.unobserved():
        fresh_asker(rig, broker.broker)
        before = standing(broker.broker)
    for kind, name in enumerate(KINDS):
        failed = done = 0
        begin = time.monotonic()
        for number in turns(counts[kind] * 11 // 10, step if kind == 0 else max(step // 10, 1), options, dice):
            torture.arm(kind, number)
            scenario.run()
            failed += torture.seen()[1]
            done += 1
            check(broker.broker.is_running(), f"{name}, number {number}: brokerd has ended: "
                  f"{broker.broker.popen.poll()}\n{broker.broker.log()[-6000:]}")
            if done % LOOK_EVERY == 0:
                broker.works()
        broker.works()
        print(f"  {name:16s} {done:5d} rounds, {failed:5d} failed, in {time.monotonic() - begin:.0f} s", flush=True)
        check(failed > done // 5 or "at" in options, "the library lets them fail")
    fresh_asker(rig, broker.broker)
    settle(broker.broker, before)
    broker.broker.stop(60)


def torture_client(rig, options, sanitized, dice, folder):
    step = int(options.get("step", 41))
    broker = Encrypted(rig, folder, "-o", "log.level=error", "-o", "server.handshake_timeout=1s")
    torture = Torture(rig, "torture-client")
    environment = torture.environment(rig, sanitized)
    reader = rig.client("broker-ctl", "--url", broker.broker.unix_url, "sub", "torture.>")
    until(20, lambda: broker.broker.ask("subs"), "it has subscribed")

    def run(kind, number):
        torture.arm(kind, number)
        status, _, text = broker.ctl("pub", "torture.a", "--count", 3, "--size", 2000, "--timeout", 5,
                                     env=environment, seconds=60)
        return status, text

    status, text = run(0, 0)
    check(status == 0, f"without a failure: {status} {text}")
    counts, _ = torture.seen()
    print(f"client: {counts[0]} allocations and {counts[1]} calls of libssl in a round", flush=True)
    for kind, name in enumerate(KINDS):
        failed = done = well = 0
        for number in turns(counts[kind], step if kind == 0 else max(step // 10, 1), options, dice):
            status, text = run(kind, number)
            check(status in ENDS, f"{name}, number {number}: the client ended with {status}: {text}")
            check(status == 0 or text.strip(), f"{name}, number {number}: {status}, and no word")
            failed += torture.seen()[1]
            done += 1
            well += status == 0
        print(f"  {name:16s} {done:5d} rounds, {failed:5d} failed, {well} went well all the same", flush=True)
        check(failed > done // 5 or "at" in options, "the library lets them fail")
    check(reader.is_running(), f"somebody else has ended: {reader.log()}")
    reader.kill()
    broker.works()
    broker.broker.stop()


def by_ucx(rig, broker, env=None):
    """A large message and small ones, each by ucx links of clients that come and go: statuses and words."""
    url, texts, ends = broker.url("ucx"), [], []
    reader = rig.client("broker-ctl", "--url", url, "sub", "torture.>", "--count", 4, "--timeout", 4, "--stats", env=env)
    for words in (("--size", "300K", "--wait-subscribers", 1), ("--size", 100, "--count", 3)):
        writer = rig.client("broker-ctl", "--url", url, "pub", "torture.a", *words, "--timeout", 4, env=env)
        ends.append(writer.wait(60))
        texts.append(writer.log())
        rig.forget(writer)
    ends.append(reader.wait(60))
    rig.forget(reader)
    return ends, texts


def one_ucx_broker(rig, ucp):
    return rig.broker("-o", "log.level=error", env=ucp.env)


def works_by_ring(rig, broker, what):
    broker.check_alive()
    writer = rig.client("broker-ctl", "--url", broker.unix_url, "pub", "fine", "--size", 10)
    check(writer.wait(30) == 0, f"{what}: {writer.log()}")
    rig.forget(writer)


def torture_ucp_begin(rig, ucp, numbers):
    """A broker's first ucx link: a context and workers are made."""
    failed = well = 0
    for number in numbers:
        broker = one_ucx_broker(rig, ucp)
        ucp.arm(number)
        ends, _ = by_ucx(rig, broker)
        well += ends == [0, 0, 0]
        check(set(ends) <= ENDS | {NO_LINK}, f"number {number}: {ends}")
        failed += ucp.seen()[1]
        works_by_ring(rig, broker, f"a broker that begins, number {number}")
        broker.stop(60)
        rig.forget(broker)
    return failed, well


def torture_ucp_go_on(rig, ucp, broker, numbers, fails_here):
    """Further links of a broker; or those of clients of a broker whose calls do not fail."""
    failed = well = 0
    for number in numbers:
        ucp.arm(number)
        ends, texts = by_ucx(rig, broker, None if fails_here else ucp.env)
        check(set(ends) <= ENDS | {NO_LINK}, f"number {number}: {ends} {texts}")
        failed += ucp.seen()[1]
        well += ends == [0, 0, 0]
        broker.check_alive()
    return failed, well


def torture_ucp(rig, options, dice):
    step = max(int(options.get("step", 41)) // 4, 1)
    try:
        ucp, others = FailingUcp(rig), FailingUcp(rig, "ucp-clients")
    except Exception as error:
        print(f"ucp: left out: {error}")
        return
    counts = []
    broker = one_ucx_broker(rig, ucp)
    for _ in range(2):
        ucp.arm(0)
        ends, texts = by_ucx(rig, broker, others.env)
        check(ends == [0, 0, 0], f"without a failure: {ends} {texts}")
        counts.append(ucp.seen()[0])
    counts.append(others.seen()[0] // 2)
    print(f"ucp: {counts[0]} calls in a broker's first round, {counts[1]} in its next, {counts[2]} in a round's clients",
          flush=True)
    check(min(counts) > 5, "the library counts")
    broker.looked_at()
    with broker.unobserved():
        fresh_asker(rig, broker)
        before = standing(broker)
    parts = (("a broker's begin", lambda numbers: torture_ucp_begin(rig, ucp, numbers)),
             ("a broker's links", lambda numbers: torture_ucp_go_on(rig, ucp, broker, numbers, True)),
             ("clients", lambda numbers: torture_ucp_go_on(rig, others, broker, numbers, False)))
    for (name, run), count in zip(parts, counts):
        begin = time.monotonic()
        numbers = turns(count, step, options, dice)
        failed, well = run(numbers)
        print(f"  {name:16s} {len(numbers):5d} rounds, {failed:5d} failed, {well} went well all the same, in "
              f"{time.monotonic() - begin:.0f} s", flush=True)
        check(failed > len(numbers) // 3 or "at" in options, "the library lets them fail")
    ends, texts = by_ucx(rig, broker)
    check(ends == [0, 0, 0], f"at the end: {ends} {texts}")
    fresh_asker(rig, broker)
    with broker.unobserved():
        until(30, lambda: standing(broker) == before, "their descriptors are closed")
    broker.stop(60)


def test(rig, options):
    try:
        rig.program("test-torture.so")
    except Exception:
        sys.exit(SKIPPED)
    seed = int(options.get("seed", time.time_ns() & 0xFFFFFF))
    print(f"seed {seed}", flush=True)
    sanitized, dice = rig.is_sanitized(), random.Random(seed)
    folder = made(rig)
    if options.get("observers") == "1":
        rig.observe("--refused")
    only = options.get("only", "broker,client,ucp")
    if "broker" in only:
        torture_broker(rig, options, sanitized, dice, folder)
    if "client" in only:
        torture_client(rig, options, sanitized, dice, folder)
    if "ucp" in only:
        torture_ucp(rig, options, dice)


if __name__ == "__main__":
    main(test, 20000)
