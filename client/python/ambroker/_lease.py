# SPDX-License-Identifier: Apache-2.0
"""Leases: memory of the broker's, written in place."""
from __future__ import annotations

import functools
import operator
import re
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex, Unpack

from ._arrays import numpy_or_none

if TYPE_CHECKING:
    from . import _amb

_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # NumPy's letters
_NAMES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5}
_BFLOAT = _NAMES["bfloat"]


@functools.lru_cache(maxsize=64)
def _element(dtype: Any) -> tuple[int, int]:
    """(DLPack's code, bits) of a type of elements."""
    if getattr(dtype, "byteorder", "=") == ">":
        raise TypeError(f"{dtype!r}: elements have this machine's byte order")
    text = str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype)
    if text == "bool":
        return _CODES["b"], 8
    found = re.fullmatch(r"[<=|]?([iufcb])(\d+)", text)
    if found is not None:
        return _CODES[found[1]], 8 * int(found[2])
    found = re.fullmatch(r"(?:torch\.)?(u?int|b?float|complex)(8|16|32|64|128)", text)
    if found is None:
        raise TypeError(f"{dtype!r} is no type of elements: 'f4', 'float32', numpy.float32")
    return _NAMES[found[1]], int(found[2])


def _dims(shape: SupportsIndex | Sequence[int]) -> tuple[int, ...]:
    """One number, also NumPy's, or several."""
    try:
        return (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        return tuple(shape)  # type: ignore[arg-type]


class Lease:
    """One message to be written in place. As a context manager it gives a writable array, which
    leaving commits and an exception abandons; the array is read-only from then on."""

    def __init__(self, publisher: _amb.Publisher, shape: SupportsIndex | Sequence[int], dtype: Any,
                 timeout: float | None, stream: _amb._Stream, fields: _amb.LeaseFields) -> None:
        self._code, bits = _element(dtype)
        self._lease = publisher.lease(_dims(shape), self._code, bits, timeout, stream)
        self._publisher = publisher  # Its last reference would close it, and the lease with it.
        self._fields, self._stream = fields, stream
        self._array: Any = None

    @property
    def is_on_gpu(self) -> bool:
        """Is its memory a GPU's?"""
        return hasattr(self._lease, "__cuda_array_interface__")

    @property
    def array(self) -> Any:
        """NumPy's array of it, without NumPy a memoryview; of a GPU's memory the lease itself."""
        if self._array is None:
            self._array = self._make()
        return self._array

    def _make(self) -> Any:
        if self.is_on_gpu:
            return self._lease
        if self._code == _BFLOAT:  # struct has no code for it
            raise TypeError("elements of this type have no array here: take the lease's memory")
        memory, numpy = memoryview(self._lease), numpy_or_none()
        if numpy is None:
            return memory
        # Without memory for the buffer NumPy asks for its items, and copies them, or cannot.
        try:
            array = numpy.asarray(memory)
        except NotImplementedError:
            array = None
        if array is None or array.base is None:
            raise MemoryError("NumPy has no memory for an array of the lease")
        return array

    def _close_array(self) -> None:
        array, self._array = self._array, None
        if isinstance(array, memoryview):
            try:
                array.release()
            except BufferError:
                pass  # Somebody has it, and an older view stays valid.
        elif array is not None and array is not self._lease:
            array.flags.writeable = False

    def commit(self, **fields: Unpack[_amb.SendFields]) -> int:
        """Publishes it; its sequence. The fields are those of send."""
        self._close_array()
        both: _amb.SendFields = {**self._fields, **fields}
        if self._stream is not None:
            both.setdefault("stream", self._stream)
        return self._lease.commit(**both)

    def abandon(self) -> None:
        """Gives it back unpublished."""
        self._close_array()
        self._lease.abandon()

    def __enter__(self) -> Any:
        return self.array

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is None:
            self.commit()
        else:
            self.abandon()
