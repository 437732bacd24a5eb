# SPDX-License-Identifier: Apache-2.0
"""ucxx: two endpoints that are connected to each other, without a broker. Tags by its core, blocking and polling, and by
asyncio; active messages by asyncio, where alone it has them. By shared memory and by TCP; asyncio's endpoints handle
errors, whatever they are told (0.52), so they have TCP alone."""
import asyncio
import contextlib
import os
import pathlib
import time

import numpy

from .common import AioWriter, Reader, System, Writer, free_port

_NEEDS = ("ucxx",)
# ucxx needs TCP to connect, and UCX has no shared memory for endpoints that handle errors.
_TLS = {"shm": "sm,tcp,self", "tcp": "tcp,self"}
_AM, _POLL = "am", "polling"
SYSTEMS = [System(f"ucxx-{how}", "ucxxpy", _NEEDS, forms=forms, fans=False)
           for how, forms in (("tag-shm", ("sync",)), ("tag-tcp", ("sync", "aio")), ("tag-polling-shm", ("sync",)),
                              ("am-tcp", ("aio",)))]
_LISTENERS = ("pub", "ping")
_CONNECT_SECONDS = 20


@contextlib.contextmanager
def server(system, folder, _options):
    _ucxx, *how, tls = system.name.split("-")
    yield {"port": free_port(), "tls": _TLS[tls], "errors": tls == "tcp", "how": how,
           "listening": str(folder / "listening")}, []


def _await_listener(address):
    deadline = time.monotonic() + _CONNECT_SECONDS
    while not os.path.exists(address["listening"]):
        if time.monotonic() > deadline:
            raise TimeoutError("nobody listens")
        time.sleep(0.01)


def _as_bytes(payload):
    return numpy.frombuffer(payload, "u1")


class _Reader(Reader):
    """Each message comes to the same memory."""

    def __init__(self, size):
        self.place = numpy.zeros(size, "u1")
        self.bytes_of = numpy.ndarray.tobytes

    def words_of(self, message):
        return message.view("u8")


class Client:
    def __init__(self, spec):
        self._spec, self._address = spec, spec["address"]
        os.environ.update(UCX_TLS=self._address["tls"], UCX_WARN_UNUSED_ENV_VARS="n")
        import ucxx._lib.libucxx as core  # pylint: disable=import-outside-toplevel
        from ucxx._lib.arr import Array  # pylint: disable=import-outside-toplevel

        self._core, self._array = core, Array
        self._worker = core.UCXWorker(core.UCXContext(feature_flags=(core.Feature.TAG, core.Feature.WAKEUP)))
        self._worker.init_blocking_progress_mode()
        self._move = self._worker.progress if _POLL in self._address["how"] else self._worker.progress_worker_event
        self._listener = self._end = None
        self._is_listener = spec["role"] in _LISTENERS
        if self._is_listener:
            self._listen()
        else:
            _await_listener(self._address)
            self._end = core.UCXEndpoint.create(self._worker, "127.0.0.1", self._address["port"],
                                                endpoint_error_handling=self._address["errors"])

    def _listen(self):
        def accept(request):
            self._end = self._listener.create_endpoint_from_conn_request(
                request, endpoint_error_handling=self._address["errors"])

        self._listener = self._core.UCXListener.create(worker=self._worker, port=self._address["port"], cb_func=accept)
        pathlib.Path(self._address["listening"]).touch()
        while self._end is None:
            self._worker.progress()

    def _tag(self, is_mine):
        """What the listener sends has tag 0."""
        return self._core.UCXXTag(0 if is_mine == self._is_listener else 1)

    def _finish(self, request):
        move = self._move
        while not request.completed:
            move()
        request.check_error()

    def writer(self, _topic):
        end, tag, array, finish = self._end, self._tag(True), self._array, self._finish
        writer = Writer()
        writer.send = lambda payload: finish(end.tag_send(array(_as_bytes(payload)), tag=tag))
        return writer

    def reader(self, _topic):
        end, tag, finish = self._end, self._tag(False), self._finish
        reader = _Reader(self._spec["size"])
        landing = self._array(reader.place)

        def recv():
            finish(end.tag_recv(landing, tag=tag))
            return reader.place

        reader.recv = recv
        return reader

    def close(self):
        pass


class AioClient:
    def __init__(self, spec):
        self._spec, self._address = spec, spec["address"]
        os.environ.update(UCX_TLS=self._address["tls"], UCX_WARN_UNUSED_ENV_VARS="n")
        self._ucxx = self._listener = self._end = None

    async def open(self):
        import ucxx  # pylint: disable=import-outside-toplevel

        self._ucxx = ucxx
        ucxx.init()
        if self._spec["role"] not in _LISTENERS:
            _await_listener(self._address)
            self._end = await ucxx.create_endpoint("127.0.0.1", self._address["port"],
                                                   endpoint_error_handling=self._address["errors"])
            return
        connected = asyncio.get_running_loop().create_future()

        async def accept(end):
            connected.set_result(end)
            await asyncio.Event().wait()  # An endpoint lives as long as this runs.

        self._listener = ucxx.create_listener(accept, port=self._address["port"],
                                              endpoint_error_handling=self._address["errors"])
        pathlib.Path(self._address["listening"]).touch()
        self._end = await connected

    async def writer(self, _topic):
        send = self._end.am_send if _AM in self._address["how"] else self._end.send
        writer = AioWriter()
        writer.send = lambda payload: send(_as_bytes(payload))
        return writer

    async def reader(self, _topic):
        end, reader = self._end, _Reader(self._spec["size"])
        if _AM in self._address["how"]:
            async def recv():
                return numpy.asarray(await end.am_recv())
        else:
            async def recv():
                await end.recv(reader.place)
                return reader.place
        reader.recv = recv
        return reader

    async def close(self):
        """The ends do not agree on who closes first, and one of them would report an error."""
        os._exit(0)  # pylint: disable=protected-access
