# SPDX-License-Identifier: Apache-2.0
"""multiprocessing.Queue, for scale: a pipe, a lock and pickles, without a broker, to one reader.

A queue is inherited, so the measured processes are started by multiprocessing (launch).
"""
import contextlib
import multiprocessing

import numpy

from .common import Reader, System, Writer

SYSTEMS = [System("mp-queue", "queues", forms=("sync",), fans=False)]
_spawn = multiprocessing.get_context("spawn")


@contextlib.contextmanager
def server(_system, _folder, _options):
    yield {topic: _spawn.Queue() for topic in ("there", "back")}, []


def launch(main, spec):
    """A started process that runs main(spec)."""
    process = _spawn.Process(target=main, args=(spec,), daemon=True)
    process.start()
    return process


class _Reader(Reader):
    def words_of(self, message):
        return message if isinstance(message, numpy.ndarray) else Reader.words_of(self, message)


class Client:
    def __init__(self, spec):
        self._address = spec["address"]

    def writer(self, topic):
        writer = Writer()
        writer.borrows = True  # its thread pickles later
        writer.send = self._address[topic].put
        writer.wrap = lambda array: array
        return writer

    def reader(self, topic):
        reader = _Reader()
        reader.recv = self._address[topic].get
        return reader

    def close(self):
        for queue in self._address.values():
            queue.cancel_join_thread()  # What nobody reads any more is not waited for.
