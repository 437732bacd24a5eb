#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at random moments in each call that waits: KeyboardInterrupt within 0.25 s each time, the next call
works, and nothing is left behind: no descriptor, mapping, thread or block of Python's.

    interrupt.py [--build DIR] [--package DIR] [--rounds N] [--late SECONDS] [--seed N]

Half of the rounds are in the synchronous face, half in asyncio where the package has it.
Exit: 0 so it is, 1 it is not, 77 no package."""
import array
import asyncio
import gc
import linecache
import os
import random
import signal
import subprocess
import sys
import threading
import time

import program
from program import Failure

PROMISED = 0.25
LARGE = bytes(1 << 20)
LONGEST = 0.05  # before the signal
KEPT_MAX = 8  # threads that ambroker.aio keeps for its next calls
LONG = (1.05, 1.3)  # ... of one round in twenty: after a second the slices of a wait are longer
# Beside this one, so that neither the GIL nor a busy thread delays it: prints when it has sent. The time
# is that behind the call: whatever keeps this process before it is not the fault of ours.
SENDER = """
import os, signal, sys, time
for line in sys.stdin:
    time.sleep(float(line))
    os.kill(os.getppid(), signal.SIGINT)
    print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)
"""


class Interrupter:
    """Sends SIGINT after a while, and knows how long ago that was."""

    def __init__(self):
        self.child = subprocess.Popen([sys.executable, "-c", SENDER], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.begin()

    def after(self, seconds):
        self.child.stdin.write(f"{seconds}\n")
        self.child.stdin.flush()

    def begin(self):
        self.lates, self.latest = array.array("d"), (0.0, "")  # No object a round: blocks are counted.

    def measure(self, name):
        late = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - int(self.child.stdout.readline())) / 1e9
        self.lates.append(late)
        self.latest = max(self.latest, (late, name))
        return late

    def close(self):
        self.child.stdin.close()
        self.child.wait(10)
        self.child.stdout.close()


def moment(dice, number):
    return dice.uniform(*LONG) if number % 20 == 0 else dice.uniform(0, LONGEST)


def post(conn):
    """A publisher whose payload is on its way."""
    pub = conn.publisher("closed")
    pub.post(LARGE)
    return pub


def waits(ambroker, conn, url):
    """Calls that wait, by name; each is done again until the signal ends it."""
    sub = conn.subscribe("quiet")
    full = conn.publisher("full", confirm="delivered", window_msgs=8)
    stuck = conn.subscribe("full", credit_msgs=1, policy="block")  # Nobody reads it.
    calls = {
        "next": lambda: sub.next(None),
        "next with a timeout": lambda: sub.next(30),
        "next_many": lambda: sub.next_many(10, None),
        "for": lambda: list(sub),
        "send": lambda: full.send(b"x" * 1000),
        "send of 1 MiB": lambda: full.send(LARGE),
        "send_many": lambda: full.send_many([b"x" * 1000, LARGE]),
        "flush": lambda: full.flush(None),
        "wait_subscribers": lambda: conn.publisher("alone").wait_subscribers(1, None),
        "request": lambda: conn.request("quiet", b"?", None),
        "poll": lambda: conn.poll(None),
        "admin": lambda: conn.admin("status"),
        "connect and close": lambda: ambroker.connect(url).close(),
        "subscribe and close": lambda: conn.subscribe("other").close(),
        "post and close": lambda: post(conn).close(),
        "post and leave": lambda: post(conn).__exit__(None, None, None),
    }
    return calls, (sub, full, stuck)


def ended(name, call, interrupter, after):
    """Runs the call again and again until Ctrl-C; how late that was."""
    try:
        interrupter.after(after)
        while True:
            call()
    except KeyboardInterrupt:
        return interrupter.measure(name)


def still_works(conn, sub, number):
    """After an interrupted call."""
    payload = b"%d" % number
    conn.publish("check", payload)
    got = bytes(sub.next(20))
    if got != payload:
        raise Failure(f"after round {number}: {got} instead of {payload}")


def synchronous(given, ambroker, url, interrupter, dice):
    with ambroker.connect(url, name="interrupted") as conn:
        calls, kept = waits(ambroker, conn, url)
        check = conn.subscribe("check")
        names = sorted(calls)
        for number in range(given.rounds):
            name = names[number % len(names)]
            late = ended(name, calls[name], interrupter, moment(dice, number))
            if late > given.late:
                raise Failure(f"{name}: KeyboardInterrupt came {late:.3f} s late")
            still_works(conn, check, number)
            if name in ("request", "next", "next with a timeout", "next_many", "for"):
                program.drain(ambroker, kept[0])  # Nobody has answered the questions, which are messages there.
        kept[2].close()  # The full topic drains.
        conn.close(0)


def asynchronous(given, aio, url, interrupter, dice):
    """asyncio.run turns Ctrl-C into a cancelled task, and raises when that has ended."""
    begun = []

    async def work(wait):
        begun.append(None)
        async with aio.connect(url, name="interrupted-aio") as conn:
            sub = await conn.subscribe("quiet-aio")
            if wait == "next":
                await sub.next()
            elif wait == "for":
                async for _ in sub:
                    pass
            elif wait == "request":
                await sub.close()
                lonely = await conn.subscribe("lonely")
                await conn.request("lonely", b"?", timeout=None)
                await lonely.close()
            elif wait == "post and close":
                while True:
                    pub = await conn.publisher("closed")
                    await pub.post(LARGE)
                    await pub.close()
            else:
                await asyncio.sleep(60)

    kinds = ("next", "for", "request", "post and close", "sleep")
    for number in range(given.rounds):
        kind = kinds[number % len(kinds)]
        try:
            interrupter.after(moment(dice, number))
            asyncio.run(work(kind))
            raise Failure(f"asyncio: {kind} came back")
        except KeyboardInterrupt:
            late = interrupter.measure(kind)
        except asyncio.CancelledError:  # asyncio.run forgets a signal that comes just before it runs its task.
            if begun:
                raise
            late = interrupter.measure(kind)
        begun.clear()
        # Leaving the connection is part of it: its flush has a timeout of its own.
        if late > given.late:
            raise Failure(f"asyncio: {kind}: KeyboardInterrupt came {late:.3f} s late")


def state():
    """What must not grow."""
    linecache.clearcache()  # of a traceback that was printed
    gc.collect()
    kept = sum(thread.name == "ambroker" for thread in threading.enumerate())
    return {"descriptors": program.descriptors(), "mappings": program.mappings(),
            "threads": threading.active_count() - kept, "kept": kept, "blocks": sys.getallocatedblocks()}


def compare(before, after, rounds):
    for name in ("descriptors", "mappings", "threads"):
        if after[name] > before[name]:
            raise Failure(f"{name}: {before[name]} before, {after[name]} after")
    if after["kept"] > KEPT_MAX:
        raise Failure(f"{after['kept']} threads of ambroker.aio, which keeps {KEPT_MAX}")
    if after["blocks"] - before["blocks"] > 500 + rounds:  # Less than one a round.
        raise Failure(f"blocks of Python: {before['blocks']} before, {after['blocks']} after")


def settle(before):
    """A connection that was interrupted in its making ends when its thread does."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        after = state()
        are_over = all(after[name] <= before[name] for name in ("descriptors", "mappings", "threads"))
        if are_over and after["kept"] <= KEPT_MAX:
            return after
        time.sleep(0.05)
    return state()


