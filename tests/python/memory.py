#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Messages of each kind leave no memory behind; and each allocation of the extension may fail.

    memory.py [--build DIR] [--package DIR] [--messages N] [--most N]

messages: of each kind, after which this process and Python's heap are as large as before.
most: each call is made with its 1st, 2nd, ... allocation failing, until it makes no further one, or up to this
one: of Python's allocators, and of malloc where the extension calls it. It raises MemoryError or works, and the
next call works.
Exit: 0 so it is, 1 it is not, 77 no package."""
import ctypes
import gc
import os
import pickle
import subprocess
import sys

import program
from program import Failure

GROWN = 8 << 20  # bytes, of the heap's unevenness
BLOCKS = 300
IN_A_ROW = 25  # that change nothing: Python's allocators do not tell whether there was a further one


def kinds(ambroker, conn):
    """What is done, by name: each call sends, and takes what it sent."""
    sub, pub = conn.subscribe("a", trust_pickle=True), conn.publisher("a")
    lands = conn.subscribe("landed", into={"host": lambda size, msg: bytearray(size)})
    asked = conn.subscribe("question")
    flat = bytes(3000)
    image = memoryview(bytearray(4096)).cast("f", shape=[32, 32])

    def lease():
        with pub.lease((16, 16), "f4") as array:
            array[0, 0] = 1
        return sub.next(20)

    def post():
        pub.post(bytearray(2000))
        msg = sub.next(20)
        pub.flush(20)
        return msg

    def request():
        pending = conn._conn.request_post("question", b"?", 20)
        asked.next(20).reply(b"!")
        while not pending.done:
            conn.poll(0.1)
        return pending.result(False)

    def views():
        pub.send(image, key="k")
        msg = sub.next(20)
        return [memoryview(msg), msg.data, msg.__array_interface__, msg.__dlpack__(max_version=(1, 0)),
                msg.unflagged.__dlpack__(), msg.read(4, 8), msg.topic, msg.key, msg.tobytes()]

    def detached():
        pub.send(image, props={"a": 1})
        msg = sub.next(20)
        return [msg.detach().tobytes(), msg.array]

    def landed():
        conn.publish("landed", b"x" * 500)
        return lands.next(20)

    def objects():
        pub.send_object({"a": [1.5, pickle.PickleBuffer(flat)]})
        return sub.next(20).object()

    def many():
        pub.send_many([b"x", b"y"])
        got = sub.next_many(2, 20)
        return got if len(got) == 2 else got + [sub.next(20)]

    def props():
        conn.publish("a", b"x", props={"text": "t", "bytes": b"b", "int": 7}, content_type="c", ttl=5)
        return sub.next(20).props

    def handles():
        conn.subscribe("b").close()
        conn.publisher("b").close()

    def refused():
        for wrong in ("text", object(), memoryview(bytes(8))[::2]):
            try:
                pub.send(wrong)
            except (TypeError, ValueError):
                pass

    return {"send": lambda: (pub.send(b"x"), sub.next(20))[1], "views": views, "props": props, "many": many,
            "detached": detached, "into": landed, "objects": objects,
            "lease": lease, "post": post, "request": request, "refused": refused, "handles": handles,
            "stat": lambda: (pub.stat(), sub.stat(), sub.position(), conn.admin("status"))}, sub


def flat(given, ambroker, conn):
    """Memory after many messages."""
    calls, _ = kinds(ambroker, conn)
    for name, call in calls.items():
        rounds = given.messages // (20 if name in ("stat", "handles", "request") else 1)
        for _ in range(min(2000, rounds)):
            call()
        gc.collect()
        blocks, memory = sys.getallocatedblocks(), program.resident()
        for _ in range(rounds):
            call()
        gc.collect()
        more, grown = sys.getallocatedblocks() - blocks, program.resident() - memory
        if more > BLOCKS or grown > GROWN:
            raise Failure(f"{name}: {more} blocks and {grown >> 10} KiB more after {rounds} rounds")
        print(f"{name}: {rounds} rounds, {more} blocks and {grown >> 10} KiB more", flush=True)


def code_of(path):
    """The addresses of a library's code."""
    with open("/proc/self/maps", encoding="ascii") as file:
        for line in file:
            if line.rstrip().endswith(os.path.realpath(path)) and " r-xp " in line:
                return tuple(int(word, 16) for word in line.split()[0].split("-"))
    raise Failure(f"{path} is not mapped")


