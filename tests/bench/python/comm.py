# SPDX-License-Identifier: Apache-2.0
"""A trial: what a Comm of Dask's does, over Ambroker's channels. A message is Dask's frames in one payload, written in
leased memory, and read where it lies."""
import asyncio
import struct

import numpy

_HEAD = struct.Struct("<Q")
_ALIGN = 64


def _places(sizes, start):
    """Where frames of these sizes begin, and where the last one ends."""
    places = []
    for size in sizes:
        start = -(-start // _ALIGN) * _ALIGN
        places.append(start)
        start += size
    return places, start


class Comm:
    """One end."""

    def __init__(self, channel):
        self._channel = channel

    async def write(self, message):
        """An object of Dask's; to_serialize marks what becomes frames of its own."""
        from distributed.comm.utils import to_frames  # pylint: disable=import-outside-toplevel

        frames = [memoryview(frame).cast("B") for frame in await to_frames(message)]
        sizes = [frame.nbytes for frame in frames]
        head = _HEAD.size * (1 + len(sizes))
        places, size = _places(sizes, head)
        async with self._channel.lease(size, "u1") as memory:
            memory[:head] = numpy.array([len(sizes), *sizes], "<u8").view("u1")
            for frame, place in zip(frames, places):
                memory[place:place + frame.nbytes] = numpy.frombuffer(frame, "u1")

    async def read(self):
        """The object. Its arrays lie in the message, read-only, and hold it."""
        from distributed.comm.utils import from_frames  # pylint: disable=import-outside-toplevel

        data = (await self._channel.recv()).data
        count = _HEAD.unpack_from(data)[0]
        sizes = [int(size) for size in numpy.frombuffer(data, "<u8", count, _HEAD.size)]
        places, _end = _places(sizes, _HEAD.size * (1 + count))
        return await from_frames([data[place:place + size] for place, size in zip(places, sizes)])

    async def close(self):
        await self._channel.close()


async def connect(url, name):
    """A Comm to whoever listens on that name."""
    import ambroker  # pylint: disable=import-outside-toplevel

    conn = await ambroker.aio.connect(url)
    return Comm(await conn.dial(name, 20))


async def listen(url, name, came):
    """Calls came(Comm) for each that connects, for ever; returns once it listens."""
    import ambroker  # pylint: disable=import-outside-toplevel

    conn = await ambroker.aio.connect(url)
    listener = await conn.listen(name)
    tasks = []

    async def serve():
        async for channel in listener:
            tasks.append(asyncio.ensure_future(came(Comm(channel))))

    tasks.append(asyncio.ensure_future(serve()))
    return tasks
