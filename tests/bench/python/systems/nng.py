# SPDX-License-Identifier: Apache-2.0
"""pynng: PUB and SUB, direct, by ipc and TCP. PUB drops where a buffer is full, so the window is shorter."""
import contextlib

from .common import AioWriter, Reader, System, Writer, free_port

_BUFFER = 8000
SYSTEMS = [System(f"nng-{kind}", "nng", ("pynng",), window_most=_BUFFER // 2) for kind in ("ipc", "tcp")]


@contextlib.contextmanager
def server(system, folder, _options):
    def url(topic):
        return f"ipc://{folder}/{topic}" if system.name == "nng-ipc" else f"tcp://127.0.0.1:{free_port()}"

    yield {topic: url(topic) for topic in ("there", "back")}, []


class _Base:
    def __init__(self, spec):
        self._address, self._open = spec["address"], []

    def _pub(self, topic):
        import pynng  # pylint: disable=import-outside-toplevel

        self._open.append(pynng.Pub0(listen=self._address[topic], send_buffer_size=_BUFFER))
        return self._open[-1]

    def _sub(self, topic):
        import pynng  # pylint: disable=import-outside-toplevel

        one = pynng.Sub0(topics="", recv_buffer_size=_BUFFER, recv_max_size=0)
        one.dial(self._address[topic], block=False)
        self._open.append(one)
        return one

    def _close(self):
        for one in self._open:
            one.close()


def _fill(writer, send):
    """It takes bytes alone."""
    writer.wrap = lambda array: array
    writer.send = lambda payload: send(payload if isinstance(payload, bytes) else payload.tobytes())


class Client(_Base):
    def writer(self, topic):
        writer = Writer()
        _fill(writer, self._pub(topic).send)
        return writer

    def reader(self, topic):
        reader = Reader()
        reader.recv = self._sub(topic).recv
        return reader

    def close(self):
        self._close()


class AioClient(_Base):
    async def open(self):
        pass

    async def writer(self, topic):
        writer = AioWriter()
        _fill(writer, self._pub(topic).asend)
        return writer

    async def reader(self, topic):
        reader = Reader()
        reader.recv = self._sub(topic).arecv
        return reader

    async def close(self):
        self._close()
