# SPDX-License-Identifier: Apache-2.0
"""Publishers and leases of an event loop."""
from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeVar, Unpack

from . import _amb, _objects
from ._deadlines import LEAST_SECONDS, deadline_of, patience
from ._lease import Lease
from ._threads import threads
from ._waiters import Run, Waiters

if TYPE_CHECKING:
    from ._aio_connection import Connection
    from ._amb import LeaseFields, SendFields, _Data, _Stream
_T = TypeVar("_T")

_DEAF_SECONDS = 0.05  # between two looks for room, once nothing tells of it any more


class AsyncLease:
    """A lease as an async context manager: a writable array, which leaving commits and an exception
    abandons. `await pub.lease(...)` gives the Lease itself."""

    def __init__(self, publisher: Publisher, make: Callable[[float], Lease], timeout: float | None) -> None:
        self._publisher, self._make, self._timeout = publisher, make, timeout
        self._lease: Lease | None = None

    def __await__(self) -> Generator[Any, None, Lease]:
        return self._publisher.attempt(self._make, self._timeout).__await__()

    async def __aenter__(self) -> Any:
        self._lease = await self
        return self._lease.array

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._lease is not None:
            self._lease.__exit__(kind, error, trace)


class _Flush:
    """One flush on a thread, which all tasks share whose messages it waits for. Without any it turns back. libamb tells
    a failure once, so one that comes as the last task has just gone is kept for the next flush."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pub: _amb.Publisher) -> None:
        self.seq: int = pub.stat()["posted"]
        self._pub, self._tasks = pub, 0
        self._is_left = self._is_heard = False
        self._future = threads.run(loop, self._run, lambda: self._is_left)

    def _run(self) -> bool:
        try:
            self._pub.flush()
        except InterruptedError:
            return False
        return True

    @property
    def has_news(self) -> bool:
        """Has it ended, and nobody heard how?"""
        return self._future.done() and not self._is_heard

    @property
    def is_over(self) -> bool:
        """Has it ended, and somebody heard how?"""
        return self._is_heard

    def covers(self, seq: int) -> bool:
        """Once it is over: has it waited for that message?"""
        return self._future.result() and self.seq >= seq

    async def wait(self, seconds: float | None) -> bool:
        """False: the time is over. It raises what the flush has."""
        self._tasks += 1
        self._is_left = False
        try:
            await asyncio.wait((self._future,), timeout=seconds)
        finally:
            self._tasks -= 1
            self._is_left = self._tasks == 0
        if not self._future.done():
            return False
        self._is_heard = True
        self._future.result()
        return True


class Publisher:
    """Messages to one topic. Calls that find room do not wait."""

    def __init__(self, conn: Connection, pub: _amb.Publisher) -> None:
        self._conn, self._pub = conn, pub
        self._run = Run()
        self.waiters = Waiters(conn.loop)  # for room
        self.stat = pub.stat
        self._is_due = False  # it pushes at the end of this turn
        self._queued = 0  # tasks that wait for room, also those that have just been woken
        self._flush: _Flush | None = None  # under way

    @property
    def id(self) -> int:
        """The number by which events name it."""
        return self._pub.id

    async def attempt(self, call: Callable[[float], _T], timeout: float | None) -> _T:
        """call(0), as often as there is news of room; behind the timeout it says that that is over. A
        task that comes while others wait waits behind them."""
        deadline = deadline_of(self._conn.loop.time(), timeout)
        await self._run.step()
        if timeout == 0 or self._queued == 0:
            try:
                return self._done(call(0))
            except _amb.WouldBlock:
                if timeout == 0:
                    raise
        return await self._attempt_in_queue(call, deadline)

    async def _attempt_in_queue(self, call: Callable[[float], _T], deadline: float | None) -> _T:
        self._run.rest()
        self._queued += 1
        self._conn.resting[self] = None
        is_first = False
        try:
            while await self._rest(deadline, is_first):
                is_first = True
                try:
                    return self._done(call(0))
                except _amb.WouldBlock:
                    pass
            return self._done(call(LEAST_SECONDS))
        finally:
            self._queued -= 1
            if self._queued == 0:
                self._conn.resting.pop(self, None)
            self.waiters.wake()  # There may be more room.

    async def _rest(self, deadline: float | None, is_first: bool) -> bool:
        """False: the time is over."""
        look = deadline
        if self._conn.is_deaf:
            look = self._conn.loop.time() + _DEAF_SECONDS
            look = look if deadline is None else min(look, deadline)
        return await self.waiters.wait(look, is_first) or look != deadline

    def _done(self, result: _T) -> _T:
        """What this turn of the loop publishes leaves together at its end. Nobody is inside a wait of
        libamb, where it would leave."""
        if not self._is_due:
            self._is_due = True
            self._conn.loop.call_soon(self._push)
        return result

    def _push(self) -> None:
        self._is_due = False
        self._pub.push()

    async def send(self, data: _Data, timeout: float | None = None, **fields: Unpack[SendFields]) -> None:
        """Publishes a copy of bytes, an array or a Message. It waits for room alone."""
        await self.attempt(lambda wait: self._pub.send(data, wait, **fields), timeout)

    async def send_object(self, value: Any, timeout: float | None = None, **fields: Unpack[SendFields]) -> None:
        """Publishes an object of Python's, pickled; what has buffers is not copied into the pickle."""
        parts = _objects.Parts(value)
        await self.attempt(lambda wait: _objects.send(self._pub, parts, wait, fields), timeout)

    async def post(self, data: _Data, timeout: float | None = None, **fields: Unpack[SendFields]) -> int:
        """Publishes from where it lies; it must stay as it is until its sequence is settled."""
        return await self.attempt(lambda wait: self._pub.post(data, wait, **fields), timeout)

    async def send_many(self, messages: Iterable[_Data], timeout: float | None = None) -> int:
        """Publishes copies of all of them; how many had room in time."""
        left = list(messages)
        whole = len(left)

        def send_rest(wait: float) -> None:
            while left:
                del left[:self._pub.send_many(left, wait)]

        try:
            await self.attempt(send_rest, timeout)
        except (_amb.WouldBlock, _amb.Timeout):
            if len(left) == whole:
                raise
        return whole - len(left)

    def lease(self, shape: SupportsIndex | Sequence[int], dtype: Any = "u1", *, timeout: float | None = None,
              stream: _Stream = None, **fields: Unpack[LeaseFields]) -> AsyncLease:
        """Memory for one message, written in place: `async with pub.lease((480, 640), "f4") as a`"""
        def make(wait: float) -> Lease:
            return Lease(self._pub, shape, dtype, wait, stream, fields)

        return AsyncLease(self, make, timeout)

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until the broker has confirmed what was published before the call."""
        loop = self._conn.loop
        deadline = deadline_of(loop.time(), timeout)
        seq = self._pub.stat()["posted"]
        if self._flush is not None and self._flush.has_news:
            await self._flush.wait(0)
        is_in_time = timeout != 0
        while is_in_time:
            if self._flush is None or self._flush.is_over:
                self._flush = _Flush(loop, self._pub)
            flush = self._flush
            is_in_time = await flush.wait(None if deadline is None else max(0.0, deadline - loop.time()))
            if is_in_time and flush.covers(seq):
                return  # Else it began before this task had published, or turned back.
        self._pub.flush(0 if timeout == 0 else LEAST_SECONDS)  # It says that the time is over.

    async def wait_subscribers(self, count: int = 1, timeout: float | None = None) -> None:
        """Waits until so many subscriptions match."""
        await self._conn.in_thread(self._pub.wait_subscribers, count, timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Cancels what has not left, and ends; flush comes before it. It waits until the link reads no posted
        buffer; after the timeout the connection keeps these."""
        await self._conn.in_thread(self._pub.close, timeout)
        self.waiters.wake_all()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        wait = 0.0  # for the link; none where the flush has waited in vain
        try:
            await self.flush(patience(kind))
            wait = patience(kind)
        except _amb.Error:
            if kind is None:  # Else the exception of the body says more.
                raise
        finally:
            await self.close(wait)
