# SPDX-License-Identifier: Apache-2.0
"""What the systems share."""
import contextlib
import dataclasses
import signal
import socket
import subprocess
import time

import numpy


@dataclasses.dataclass(frozen=True)
class System:
    """What run.py knows of one. needs: modules that its clients import; program: its server's."""

    name: str
    module: str
    needs: tuple = ()
    program: str | None = None
    forms: tuple = ("sync", "aio")
    ways: tuple = ("call",)
    workloads: tuple = ("pubsub", "latency", "send_recv")
    fans: bool = True  # one writer reaches several readers
    window_most: int = 32768


class Writer:
    """The plain parts of a writer."""

    borrows = False
    send_many = None
    lease = None

    def wrap(self, array):
        return memoryview(array).cast("B")

    def burst(self):
        pass


class AioWriter(Writer):
    async def burst(self):
        pass


class Reader:
    """The plain parts of a reader."""

    recv_many = None
    bytes_of = None

    def words_of(self, message):
        return numpy.frombuffer(message, "u8")

    def forward(self, message):
        return message


def free_port():
    """A TCP port that nobody had a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def running(command, log, **options):
    """A server, which ends with the block."""
    with open(log, "ab") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, **options)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_socket(process, connect, seconds=10):
    """Returns once connect() does; it raises OSError until the server listens."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            connect()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
