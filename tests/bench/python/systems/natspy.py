# SPDX-License-Identifier: Apache-2.0
"""nats-py, which is asyncio alone, and TCP alone. Messages come by its callback, its fastest way."""
import asyncio
import collections
import contextlib
import socket

from .common import AioWriter, Reader, System, await_socket, free_port, running

SYSTEMS = [System("nats", "natspy", ("nats",), "nats-server", forms=("aio",))]
_CONFIG = """
listen: 127.0.0.1:{port}
max_payload: 67108864
max_pending: 2147483648
write_deadline: "30s"
"""


@contextlib.contextmanager
def server(_system, folder, options):
    port = free_port()
    config = folder / "nats.conf"
    config.write_text(_CONFIG.format(port=port), encoding="utf-8")

    def connect():
        socket.create_connection(("127.0.0.1", port)).close()

    with running([options.program("nats-server"), "-c", str(config)], folder / "nats.log") as process:
        await_socket(process, connect)
        yield {"servers": f"nats://127.0.0.1:{port}"}, [process.pid]


class _Reader(Reader):
    def __init__(self):
        self._taken = collections.deque()
        self._waits = None

    async def take(self, msg):
        """The callback."""
        self._taken.append(msg.data)
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)

    async def recv(self):
        while not self._taken:
            self._waits = asyncio.get_running_loop().create_future()
            await self._waits
        return self._taken.popleft()


class AioClient:
    def __init__(self, spec):
        self._spec, self._conn = spec, None

    async def open(self):
        import nats  # pylint: disable=import-outside-toplevel

        self._conn = await nats.connect(**self._spec["address"], pending_size=1 << 31)

    async def writer(self, topic):
        publish, writer = self._conn.publish, AioWriter()
        writer.send = lambda payload: publish(topic, payload)

        async def burst():
            await asyncio.sleep(0)  # its flusher gets a turn

        writer.burst = burst
        return writer

    async def reader(self, topic):
        reader = _Reader()
        await self._conn.subscribe(topic, cb=reader.take, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await self._conn.flush()
        return reader

    async def close(self):
        await self._conn.close()
