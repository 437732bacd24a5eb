#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One process of a run: writes, reads, asks or echoes, as run.py says in one line of JSON. For run.py alone.

    party.py SPEC

SPEC: answer (a path, for one line of JSON), role, system, form (sync, aio), way (call, many, lease), workload, size,
window, slot, readers (the slots of those who read what it writes), slots, board (its path), address (of the system).
"""
import asyncio
import json
import os
import sys
import time

import numpy

import gauge
import systems
from board import (Board, DONE, END, GIL, HEARD, HELLO, MEASURE, READY, RING, STOP, WAIT, Payloads, Tally)

BATCH = 512  # messages of one call, where a call takes many
_AGAIN_SECONDS = 0.02  # between two greetings
_PAUSE_SECONDS = 50e-6  # of a writer whose window is full


class Party:
    """What the roles share."""

    def __init__(self, spec):
        self.spec = spec
        self.board = Board(spec["board"], spec["slots"])
        self.payloads = Payloads(spec["size"])
        self.readers = spec["readers"]
        self.slot = spec["slot"]
        self.way = spec["way"]
        self.touch = spec["workload"] == "pubsub"
        self.window = spec["window"]
        self.step = max(1, min(RING, self.window // 8))
        self.tally = Tally(self.payloads, self.touch)
        self.board.put(self.slot, GIL, gauge.gil_address())

    def special(self, writer, value):
        """HELLO or END as the system sends it."""
        if self.payloads.is_small:
            return self.payloads.special(value)
        words = numpy.zeros(self.spec["size"] // 8, "u8")
        words[0] = value
        return writer.wrap(words)

    def buffers(self, writer):
        """(arrays of words, the same as payloads): as many as may be out at a time, if they are lent."""
        count = self.window + 1 if writer.borrows else 1
        arrays = [numpy.zeros(self.spec["size"] // 8, "u8") for _ in range(count)]
        return arrays, [writer.wrap(array) for array in arrays]

    def told(self, value):
        """Has every reader heard the special message?"""
        return self.board.all(self.readers, HEARD if value == HELLO else DONE)

    def write(self, array, seq):
        """Fills a large payload; a hand-over has its sequence alone."""
        if self.touch:
            self.payloads.fill(array, seq)
        else:
            array[0] = seq

    def check(self, reader, data):
        """One message that is no plain small one."""
        if self.payloads.is_small:
            self.tally.odd(data)
        else:
            self.tally.large(reader.words_of(data))
        if self.tally.heard:
            self.board.put(self.slot, HEARD, 1)
            self.tally.heard = False


# ---- one way: writers ----

def write_sync(party, writer):
    board, payloads = party.board, party.payloads
    greet_sync(party, writer)
    arrays, wrapped = ([], []) if payloads.is_small else party.buffers(writer)
    sent = 0
    while (room := board.room(sent, party.readers, party.window)) is not None:
        if room <= sent:
            time.sleep(_PAUSE_SECONDS)
            continue
        if not payloads.is_small:
            for seq in range(sent, room):
                write_large_sync(party, writer, seq, arrays, wrapped)
        elif party.way == "many":
            for seq in range(sent, room, BATCH):
                at = seq % RING
                writer.send_many(payloads.twice[at:at + min(BATCH, room - seq)])
        else:
            at, send = sent % RING, writer.send
            for payload in payloads.twice[at:at + room - sent]:
                send(payload)
        writer.burst()
        sent = room
    board.sent = sent
    tell_sync(party, writer, END)


def write_large_sync(party, writer, seq, arrays, wrapped):
    if party.way == "lease":
        with writer.lease(party.spec["size"] // 8) as array:
            party.write(array, seq)
        return
    at = seq % len(arrays)
    party.write(arrays[at], seq)
    writer.send(wrapped[at])


def greet_sync(party, writer):
    """Once all are there."""
    while party.board.state == WAIT:
        time.sleep(0.001)
    tell_sync(party, writer, HELLO)


def tell_sync(party, writer, value):
    """Says it until everybody has heard it."""
    payload = party.special(writer, value)
    while not party.told(value):
        writer.send(payload)
        writer.burst()
        time.sleep(_AGAIN_SECONDS)


async def write_aio(party, writer):
    board, payloads = party.board, party.payloads
    await greet_aio(party, writer)
    arrays, wrapped = ([], []) if payloads.is_small else party.buffers(writer)
    sent = 0
    while (room := board.room(sent, party.readers, party.window)) is not None:
        if room <= sent:
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        if not payloads.is_small:
            for seq in range(sent, room):
                await write_large_aio(party, writer, seq, arrays, wrapped)
        elif party.way == "many":
            for seq in range(sent, room, BATCH):
                at = seq % RING
                await writer.send_many(payloads.twice[at:at + min(BATCH, room - seq)])
        else:
            at, send = sent % RING, writer.send
            for payload in payloads.twice[at:at + room - sent]:
                await send(payload)
        await writer.burst()
        sent = room
    board.sent = sent
    await tell_aio(party, writer, END)


async def write_large_aio(party, writer, seq, arrays, wrapped):
    if party.way == "lease":
        async with writer.lease(party.spec["size"] // 8) as array:
            party.write(array, seq)
        return
    at = seq % len(arrays)
    party.write(arrays[at], seq)
    await writer.send(wrapped[at])


async def greet_aio(party, writer):
    while party.board.state == WAIT:
        await asyncio.sleep(0.001)
    await tell_aio(party, writer, HELLO)


async def tell_aio(party, writer, value):
    payload = party.special(writer, value)
    while not party.told(value):
        await writer.send(payload)
        await writer.burst()
        await asyncio.sleep(_AGAIN_SECONDS)


# ---- one way: readers ----

def read_sync(party, reader):
    if not party.payloads.is_small:
        read_large_sync(party, reader)
    elif party.way == "many" and reader.recv_many is not None:
        read_many_sync(party, reader)
    else:
        read_small_sync(party, reader)
    return finish(party)


def read_small_sync(party, reader):
    tally, recv, bytes_of = party.tally, reader.recv, reader.bytes_of
    while not tally.is_over:
        chunk = party.payloads.twice[tally.at:tally.at + party.step]
        due = iter(chunk)
        data = None
        if bytes_of is None:
            for payload in due:
                data = recv()
                if data != payload:
                    break
            else:
                data = None
        else:
            for payload in due:
                data = bytes_of(recv())
                if data != payload:
                    break
            else:
                data = None
        after_chunk(party, reader, chunk, due, data)


def after_chunk(party, reader, chunk, due, odd):
    """Counts a chunk that was as it should be, or was up to one message."""
    if odd is None:
        party.tally.took(len(chunk))
    else:
        party.tally.small(due, chunk)
        party.check(reader, odd)
    party.board.count(party.slot, party.tally.received)


def read_many_sync(party, reader):
    while not party.tally.is_over:
        took_many(party, reader, reader.recv_many(BATCH))


def took_many(party, reader, batch):
    tally, bytes_of = party.tally, reader.bytes_of
    datas = batch if bytes_of is None else list(map(bytes_of, batch))
    if datas == party.payloads.twice[tally.at:tally.at + len(datas)]:
        tally.took(len(datas))
    else:
        for data in datas:
            if data == party.payloads.ring[tally.at]:
                tally.took(1)
            else:
                party.check(reader, data)
    party.board.count(party.slot, tally.received)


def read_large_sync(party, reader):
    while not party.tally.is_over:
        party.check(reader, reader.recv())
        party.board.count(party.slot, party.tally.received)


async def read_aio(party, reader):
    if not party.payloads.is_small:
        await read_large_aio(party, reader)
    elif party.way == "many" and reader.recv_many is not None:
        while not party.tally.is_over:
            took_many(party, reader, await reader.recv_many(BATCH))
    else:
        await read_small_aio(party, reader)
    return finish(party)


async def read_small_aio(party, reader):
    tally, recv, bytes_of = party.tally, reader.recv, reader.bytes_of
    while not tally.is_over:
        chunk = party.payloads.twice[tally.at:tally.at + party.step]
        due = iter(chunk)
        data = None
        for payload in due:
            data = await recv()
            if bytes_of is not None:
                data = bytes_of(data)
            if data != payload:
                break
        else:
            data = None
        after_chunk(party, reader, chunk, due, data)


async def read_large_aio(party, reader):
    while not party.tally.is_over:
        party.check(reader, await reader.recv())
        party.board.count(party.slot, party.tally.received)


def finish(party):
    party.board.put(party.slot, DONE, 1)
    return party.tally.end(party.board.sent)


# ---- there and back ----

def seq_of(party, reader, data):
    if party.payloads.is_small:
        data = data if reader.bytes_of is None else reader.bytes_of(data)
        return int.from_bytes(data[:8], "little")
    return int(reader.words_of(data)[0])


class Turns:
    """The measured side of a ping-pong: what goes, times of round trips, and whether each came back as it went."""

    def __init__(self, party, writer, reader):
        self.party, self.board, self.reader, self.slot = party, party.board, reader, party.slot
        self.array = None if party.payloads.is_small else numpy.zeros(party.spec["size"] // 8, "u8")
        self.payload = None if self.array is None else writer.wrap(self.array)
        self.out = None  # the sequence that is under way
        self.times = []
        self.turns = self.damaged = 0

    def next(self):
        """The payload of the next turn."""
        if self.array is None:
            self.out = self.turns % RING
            return self.party.payloads.ring[self.out]
        self.array[0] = self.out = self.turns
        return self.payload

    def is_back(self, data):
        """Is it what went out? A greeting is not, and is passed over."""
        back = seq_of(self.party, self.reader, data)
        if back == HELLO:
            self.board.put(self.slot, HEARD, 1)
            return False
        self.damaged += back != self.out
        return True

    def took(self, nanoseconds):
        if self.board.state == MEASURE:
            self.times.append(nanoseconds)
        self.turns += 1
        if self.turns % 16 == 0:
            self.board.count(self.slot, self.turns)

    def result(self):
        times = sorted(self.times)

        def at(share):
            return round(times[min(len(times) - 1, int(share * len(times)))] / 2000, 2) if times else None

        return {"p50_us": at(.5), "p99_us": at(.99), "p999_us": at(.999), "turns": len(times),
                "damaged": self.damaged, "lost": 0, "disordered": 0}


def ping_sync(party, writer, reader):
    board, turns, clock = party.board, Turns(party, writer, reader), time.perf_counter_ns
    greet_sync(party, writer)
    while not board.get(party.slot, HEARD):
        turns.is_back(reader.recv())
    while board.state != STOP:
        payload = turns.next()
        before = clock()
        writer.send(payload)
        data = reader.recv()
        after = clock()
        while not turns.is_back(data):
            data = reader.recv()
        del data
        turns.took(after - before)
    board.sent = turns.turns
    tell_sync(party, writer, END)
    return turns.result()


def echo_sync(party, writer, reader):
    """Sends back what it gets, as it got it; a greeting makes it greet until that is heard."""
    while True:
        data = reader.recv()
        seq = seq_of(party, reader, data)
        if seq == END:
            return finish(party)
        if seq == HELLO:
            party.board.put(party.slot, HEARD, 1)
            tell_sync(party, writer, HELLO)
            continue
        writer.send(reader.forward(data))
        writer.burst()
        party.tally.received += 1


async def ping_aio(party, writer, reader):
    board, turns, clock = party.board, Turns(party, writer, reader), time.perf_counter_ns
    await greet_aio(party, writer)
    while not board.get(party.slot, HEARD):
        turns.is_back(await reader.recv())
    while board.state != STOP:
        payload = turns.next()
        before = clock()
        await writer.send(payload)
        data = await reader.recv()
        after = clock()
        while not turns.is_back(data):
            data = await reader.recv()
        del data
        turns.took(after - before)
    board.sent = turns.turns
    await tell_aio(party, writer, END)
    return turns.result()


async def echo_aio(party, writer, reader):
    while True:
        data = await reader.recv()
        seq = seq_of(party, reader, data)
        if seq == END:
            return finish(party)
        if seq == HELLO:
            party.board.put(party.slot, HEARD, 1)
            await tell_aio(party, writer, HELLO)
            continue
        await writer.send(reader.forward(data))
        await writer.burst()
        party.tally.received += 1


# ---- ----

ROLES = {"pub": "w", "sub": "r", "ping": "wr", "echo": "wr"}
SYNC = {"pub": write_sync, "sub": read_sync, "ping": ping_sync, "echo": echo_sync}
AIO = {"pub": write_aio, "sub": read_aio, "ping": ping_aio, "echo": echo_aio}
TOPICS = {"ping": ("there", "back"), "echo": ("back", "there")}  # (written, read)


def ends_of(party):
    """(topic to write or None, topic to read or None)"""
    role = party.spec["role"]
    written, read = TOPICS.get(role, ("there", "there"))
    ends = ROLES[role]
    return (written if "w" in ends else None), (read if "r" in ends else None)


def main(spec):
    party, role = Party(spec), spec["role"]
    written, read = ends_of(party)
    if spec["form"] == "aio":
        asyncio.run(run_aio(party, written, read))
    else:
        client = systems.client(spec["system"], "sync")(spec)
        if spec["workload"] == "send_recv" and hasattr(client, "pair"):
            ends = client.pair(role, spec["size"])
        else:
            ends = [end for end in (written and client.writer(written), read and client.reader(read)) if end]
        party.board.put(party.slot, READY, 1)
        say(spec, SYNC[role](party, *ends))
        client.close()


def say(spec, answer):
    """Before the client is closed, which some systems do not survive."""
    with open(spec["answer"] + ".part", "w", encoding="utf-8") as file:
        json.dump(answer or {}, file)
    os.replace(spec["answer"] + ".part", spec["answer"])


async def run_aio(party, written, read):
    client = systems.client(party.spec["system"], "aio")(party.spec)
    await client.open()
    spec = party.spec
    if spec["workload"] == "send_recv" and hasattr(client, "pair"):
        ends = await client.pair(spec["role"], spec["size"])
    else:
        ends = [await make(topic) for make, topic in ((client.writer, written), (client.reader, read)) if topic]
    party.board.put(party.slot, READY, 1)
    say(spec, await AIO[spec["role"]](party, *ends))
    await client.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
