# SPDX-License-Identifier: Apache-2.0
"""How the workers of merge.py exchange partitions. swap([left, right]), each a list of (keys, values) by worker, gives the
same shape: what the others had for this one."""
import asyncio
import contextlib
import json
import os
import pathlib
import time

import numpy

from systems import ours
from systems.common import System, free_port

_OPEN_SECONDS = 30


@contextlib.contextmanager
def server(exchange, folder, options):
    if exchange.startswith("ambroker"):
        with ours.server(System("ambroker", "ours"), folder, options) as answer:
            yield answer
    else:
        yield {}, []


def make(spec):
    """The worker's side."""
    name = spec["exchange"]
    if name == "ambroker":
        return Topics(spec)
    return (Ucxx if name.startswith("ucxx") else Comms)(spec)


def _flat(pair):
    """A pair as one message: the keys, then the values."""
    return numpy.concatenate(pair)


def _pair(words):
    return words[:len(words) // 2], words[len(words) // 2:]


class Topics:
    """A topic for each worker, and side: the publishers write in leased memory."""

    def __init__(self, spec):
        self._spec, self._me = spec, spec["worker"]
        self._pubs, self._subs = {}, []

    async def open(self):
        import ambroker  # pylint: disable=import-outside-toplevel

        self._conn = await ambroker.aio.connect(self._spec["address"]["url"])
        options = {"policy": "block", "block": 60}
        self._subs = [await self._conn.subscribe(f"{self._me}.{side}", **options) for side in (0, 1)]
        for other in range(self._spec["workers"]):
            if other != self._me:
                for side in (0, 1):
                    self._pubs[other, side] = await self._conn.publisher(f"{other}.{side}")
                    await self._pubs[other, side].wait_subscribers(1, _OPEN_SECONDS)

    async def swap(self, out):
        got = [[out[side][self._me]] for side in (0, 1)]
        for (other, side), pub in self._pubs.items():
            keys, values = out[side][other]
            async with pub.lease(2 * len(keys), "i8") as words:
                words[:len(keys)], words[len(keys):] = keys, values
        for side in (0, 1):
            for _ in range(self._spec["workers"] - 1):
                msg = await self._subs[side].next()
                got[side].append(_pair(numpy.asarray(msg)))
        return got


class Paired:
    """An end to each other worker: the one with the lower number listens. Addresses are files in the folder."""

    def __init__(self, spec):
        self.spec, self.me, self.workers = spec, spec["worker"], spec["workers"]
        self.ends = {}

    def _file(self, worker):
        return pathlib.Path(self.spec["folder"]) / f"address{worker}"

    def say_address(self, address):
        part = self._file(self.me).with_suffix(".part")
        part.write_text(json.dumps(address), encoding="utf-8")
        part.rename(self._file(self.me))

    async def address_of(self, worker):
        deadline = time.monotonic() + _OPEN_SECONDS
        while not self._file(worker).exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"worker {worker} does not listen")
            await asyncio.sleep(0.01)
        return json.loads(self._file(worker).read_text(encoding="utf-8"))

    async def all_there(self):
        while len(self.ends) < self.workers - 1:
            await asyncio.sleep(0.005)

    async def swap(self, out):
        sends = [asyncio.ensure_future(self.put(other, [out[side][other] for side in (0, 1)])) for other in self.ends]
        parts = await asyncio.gather(*(self.take(other) for other in self.ends))
        await asyncio.gather(*sends)
        return [[out[side][self.me], *(part[side] for part in parts)] for side in (0, 1)]


class Comms(Paired):
    """Dask's Comms: tcp://, or ours over channels."""

    async def open(self):
        if self.spec["exchange"] == "dask-tcp":
            from distributed import comm  # pylint: disable=import-outside-toplevel

            listener = await comm.listen("tcp://127.0.0.1:0", self._came)
            self.say_address(listener.contact_address)
            connect = comm.connect
        else:
            import comm as channels  # pylint: disable=import-outside-toplevel

            url = self.spec["address"]["url"]
            self._tasks = await channels.listen(url, f"worker{self.me}", self._came)
            self.say_address(f"worker{self.me}")

            async def connect(name):
                return await channels.connect(url, name)

        for other in range(self.me):
            end = await connect(await self.address_of(other))
            await end.write(self.me)
            self.ends[other] = end
        await self.all_there()

    async def _came(self, end):
        self.ends[await end.read()] = end

    async def put(self, other, pairs):
        from distributed.protocol import to_serialize  # pylint: disable=import-outside-toplevel

        await self.ends[other].write([to_serialize(_flat(pair)) for pair in pairs])

    async def take(self, other):
        return [_pair(words) for words in await self.ends[other].read()]


class Ucxx(Paired):
    """Tags; a message's length goes before it."""

    async def open(self):
        os.environ.update(UCX_TLS="tcp,self", UCX_WARN_UNUSED_ENV_VARS="n")
        import ucxx  # pylint: disable=import-outside-toplevel

        ucxx.init()
        port = free_port()
        self._listener = ucxx.create_listener(self._came, port=port)
        self.say_address(port)
        for other in range(self.me):
            end = await ucxx.create_endpoint("127.0.0.1", await self.address_of(other))
            await end.send(numpy.array([self.me], "u8"))
            self.ends[other] = end
        await self.all_there()

    async def _came(self, end):
        who = numpy.zeros(1, "u8")
        await end.recv(who)
        self.ends[int(who[0])] = end
        await asyncio.Event().wait()  # An endpoint lives as long as this runs.

    async def put(self, other, pairs):
        end = self.ends[other]
        await end.send(numpy.array([len(pair[0]) for pair in pairs], "u8"))
        for pair in pairs:
            await end.send(_flat(pair))

    async def take(self, other):
        end = self.ends[other]
        lengths = numpy.zeros(2, "u8")
        await end.recv(lengths)
        got = []
        for length in lengths:
            words = numpy.empty(2 * int(length), "i8")
            await end.recv(words)
            got.append(_pair(words))
        return got
