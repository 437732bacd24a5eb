#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A broker with hardly a descriptor, and more clients than it has any for.

    few.py BUILD [--rounds N] [--clients N]

With RLIMIT_NOFILE=64 the broker does not start, and says how many it needs. It starts with eight more than
that. Later somebody takes them away (prlimit), down to 64 or to a dozen more than are in use. Before and
after that there are rounds (3), in each of which so many clients (200) come at once: half hellos, whole ones
and silence, over TLS and TCP, and programs. No program fails without a word, somebody honest gets in after
each round, and a pair that was there before notices nothing. The log has at most 20 lines, and two a second.
No observer looks: it would take descriptors that are counted here.
"""
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "stress"))
from death import standing
from doors import HELLO_OF_OURS, Visitor
from encrypted import Encrypted, made
from harness import check, main, until

FEW = 64
SPARE = 12
PROGRAMS = 10  # of the clients of a round
SMALL = ("-o", "server.workers=1", "-o", "transports.trusted=[]", "-o", "memory.host.size=64M", "-o",
         "memory.host.segment=64M", "-o", "server.max_message=1M", "-o", "server.max_connections=4")
ENDS = {0, 69, 75}  # done, no broker, in time


def needed(rig):
    """What the broker says that it needs."""
    done = subprocess.run(["prlimit", f"--nofile={FEW}:{FEW}", rig.program("brokerd"), "--dev", "--listen",
                           f"unix://{rig.folder}/none.sock", *SMALL], capture_output=True, text=True,
                          timeout=30, check=False)
    said = re.search(rf"got ulimit -n {FEW}, allowed at least (\d+)", done.stderr)
    check(done.returncode == 78 and said, f"with {FEW} descriptors: {done.returncode} {done.stderr}")
    print(f"with {FEW} it does not start, and asks for {said.group(1)}", flush=True)
    return int(said.group(1))


def start_programs(rig, broker):
    urls = (broker.url, broker.broker.tcp_url, broker.broker.unix_url)
    return [rig.client("broker-ctl", "--url", urls[i % 3], "pub", "few.a", "--count", 1, "--size", 100,
                       "--timeout", 3, env=broker.env) for i in range(PROGRAMS)]


def crowd(visitor, count):
    """Sockets that stay; where the broker has no room for one, the kernel keeps it waiting."""
    kinds = (lambda: visitor.say(visitor.hello()), lambda: visitor.say(HELLO_OF_OURS, visitor.tcp),
             lambda: visitor.say(b""), lambda: visitor.say(visitor.hello()[:60]),
             lambda: visitor.say(HELLO_OF_OURS[:7], visitor.tcp))
    sockets = []
    for i in range(count):
        try:
            sockets.append(kinds[i % len(kinds)]())
        except OSError:  # refused is an answer, too
            pass
    return sockets


def one_round(rig, broker, visitor, count):
    """How many programs got in."""
    programs = start_programs(rig, broker)
    sockets = crowd(visitor, count - PROGRAMS)
    well = 0
    for program in programs:
        status = program.wait(60)
        check(status in ENDS and (status == 0 or program.log().strip()), f"{status}: {program.log()}")
        well += status == 0
        rig.forget(program)
    for peer in sockets:
        peer.close()
    return well


def works_soon(broker):
    until(20, lambda: broker.ctl("pub", "fine", "--count", 1, "--size", 10, "--timeout", 5)[0] == 0,
          "somebody honest gets in")


def rounds_of(rig, broker, visitor, what, rounds, count):
    lines, begin = len(broker.broker.log().splitlines()), time.monotonic()
    well = 0
    for _ in range(rounds):
        well += one_round(rig, broker, visitor, count)
        works_soon(broker)
        broker.broker.check_alive()
    took = time.monotonic() - begin
    lines = len(broker.broker.log().splitlines()) - lines
    check(lines <= 20 + 2 * took, f"the log is flooded: {lines} lines in {took:.0f} s")
    print(f"{what}: {rounds} rounds of {count} clients in {took:.0f} s, {well} of {rounds * PROGRAMS} programs "
          f"got in, {lines} lines of log", flush=True)


def test(rig, options):
    rounds, count = int(options.get("rounds", 3)), int(options.get("clients", 200))
    limit = needed(rig) + 8
    broker = Encrypted(rig, made(rig), *SMALL, "-o", "server.handshake_timeout=1s", "-o", "log.level=warn",
                       prefix=("prlimit", f"--nofile={limit}:{limit}"))
    broker.broker.ask("status")  # The one who asks stays connected.
    pair = rig.client("test-checker", f"{broker.url}?link=stream", f"{broker.url}?link=stream", "pair",
                      "--rate", "100", "--max", "20000", env=broker.env)
    pair.expect("ready")
    visitor, before = Visitor(broker, 1), standing(broker.broker)
    rounds_of(rig, broker, visitor, f"{limit} descriptors", rounds, count)
    until(20, lambda: standing(broker.broker) == before, "their descriptors are closed")
    used = len(os.listdir(f"/proc/{broker.broker.pid}/fd"))
    fewer = max(FEW, used + SPARE)
    resource.prlimit(broker.broker.pid, resource.RLIMIT_NOFILE, (fewer, limit))
    rounds_of(rig, broker, visitor, f"{fewer} descriptors, {used} in use", rounds, count)
    until(20, lambda: standing(broker.broker) == before, "their descriptors are closed again")
    pair.signal(signal.SIGTERM)
    report = pair.line(60)
    check(pair.wait() == 0, f"the pair: {report} {pair.log()}")
    print(f"the pair: {report}", flush=True)
    broker.broker.stop()


if __name__ == "__main__":
    main(test, 900)