def main():
    given = program.options(__doc__, rounds=500, late=PROMISED, seed=int.from_bytes(os.urandom(4), "little"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ambroker, aio = program.module(given), program.module(given, "ambroker.aio")
    dice = random.Random(given.seed)
    print(f"seed {given.seed}")
    with program.rig(given, 1500) as rig:
        url = rig.broker().url()
        interrupter = Interrupter()
        faces = [("synchronous", lambda: synchronous(given, ambroker, url, interrupter, dice))]
        if aio is not None:
            faces.append(("asyncio", lambda: asynchronous(given, aio, url, interrupter, dice)))
        else:
            print("asyncio: the package has none")
        for name, face in faces:
            rounds, given.rounds = given.rounds, 20
            face()  # What is made once is made.
            given.rounds = rounds
            interrupter.begin()
            before = state()
            face()
            after = settle(before)
            compare(before, after, rounds)
            lates = sorted(interrupter.lates)
            print(f"{name}: {rounds} times KeyboardInterrupt, at most {lates[-1] * 1000:.1f} ms late "
                  f"({interrupter.latest[1]}), half of them {lates[rounds // 2] * 1000:.1f}, "
                  f"{sum(late > 0.1 for late in lates)} more than 100, "
                  f"{sum(late > PROMISED for late in lates)} more than {PROMISED * 1000:.0f}; "
                  f"{before} before, {after} after", flush=True)
        interrupter.close()


if __name__ == "__main__":
    program.run(main)
