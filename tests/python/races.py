#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Closes, kills and forks beside calls of other threads: no crash, no hang, no wrong byte.

    races.py [--build DIR] [--package DIR] [--closes N] [--kills N] [--forks N] [--seconds S]

closes: of subscriptions and connections, beside next, publish, iterate and poll, so often each.
kills: of the broker by SIGKILL, under clients that publish and read, so often in each of both faces.
forks: with a thread in next; then multiprocessing by fork, spawn and forkserver.
seconds: eight threads on one connection, for so long.
Exit: 0 none, 1 some, 77 no package."""
import asyncio
import faulthandler
import hashlib
import itertools
import multiprocessing
import os
import random
import struct
import sys
import threading
import time

import program
from program import Failure

HANG = 60  # seconds after which a thread that should be back is lost
AT_ONCE = 16


def payload_of(number):
    """Bytes that tell by themselves whether they are whole."""
    body = struct.pack("<Q", number) * (1 + number % 500)
    return hashlib.blake2b(body, digest_size=16).digest() + body


def is_whole(data):
    """Are these bytes of payload_of?"""
    return hashlib.blake2b(data[16:], digest_size=16).digest() == data[:16]


class Crew:
    """Threads that call until their handle is closed."""

    def __init__(self, allowed):
        self.allowed, self.wrong, self.threads = allowed, [], []

    def work(self, call):
        def run():
            try:
                while True:
                    call()
            except self.allowed:
                pass
            except BaseException as error:  # pylint: disable=broad-exception-caught
                self.wrong.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.threads.append(thread)

    def end(self, seconds=HANG):
        end = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(0, end - time.monotonic()))
            if thread.is_alive():
                faulthandler.dump_traceback(all_threads=True)
                raise Failure("a thread hangs")
        if self.wrong:
            raise Failure(f"a thread ended with {self.wrong[0]!r}")


def checked(msg):
    """Takes a message apart, and gives it back."""
    if not is_whole(msg.tobytes()):
        raise Failure("wrong bytes")


def closes(given, ambroker, rig):
    """Each kind of call, beside a close of its subscription, publisher or connection."""
    url = rig.broker().url()
    dice = random.Random(1)
    with ambroker.connect(url) as other:
        feed = other.publisher("a")
        numbers = itertools.count()
        kinds = {
            "next": lambda conn, sub, pub: checked(sub.next(HANG)),
            "iterate": lambda conn, sub, pub: [checked(msg) for msg in sub] or sub.next(0),
            "publish": lambda conn, sub, pub: pub.send(payload_of(7), 0.05),
            "poll": lambda conn, sub, pub: conn.poll(HANG),
        }
        allowed = (ambroker.Closed, ambroker.WouldBlock, ambroker.Timeout)

        def one(name, number):
            conn = ambroker.connect(url)
            sub, pub = conn.subscribe("a", policy="drop_oldest"), conn.publisher("b")
            crew = Crew(allowed)
            for _ in range(2):
                crew.work(lambda: kinds[name](conn, sub, pub))
            feed.send(payload_of(next(numbers)))
            if number % 2:
                time.sleep(dice.random() / 1000)
            if number % 4 < 2 and name in ("next", "iterate"):
                sub.close()
            elif number % 4 < 2 and name == "publish":
                pub.close()
            try:
                conn.close(1)
            except (ambroker.Timeout, ambroker.Canceled):
                pass  # The close of a publisher cancels what has not left.
            crew.end()

        for name in kinds:
            began, left = time.monotonic(), iter(range(given.closes))
            closers = Crew((StopIteration,))
            for _ in range(AT_ONCE):  # A close waits for a slice of others' waits to end.
                closers.work(lambda n=name, rest=left: one(n, next(rest)))
            closers.end(3600)
            print(f"close beside {name}: {given.closes} times in {time.monotonic() - began:.1f} s", flush=True)


def kills(given, ambroker, rig):
    """A broker that is killed and replaced, under one connection that goes on."""
    broker = rig.broker()
    got, numbers = [0], itertools.count()
    conn = ambroker.connect(broker.url(), on_event=lambda event: None, reconnect_min=0.01, reconnect_max=0.05)
    sub, pub = conn.subscribe("a", policy="drop_oldest"), conn.publisher("a")

    def read():
        checked(sub.next())
        got[0] += 1

    def write():
        try:
            pub.send(payload_of(next(numbers)), 0.2)
        except (ambroker.Timeout, ambroker.WouldBlock, ambroker.Lost):
            pass

    crew = Crew((ambroker.Closed, ambroker.Stopped))
    crew.work(read)
    crew.work(write)
    for number in range(given.kills):
        former, end = got[0], time.monotonic() + HANG
        while got[0] <= former:  # It works again.
            if crew.wrong or time.monotonic() > end:
                raise Failure(f"after {number} kills: {crew.wrong or 'no message comes'}")
            time.sleep(0.005)
        broker.kill()
        broker = rig.broker(at=broker)
    conn.stop()
    try:
        conn.close(1)
    except ambroker.Error:
        pass
    crew.end()
    print(f"kill -9 of the broker: {given.kills} times, {got[0]} messages, none wrong", flush=True)


async def until(condition, crew):
    """Of tasks: until it is so, and nothing is wrong."""
    end = time.monotonic() + HANG
    while not condition():
        for task in crew:
            if task.done():
                raise Failure(f"a task ended: {task}")
        if time.monotonic() > end:
            raise Failure("asyncio: no message comes")
        await asyncio.sleep(0.005)


def aio_kills(given, ambroker, rig):
    """The same under tasks of an event loop, some of which are cancelled and begin anew."""
    got, numbers = [0], itertools.count()
    troubles = (ambroker.Timeout, ambroker.WouldBlock, ambroker.Lost)

    async def read(sub):
        while True:
            checked(await sub.next())
            got[0] += 1

    async def write(pub):
        while True:
            try:
                await pub.send(payload_of(next(numbers)), 0.2)
                await asyncio.sleep(0)
            except troubles:
                pass

    async def ask(conn):
        while True:
            try:
                await conn.request("nobody", b"?", timeout=0.5)
            except (*troubles, ambroker.NoResponders, ambroker.Unknown, ambroker.Expired):
                await asyncio.sleep(0.01)

    async def run(broker):
        conn = await ambroker.aio.connect(broker.url(), on_event=lambda event: None, reconnect_min=0.01,
                                          reconnect_max=0.05)
        sub, pub = await conn.subscribe("a", policy="drop_oldest"), await conn.publisher("a")
        crew = [asyncio.create_task(one) for one in (read(sub), write(pub), ask(conn))]
        for number in range(given.kills):
            former = got[0]
            await until(lambda former=former: got[0] > former, crew)
            broker.kill()
            if number % 4 == 0:  # A task that waits for what is gone.
                crew[0].cancel()
                await asyncio.wait(crew[:1])
                crew[0] = asyncio.create_task(read(sub))
            broker = await asyncio.to_thread(rig.broker, at=broker)
        former = got[0]
        await until(lambda: got[0] > former, crew)
        for task in crew:
            task.cancel()
        await asyncio.wait(crew)
        try:
            await conn.close(1)
        except ambroker.Error:
            pass  # The outcome of messages that were under way is unknown.

    asyncio.run(run(rig.broker()))
    print(f"kill -9 of the broker under asyncio: {given.kills} times, {got[0]} messages, none wrong", flush=True)


def in_child(url):
    """Of multiprocessing: a connection of its own."""
    import ambroker  # pylint: disable=import-outside-toplevel
    with ambroker.connect(url) as conn:
        sub = conn.subscribe("child")
        conn.publish("child", payload_of(3))
        return is_whole(sub.next(20).tobytes())


def forks(given, ambroker, rig):
    """Children by fork(2) while a thread waits; then those of multiprocessing."""
    url = rig.broker().url()
    with ambroker.connect(url) as conn:
        sub, pub = conn.subscribe("a"), conn.publisher("a")
        crew = Crew((ambroker.Closed, ambroker.Stopped))
        crew.work(lambda: checked(sub.next()))
        for number in range(given.forks):
            child = os.fork()
            if child == 0:
                said = 0
                for call in (lambda: pub.send(b"x"), lambda: sub.next(1), lambda: conn.publish("a", b""),
                             conn.stop, lambda: conn.close(0)):
                    try:
                        call()
                    except ambroker.Forked:
                        said += 1
                os._exit(said)
            pub.send(payload_of(number))
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status < 3:  # A stop and a close of a child may be nothing.
                raise Failure(f"fork {number}: the child ended with {status}")
        conn.stop()
        crew.end()
    print(f"fork with a thread in next: {given.forks} times", flush=True)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(given.package), *sys.path[:1]])
    for way in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(way).Pool(2) as pool:
            if not all(pool.map_async(in_child, [url] * 4).get(HANG)):
                raise Failure(f"{way}: wrong bytes")
        print(f"multiprocessing by {way}: 4 connections", flush=True)


def threads(given, ambroker, rig):
    """Eight on one connection: two publish, two read, one asks, one polls, one makes and closes, one answers."""
    url = rig.broker().url()
    conn = ambroker.connect(url, on_event=lambda event: None)
    end = time.monotonic() + given.seconds
    crew, got, lock = Crew((StopIteration,)), [0], threading.Lock()
    subs = [conn.subscribe("a", group="both") for _ in range(2)]
    questions = conn.subscribe("question")
    pub = conn.publisher("a")

    def until(call):
        def run():
            if time.monotonic() > end:
                raise StopIteration
            try:
                call()
            except (ambroker.Timeout, ambroker.WouldBlock):
                pass
        return run

    def read(sub):
        for msg in sub.next_many(64, 0.5):
            checked(msg)
            with lock:
                got[0] += 1

    def answer():
        question = questions.next(0.5)
        question.reply(question)

    def ask():
        if not is_whole(conn.request("question", payload_of(5), 20).tobytes()):
            raise Failure("a wrong reply")

    def make():
        conn.subscribe("other").close()
        conn.publisher("other").close()

    numbers = itertools.count()
    for call in (lambda: read(subs[0]), lambda: read(subs[1]), answer, ask, make, lambda: conn.poll(0.1),
                 lambda: pub.send(payload_of(next(numbers)), 1), lambda: pub.send(payload_of(next(numbers)), 1)):
        crew.work(until(call))
    time.sleep(max(0, end - time.monotonic()))
    crew.end()
    try:
        conn.close(5)
    except ambroker.Timeout:
        pass
    if not got[0]:
        raise Failure("eight threads: nothing was read")
    print(f"eight threads on one connection: {given.seconds:g} s, {got[0]} messages", flush=True)


def main():
    given = program.options(__doc__, closes=10000, kills=200, forks=200, seconds=60.0)
    faulthandler.enable()
    ambroker = program.module(given)
    with program.rig(given, 7200) as rig:
        forks(given, ambroker, rig)
        closes(given, ambroker, rig)
        kills(given, ambroker, rig)
        aio_kills(given, ambroker, rig)
        threads(given, ambroker, rig)
    print("0 crashes, 0 hangs, 0 wrong bytes")


if __name__ == "__main__":
    program.run(main)
