# SPDX-License-Identifier: Apache-2.0
"""iceoryx2: memory that is loaned, written in place and handed over. Its Python has no call that waits for a message, so
the reader looks and yields."""
import contextlib
import ctypes
import os

import numpy

from .common import Reader, System, Writer

SYSTEMS = [System("iceoryx2", "iceoryx", ("iceoryx2",), forms=("sync",), ways=("lease",), window_most=64,
                  workloads=("pubsub", "handover"))]


@contextlib.contextmanager
def server(_system, folder, _options):
    yield {"service": f"bench-{folder.name}-{os.getpid()}"}, []


def _array_of(sample, words):
    """A loan's payload says that it has eight times as many elements (0.10.0), so ours count."""
    return numpy.frombuffer(sample.payload().as_memory_view(), "u8", words)


class _Loan:
    def __init__(self, publisher, words):
        self._publisher, self._words, self._sample = publisher, words, None

    def __enter__(self):
        self._sample = self._publisher.loan_slice_uninit(self._words)
        return _array_of(self._sample, self._words)

    def __exit__(self, *_):
        sample, self._sample = self._sample, None
        sample.assume_init().send()


class Client:
    def __init__(self, spec):
        import iceoryx2 as iox2  # pylint: disable=import-outside-toplevel

        iox2.set_log_level(iox2.LogLevel.Fatal)
        self._iox2, self._spec = iox2, spec
        self._node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
        window = spec["window"]
        builder = self._node.service_builder(iox2.ServiceName.new(spec["address"]["service"]))
        self._service = (builder.publish_subscribe(iox2.Slice[ctypes.c_uint64])
                         .subscriber_max_buffer_size(window + 4).subscriber_max_borrowed_samples(4)
                         .max_subscribers(8).enable_safe_overflow(False).open_or_create())

    def writer(self, _topic):
        words = self._spec["size"] // 8
        publisher = self._service.publisher_builder().initial_max_slice_len(words).create()
        writer = Writer()
        loan = _Loan(publisher, words)
        writer.lease = lambda words: loan
        writer.wrap = lambda array: array

        def send(payload):  # greetings, and the last word
            with loan as array:
                array[:] = payload

        writer.send = send
        return writer

    def reader(self, _topic):
        receive = self._service.subscriber_builder().buffer_size(self._spec["window"] + 4).create().receive
        reader = Reader()

        def recv():
            while (sample := receive()) is None:
                os.sched_yield()
            return sample

        words = self._spec["size"] // 8
        reader.recv, reader.words_of = recv, lambda sample: _array_of(sample, words)
        return reader

    def close(self):
        pass
