# SPDX-License-Identifier: Apache-2.0
"""Subscriptions of an event loop."""
from __future__ import annotations

import bisect
import itertools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from . import _amb
from ._connection import Made
from ._deadlines import LEAST_SECONDS, deadline_of
from ._waiters import Run, Waiters

if TYPE_CHECKING:
    from ._aio_connection import Connection
    from ._connection import Makers
_Taken = TypeVar("_Taken")  # A Message, or what a callable of into= makes.
_T = TypeVar("_T")

_LOOK_SECONDS = 0.01  # to the second look for memory of a GPU, which no news tells of
_LOOK_SECONDS_MAX = 1.0
_LARGE = 1 << 20  # bytes that are copied on a thread


class Subscription(Generic[_Taken]):
    """Messages of the topics of a pattern: `async for msg in await conn.subscribe("a.>")`.

    A message is taken by the task that asks for it, as that runs: one that is cancelled has none.
    """

    def __init__(self, conn: Connection, sub: _amb.Subscription, into: Makers | None, is_far: bool) -> None:
        self._conn, self._sub = conn, sub
        self._into = dict(into) if into else None
        self._is_far = is_far  # payloads are brought to memory that may be short
        # Messages whose reading has failed, or was cancelled, by the number under which each was taken; before
        # them what calls had made that were cancelled.
        self._kept: list[tuple[int, _amb.Message | Made]] = []
        self._numbers = itertools.count()
        self._late: Exception | None = None  # ended a call that had messages to give: the next call raises it
        self._run = Run()
        self._readers = 0  # tasks that wait, also those that have just been woken
        self.waits_since = 0.0  # the latest of them
        self.warn_if_held = sub.warn_if_held
        self.waiters = Waiters(conn.loop)
        self.position, self.stat = sub.position, sub.stat

    @property
    def id(self) -> int:
        """The number by which events name it."""
        return self._sub.id

    async def next(self, timeout: float | None = None) -> _Taken:
        """The next message; with into=, what the callable of its kind has made, filled in."""
        deadline = deadline_of(self._conn.loop.time(), timeout)
        await self._run.step()
        late, self._late = self._late, None
        if late is not None:
            raise late
        if self._into is None:
            msg: Any = await self._next(self._sub.take, self._sub.next, deadline, timeout)
            taken: _Taken = msg
        else:
            taken = await self._landed(*await self._next(
                self._take_numbered, lambda wait: self._numbered(self._sub.next(wait)), deadline, timeout))
        return taken

    async def _next(self, take: Callable[[], _T | None], take_late: Callable[[float], _T], deadline: float | None,
                    timeout: float | None) -> _T:
        taken = take()
        if taken is None and timeout == 0:
            taken = take_late(0)  # It says that there is none.
        return await self._wait(take, take_late, deadline) if taken is None else taken

    def _numbered(self, msg: _amb.Message) -> tuple[int, _amb.Message | Made]:
        return next(self._numbers), msg

    def _take_numbered(self) -> tuple[int, _amb.Message | Made] | None:
        if self._kept:
            return self._kept.pop(0)
        msg = self._sub.take()
        return None if msg is None else self._numbered(msg)

    async def next_many(self, count: int, timeout: float | None = None) -> list[_Taken]:
        """Waits for one message, then takes those that are there, up to count and to 1024."""
        if self._into is not None:
            return await self._many_landed(count, timeout)
        deadline = deadline_of(self._conn.loop.time(), timeout)
        await self._run.step()
        taken = self._sub.next_many(count, 0) if timeout == 0 else self._take_many(count)
        if taken is None:
            taken = await self._wait(
                lambda: self._take_many(count), lambda wait: self._sub.next_many(count, wait), deadline)
        return taken  # type: ignore[return-value]

    def _take_many(self, count: int) -> list[_amb.Message] | None:
        try:
            return self._sub.next_many(count, 0)
        except _amb.WouldBlock:
            return None

    async def _wait(self, take: Callable[[], _T | None], take_late: Callable[[float], _T],
                    deadline: float | None) -> _T:
        """What take() gives once it is not None. Behind the deadline take_late(timeout) says so."""
        self._run.rest()
        self._readers += 1
        self._conn.waiting[self] = None
        self.waits_since = self._conn.loop.time()
        self._conn.look_later()
        is_woken = False
        pause: float | None = None
        try:
            while True:
                look = deadline
                if pause is not None:
                    look = self._conn.loop.time() + pause
                    look = look if deadline is None else min(look, deadline)
                is_woken = await self.waiters.wait(look, is_woken)
                if not is_woken and look == deadline:
                    return take_late(LEAST_SECONDS)
                taken = take()
                if taken is not None:
                    self.waiters.wake()  # There may be more.
                    return taken
                if self._is_far:
                    pause = _LOOK_SECONDS if is_woken or pause is None else min(2 * pause, _LOOK_SECONDS_MAX)
        finally:
            self._readers -= 1
            if self._readers == 0:
                self._conn.waiting.pop(self, None)

    async def _landed(self, number: int, msg: _amb.Message | Made) -> Any:
        """Where the copy cannot be made, or is not waited for, the message stays in its place."""
        if isinstance(msg, Made):
            return msg.target
        make = self._into.get(msg.mem) if self._into is not None else None
        if make is None:
            return msg
        try:
            target = make(len(msg), msg)
            if target is None:
                raise TypeError("into: the callable has returned None, not memory")
            if len(msg) < _LARGE and msg.mem == "host" and msg.path != "lazy":
                msg.read(into=target)
            else:
                await self._conn.in_thread(lambda: msg.read(into=target))
            return target
        except BaseException:
            bisect.insort(self._kept, (number, msg), key=operator.itemgetter(0))
            self.waiters.wake()
            raise

    async def _many_landed(self, count: int, timeout: float | None) -> list[_Taken]:
        taken = [await self.next(timeout)]
        try:
            while len(taken) < count:
                taken.append(await self.next(0))
        except _amb.Error:
            pass  # There is no further one; else the next call hears it, too.
        except Exception as error:  # pylint: disable=broad-exception-caught
            self._late = error
        except BaseException:
            self._kept[:0] = [(-1, Made(target)) for target in taken]
            self.waiters.wake()
            raise
        return taken

    async def close(self) -> None:
        """Tasks that wait hear Closed, or their loops end."""
        self._sub.close()
        self.waiters.wake_all()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _Taken:
        try:
            return await self.next()
        except (_amb.Closed, _amb.Stopped):
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
