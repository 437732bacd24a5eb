# SPDX-License-Identifier: Apache-2.0
"""eclipse-zenoh, peer to peer: by a Unix socket, by TCP, and with shared memory. Its Python has no asyncio, and copies
payloads into its shared memory and out of it. A writer that is ahead blocks."""
import contextlib
import json

import numpy

from board import SMALL

from .common import Reader, System, Writer, free_port

_NEEDS = ("zenoh",)
SYSTEMS = [
    System("zenoh-unix", "zenohpy", _NEEDS, forms=("sync",)),
    System("zenoh-tcp", "zenohpy", _NEEDS, forms=("sync",)),
    System("zenoh-shm", "zenohpy", _NEEDS, forms=("sync",), ways=("call", "lease"),
           workloads=("pubsub", "latency", "send_recv", "handover")),
]
_QUEUE = 1 << 15
_LISTENERS = ("pub", "ping")


@contextlib.contextmanager
def server(system, folder, _options):
    local = f"unixsock-stream/{folder}/zenoh.sock"
    yield {"endpoint": f"tcp/127.0.0.1:{free_port()}" if system.name == "zenoh-tcp" else local,
           "shm": system.name == "zenoh-shm"}, []


class _Reader(Reader):
    def bytes_of(self, message):  # pylint: disable=method-hidden
        return message.payload.to_bytes()

    def words_of(self, message):
        return numpy.frombuffer(message.payload.to_bytes(), "u8")

    def forward(self, message):
        return message.payload


class _Lease:
    """Its memory takes bytes alone, so the array is ours and is copied."""

    def __init__(self, zenoh, provider, publisher, size):
        self._zenoh, self._provider, self._publisher = zenoh, provider, publisher
        self._array = numpy.zeros(size // 8, "u8")
        self._policy = zenoh.shm.BlockOn(zenoh.shm.GarbageCollect())

    def __enter__(self):
        return self._array

    def __exit__(self, *_):
        memory = self._provider.alloc(self._array.nbytes, self._policy)
        memory[:] = self._array.tobytes()
        self._publisher.put(memory)


class Client:
    def __init__(self, spec):
        import zenoh  # pylint: disable=import-outside-toplevel

        self._zenoh, self._spec = zenoh, spec
        config = zenoh.Config()
        address, is_listener = spec["address"], spec["role"] in _LISTENERS
        for key, value in (("mode", "peer"), ("scouting/multicast/enabled", False),
                           ("listen/endpoints", [address["endpoint"]] if is_listener else []),
                           ("connect/endpoints", [] if is_listener else [address["endpoint"]]),
                           ("transport/shared_memory/enabled", address["shm"])):
            config.insert_json5(key, json.dumps(value))
        self._session = zenoh.open(config)

    def writer(self, topic):
        zenoh, size = self._zenoh, self._spec["size"]
        publisher = self._session.declare_publisher(topic, congestion_control=zenoh.CongestionControl.BLOCK)
        writer = Writer()
        writer.send = publisher.put
        if size > SMALL:
            writer.wrap = lambda array: array  # put takes bytes alone, or what came
            writer.send = lambda payload: publisher.put(
                payload.tobytes() if isinstance(payload, numpy.ndarray) else payload)
        if self._spec["way"] == "lease":
            provider = zenoh.shm.ShmProvider.default_backend(size * (self._spec["window"] + 4) + (1 << 20))
            lease = _Lease(zenoh, provider, publisher, size)
            writer.lease = lambda words: lease
        return writer

    def reader(self, topic):
        sub = self._session.declare_subscriber(topic, self._zenoh.handlers.FifoChannel(_QUEUE))
        reader = _Reader()
        reader.recv = sub.recv
        return reader

    def close(self):
        self._session.close()

