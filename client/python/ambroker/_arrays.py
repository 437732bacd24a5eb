# SPDX-License-Identifier: Apache-2.0
"""NumPy where it is there, and messages as its arrays."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import _amb


@functools.cache
def numpy_or_none() -> Any:
    """NumPy, imported by the first array and not by the package: that takes a while. None: it is not there."""
    try:
        import numpy  # pylint: disable=import-outside-toplevel
    except ImportError:  # a memoryview does
        return None
    return numpy


class _Raw:
    """Elements that struct has no code for: NumPy takes them as void. The view holds the message."""

    def __init__(self, msg: _amb.Message) -> None:
        self.__array_interface__ = msg.__array_interface__
        self._view = msg.data


def of(msg: _amb.Message) -> Any:
    """Message.array: read-only, and in place."""
    if msg.mem in ("cuda", "managed"):
        return msg
    numpy = numpy_or_none()
    if numpy is None:
        return memoryview(msg)
    is_raw = msg.__array_interface__["typestr"].startswith("|V")
    return numpy.asarray(_Raw(msg) if is_raw else msg)
