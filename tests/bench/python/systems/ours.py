# SPDX-License-Identifier: Apache-2.0
"""Ambroker: on rings, and by TCP."""
import asyncio
import contextlib
import os
import time

import numpy

from .common import AioWriter, Reader, System, Writer, free_port

_WAYS = ("call", "many", "lease")
SYSTEMS = [
    System("ambroker", "ours", needs=("ambroker",), program="brokerd", ways=_WAYS,
           workloads=("pubsub", "latency", "send_recv", "handover")),
    System("ambroker-tcp", "ours", needs=("ambroker",), program="brokerd", ways=_WAYS),
]
_MEMORY = {"host": {"size": "3G"}}


@contextlib.contextmanager
def server(system, folder, _options):
    import ambroker  # pylint: disable=import-outside-toplevel

    port = free_port()
    with ambroker.Broker(folder=folder / "broker", memory=_MEMORY, listen=(f"tcp://127.0.0.1:{port}",),
                         log=folder / "broker.log") as broker:
        url = broker.url if system.name == "ambroker" else f"tcp://127.0.0.1:{port}?link=stream"
        yield {"url": url}, [broker.pid]


def _words_of(message):
    return numpy.asarray(message).view("u8")


class _Reader(Reader):
    def __init__(self, sub):
        from ambroker import Message  # pylint: disable=import-outside-toplevel

        self.recv, self.recv_many = sub.next, sub.next_many
        self.bytes_of = Message.tobytes
        self.words_of = _words_of


def _writing(writer, end):
    """By a publisher, or a channel's end."""
    writer.send, writer.wrap = end.send, lambda array: array
    return writer


def _publishing(writer, pub):
    writer.send_many = pub.send_many
    writer.lease = lambda words: pub.lease(words, "u8")
    return _writing(writer, pub)


class _Landing(Reader):
    """Of a channel's end: each message goes to the same memory, as --reuse-alloc has it."""

    def __init__(self, size):
        self.place = numpy.zeros(size // 8, "u8")
        self.bytes_of = numpy.ndarray.tobytes

    def words_of(self, message):
        return message


# Nothing is dropped: a reader that lags holds the writer, as it does with most of the others.
_READ = {"policy": "block", "block": 60}
_TRIES, _TRY_SECONDS = 500, 0.02


def _until_answered(dial):
    """A channel, as soon as somebody listens."""
    import ambroker  # pylint: disable=import-outside-toplevel

    for _ in range(_TRIES):
        with contextlib.suppress(ambroker.NoResponders):
            return dial()
        time.sleep(_TRY_SECONDS)
    raise TimeoutError("nobody listens")


class Client:
    def __init__(self, spec):
        import ambroker  # pylint: disable=import-outside-toplevel

        self._conn = ambroker.connect(spec["address"]["url"], name=f"bench-{spec['role']}-{os.getpid()}")

    def writer(self, topic):
        return _publishing(Writer(), self._conn.publisher(topic))

    def reader(self, topic):
        return _Reader(self._conn.subscribe(topic, **_READ))

    def pair(self, role, size):
        """(writer, reader) of a channel's end, for send_recv."""
        if role == "ping":
            channel = _until_answered(lambda: self._conn.dial("bench", 20))
        else:
            channel = self._conn.listen("bench").accept(20)
        reader = _Landing(size)

        def recv():
            channel.recv_into(reader.place)
            return reader.place

        reader.recv = recv
        return _writing(Writer(), channel), reader

    def close(self):
        self._conn.close()


class AioClient:
    def __init__(self, spec):
        self._spec, self._conn = spec, None

    async def open(self):
        import ambroker  # pylint: disable=import-outside-toplevel

        self._conn = await ambroker.aio.connect(self._spec["address"]["url"])

    async def writer(self, topic):
        return _publishing(AioWriter(), await self._conn.publisher(topic))

    async def reader(self, topic):
        return _Reader(await self._conn.subscribe(topic, **_READ))

    async def _dial(self):
        import ambroker  # pylint: disable=import-outside-toplevel

        for _ in range(_TRIES):
            with contextlib.suppress(ambroker.NoResponders):
                return await self._conn.dial("bench", 20)
            await asyncio.sleep(_TRY_SECONDS)
        raise TimeoutError("nobody listens")

    async def pair(self, role, size):
        if role == "ping":
            channel = await self._dial()
        else:
            channel = await (await self._conn.listen("bench")).accept(20)
        reader = _Landing(size)

        async def recv():
            await channel.recv_into(reader.place)
            return reader.place

        reader.recv = recv
        return _writing(AioWriter(), channel), reader

    async def close(self):
        await self._conn.close()
