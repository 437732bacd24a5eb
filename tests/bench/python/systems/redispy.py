# SPDX-License-Identifier: Apache-2.0
"""redis-py with hiredis: PUBLISH one by one, or a pipeline of them; by a Unix socket and by TCP."""
import contextlib
import socket

from .common import AioWriter, Reader, System, Writer, await_socket, free_port, running

_NEEDS = ("redis", "hiredis")
_WAYS = ("call", "many")
SYSTEMS = [
    System("redis-unix", "redispy", _NEEDS, "redis-server", ways=_WAYS),
    System("redis-tcp", "redispy", _NEEDS, "redis-server", ways=_WAYS),
]
# Nothing is kept on a disk, and no reader is cut off because it lags.
_CONFIG = """
bind 127.0.0.1
port {port}
unixsocket {path}
save ""
appendonly no
client-output-buffer-limit pubsub 0 0 0
"""


def _options(spec):
    """Of a client: it reads large messages in large pieces."""
    return {**spec["address"], "socket_read_size": max(1 << 16, min(2 * spec["size"], 16 << 20))}


@contextlib.contextmanager
def server(system, folder, options):
    port, path = free_port(), folder / "redis.sock"
    config = folder / "redis.conf"
    config.write_text(_CONFIG.format(port=port, path=path), encoding="utf-8")

    def connect():
        socket.create_connection(("127.0.0.1", port)).close()

    with running([options.program("redis-server"), str(config)], folder / "redis.log", cwd=folder) as process:
        await_socket(process, connect)
        address = {"unix_socket_path": str(path)} if system.name == "redis-unix" else {
            "host": "127.0.0.1", "port": port}
        yield address, [process.pid]


class _Reader(Reader):
    """parse_response gives [b"message", topic, payload]."""

    def bytes_of(self, message):  # pylint: disable=method-hidden
        return message[2]

    def words_of(self, message):
        return Reader.words_of(self, message[2])

    def forward(self, message):
        return message[2]


class Client:
    def __init__(self, spec):
        import redis  # pylint: disable=import-outside-toplevel

        self._redis = redis.Redis(**_options(spec))

    def writer(self, topic):
        publish, pipe = self._redis.publish, self._redis.pipeline(transaction=False)
        writer = Writer()
        writer.send = lambda payload: publish(topic, payload)

        def send_many(payloads):
            for payload in payloads:
                pipe.publish(topic, payload)
            pipe.execute()

        writer.send_many = send_many
        return writer

    def reader(self, topic):
        pubsub = self._redis.pubsub()
        pubsub.subscribe(topic)
        pubsub.parse_response()
        reader = _Reader()
        reader.recv = pubsub.parse_response
        return reader

    def close(self):
        self._redis.close()


class AioClient:
    def __init__(self, spec):
        self._spec, self._redis = spec, None

    async def open(self):
        import redis.asyncio  # pylint: disable=import-outside-toplevel

        self._redis = redis.asyncio.Redis(**_options(self._spec))

    async def writer(self, topic):
        publish, pipe = self._redis.publish, self._redis.pipeline(transaction=False)
        writer = AioWriter()
        writer.send = lambda payload: publish(topic, payload)

        async def send_many(payloads):
            for payload in payloads:
                pipe.publish(topic, payload)
            await pipe.execute()

        writer.send_many = send_many
        return writer

    async def reader(self, topic):
        pubsub = self._redis.pubsub()
        await pubsub.subscribe(topic)
        await pubsub.parse_response()
        reader = _Reader()
        reader.recv = pubsub.parse_response
        return reader

    async def close(self):
        await self._redis.aclose()
