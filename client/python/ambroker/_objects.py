# SPDX-License-Identifier: Apache-2.0
"""Python's objects as messages: pickle 5, with its buffers behind it in the same payload.

    mark, count ── lengths: the pickle's, each buffer's ── the pickle ── buffer ── buffer ...

Numbers are little-endian; each part begins at a multiple of 64 bytes. A buffer is loaded where it
lies, read-only. To load a pickle is to run what its writer wants: see trust_pickle of subscribe.
"""
from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._lease import Lease

if TYPE_CHECKING:
    from . import _amb
    from ._amb import SendFields

CONTENT_TYPE = "application/x-ambroker-pickle"
_MARK = 0x314B5041  # "APK1"
_HEAD = struct.Struct("<II")
_BUFFERS_MAX = 65536
_ALIGN = 64
_LEASE_BYTES = 65536  # from here on it is written in place


def _padded(length: int) -> int:
    return -(-length // _ALIGN) * _ALIGN


def _lay_out(lengths: Sequence[int], begin: int) -> tuple[list[tuple[int, int]], int]:
    """Where each part lies, and the end."""
    places = []
    for length in lengths:
        begin = _padded(begin)
        places.append((begin, begin + length))
        begin += length
    return places, begin


class Parts:
    """An object in parts, and the bytes that they take."""

    def __init__(self, value: Any) -> None:
        buffers: list[pickle.PickleBuffer] = []
        body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        self._parts = [memoryview(body)] + [one.raw() for one in buffers]
        if len(buffers) > _BUFFERS_MAX:
            raise ValueError(f"an object of more than {_BUFFERS_MAX} buffers")
        lengths = [part.nbytes for part in self._parts]
        self._head = _HEAD.pack(_MARK, len(buffers)) + struct.pack(f"<{len(lengths)}Q", *lengths)
        self._places, self.size = _lay_out(lengths, len(self._head))
        self.is_large = self.size >= _LEASE_BYTES

    def write(self, memory: Any) -> None:
        """Into `size` bytes."""
        with memoryview(memory) as view, view.cast("B") as flat:
            end = len(self._head)
            flat[:end] = self._head
            for part, (begin, after) in zip(self._parts, self._places):
                flat[end:begin] = bytes(begin - end)
                flat[begin:after] = part
                end = after

    def joined(self) -> bytearray:
        """In memory of their own."""
        memory = bytearray(self.size)
        self.write(memory)
        return memory


def send(pub: _amb.Publisher, parts: Parts, timeout: float | None, fields: SendFields) -> None:
    """Publishes an object by a publisher of the extension."""
    named: SendFields = {**fields, "content_type": CONTENT_TYPE}
    if not parts.is_large:
        pub.send(parts.joined(), timeout, **named)
        return
    lease = Lease(pub, parts.size, "u1", timeout, None, named)
    if lease.is_on_gpu:  # No pickle is written there.
        lease.abandon()
        pub.send(parts.joined(), timeout, **named)
        return
    try:
        parts.write(lease.array)
    except BaseException:
        lease.abandon()
        raise
    lease.commit()


def load(msg: _amb.Message) -> Any:
    """The object of a message that may be trusted."""
    if msg.content_type != CONTENT_TYPE:
        raise ValueError(f"the message is no object: its content type is {msg.content_type!r}")
    data = msg.data
    if data.nbytes < _HEAD.size:
        raise ValueError("the message is no whole object")
    mark, count = _HEAD.unpack_from(data)
    begin = _HEAD.size + 8 * (count + 1)
    if mark != _MARK or count > _BUFFERS_MAX or begin > data.nbytes:
        raise ValueError("the message is no whole object")
    lengths = struct.unpack_from(f"<{count + 1}Q", data, _HEAD.size)
    places, end = _lay_out(lengths, begin)
    if end != data.nbytes:
        raise ValueError("the message is no whole object")
    body, *buffers = (data[first:after] for first, after in places)
    return pickle.loads(body, buffers=buffers)
