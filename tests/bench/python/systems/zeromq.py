# SPDX-License-Identifier: Apache-2.0
"""pyzmq: through a proxy (in C), and direct; by ipc and by TCP. Nothing is dropped: no high-water mark, and
XPUB_NODROP. The payload is the whole frame, and every reader takes all of them."""
import contextlib
import sys

from .common import AioWriter, Reader, System, Writer, free_port, running

SYSTEMS = [System(name, "zeromq", ("zmq",)) for name in ("zmq-ipc", "zmq-tcp", "zmq-direct-ipc", "zmq-direct-tcp")]
_LARGE = 64 << 10  # from here on the frame is the caller's memory
_PROXY = """
import sys, zmq
sockets = []
context = zmq.Context()
for kind, url in zip(sys.argv[1::2], sys.argv[2::2]):
    one = context.socket(getattr(zmq, kind))
    one.setsockopt(zmq.SNDHWM, 0)
    one.setsockopt(zmq.RCVHWM, 0)
    if kind == "XPUB":
        one.setsockopt(zmq.XPUB_NODROP, 1)
    one.bind(url)
    sockets.append(one)
import threading
for pair in zip(sockets[2::2], sockets[3::2]):
    threading.Thread(target=zmq.proxy, args=pair, daemon=True).start()
zmq.proxy(*sockets[:2])
"""


@contextlib.contextmanager
def server(system, folder, _options):
    """A proxy for each topic. Direct ones have an address for each topic, too."""
    def url(name):
        if system.name.endswith("tcp"):
            return f"tcp://127.0.0.1:{free_port()}"
        return f"ipc://{folder}/{name}"

    address = {topic: {"write": url(f"{topic}-w"), "read": url(f"{topic}-r")} for topic in ("there", "back")}
    if "direct" in system.name:
        for one in address.values():
            one["read"] = one["write"]
        yield {**address, "direct": True}, []
        return
    command = [sys.executable, "-c", _PROXY]
    for one in address.values():
        command += ["XSUB", one["write"], "XPUB", one["read"]]
    with running(command, folder / "proxy.log") as process:
        yield {**address, "direct": False}, [process.pid]


class _Base:
    def __init__(self, spec, zmq, context):
        self._address, self._zmq, self._context = spec["address"], zmq, context
        self._large = spec["size"] >= _LARGE
        self._open = []

    def _socket(self, kind):
        zmq = self._zmq
        one = self._context.socket(kind)
        one.setsockopt(zmq.SNDHWM, 0)
        one.setsockopt(zmq.RCVHWM, 0)
        one.setsockopt(zmq.LINGER, 1000)
        self._open.append(one)
        return one

    def _pub(self, topic):
        one = self._socket(self._zmq.PUB)
        one.setsockopt(self._zmq.XPUB_NODROP, 1)
        if self._address["direct"]:
            one.bind(self._address[topic]["write"])
        else:
            one.connect(self._address[topic]["write"])
        return one

    def _sub(self, topic):
        one = self._socket(self._zmq.SUB)
        one.setsockopt(self._zmq.SUBSCRIBE, b"")
        one.connect(self._address[topic]["read"])
        return one

    def _close(self):
        for one in self._open:
            one.close()
        self._context.term()


def _fill_writer(writer, socket, large):
    writer.borrows = large
    if large:
        writer.send = lambda payload: socket.send(payload, copy=False)
    else:
        writer.send = socket.send
    return writer


def _fill_reader(reader, socket, large):
    if large:
        reader.recv = lambda: socket.recv(copy=False)
        reader.words_of = lambda frame: Reader.words_of(reader, frame.buffer)
    else:
        reader.recv = socket.recv
    return reader


class Client(_Base):
    def __init__(self, spec):
        import zmq  # pylint: disable=import-outside-toplevel

        super().__init__(spec, zmq, zmq.Context())

    def writer(self, topic):
        return _fill_writer(Writer(), self._pub(topic), self._large)

    def reader(self, topic):
        return _fill_reader(Reader(), self._sub(topic), self._large)

    def close(self):
        self._close()


class AioClient(_Base):
    def __init__(self, spec):
        import zmq.asyncio  # pylint: disable=import-outside-toplevel

        super().__init__(spec, zmq, zmq.asyncio.Context())

    async def open(self):
        pass

    async def writer(self, topic):
        return _fill_writer(AioWriter(), self._pub(topic), self._large)

    async def reader(self, topic):
        return _fill_reader(Reader(), self._sub(topic), self._large)

    async def close(self):
        self._close()