def one_failing(ambroker, call, begin, end):
    """Whether the call came through, with a failure planned."""
    begin()
    try:
        call()
        worked = True
    except (MemoryError, ambroker.NoMemory):
        worked = False
    except RuntimeError as error:  # How Python says it of a lock.
        if "allocate lock" not in str(error):
            raise
        worked = False
    finally:
        end()
    return worked


def pythons():
    """How the Nth allocation of Python's is made to fail, and no more after that."""
    import _testcapi  # pylint: disable=import-outside-toplevel
    return lambda number: _testcapi.set_nomemory(number - 1, number), _testcapi.remove_mem_hooks


def mallocs(ambroker):
    """The same of the extension's own. The end tells how many have failed by now."""
    library = ctypes.PyDLL(None)
    library.failing_set.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_long]
    library.failing_set.restype = ctypes.c_long
    low, high = code_of(ambroker._amb.__file__)
    return lambda number: library.failing_set(low, high, number), lambda: library.failing_set(0, 0, 0)


def each_failing(given, ambroker, call, clean, way):
    """(how many allocations were tried, how often MemoryError came) of one call."""
    begin, end = way
    raised, latest, number = 0, 0, 0
    while number < given.most and number - latest < IN_A_ROW:
        number += 1
        before = end()
        has_raised = not one_failing(ambroker, call, lambda n=number: begin(n), end)
        raised += has_raised
        if has_raised or (before is not None and end() > before):
            latest = number
        clean()
    return number, raised


def failing(given, ambroker, conn):
    """Each call with its Nth allocation failing."""
    calls, sub = kinds(ambroker, conn)
    plain = conn.subscribe("check")
    ways = {"Python's": pythons(), "malloc": mallocs(ambroker)}
    for name, call in calls.items():
        call()
        program.drain(ambroker, sub)
        said = []
        for way, both in ways.items():
            tried, raised = each_failing(given, ambroker, call, lambda: program.drain(ambroker, sub), both)
            said.append(f"{way} 1 to {tried}, MemoryError {raised} times")
            if way == "Python's" and not raised:
                raise Failure(f"{name}: no allocation failed")
        conn.publish("check", b"whole")
        if bytes(plain.next(20)) != b"whole":
            raise Failure(f"{name}: the connection is hurt")
        print(f"{name}: {'; '.join(said)}", flush=True)


def main():
    given = program.options(__doc__, messages=1000000, most=3000, url="")
    ambroker = program.module(given)
    if given.url:  # The child that may crash.
        with ambroker.connect(given.url, on_event=lambda event: None) as conn:
            failing(given, ambroker, conn)
        return
    with program.rig(given, 3600) as rig:
        url = rig.broker().url()
        with ambroker.connect(url, on_event=lambda event: None) as conn:
            flat(given, ambroker, conn)
        shim = given.build.resolve() / "tests" / "libpython-failing.so"
        if "LD_PRELOAD" in os.environ or not shim.exists():
            print("failing allocations: not with sanitizers")
            return
        words = [sys.executable, "-X", "faulthandler", __file__, "--build", str(given.build), "--package",
                 str(given.package), "--most", str(given.most), "--url", url]
        done = subprocess.run(words, env={**os.environ, "LD_PRELOAD": str(shim)}, check=False, timeout=3000)
        if done.returncode != 0:
            raise Failure(f"the child with failing allocations ended with {done.returncode}")


if __name__ == "__main__":
    program.run(main)
