# SPDX-License-Identifier: Apache-2.0
"""What tasks of an event loop wait for."""
from __future__ import annotations

import asyncio
import collections

_RUN_MAX = 64  # calls without a pause, then it is the loop's turn


class Waiters:
    """Tasks that wait for the same thing, the first to come at the front."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._futures: collections.OrderedDict[asyncio.Future[bool], None] = collections.OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._futures)

    async def wait(self, deadline: float | None, is_first: bool = False) -> bool:
        """False: the time is over. A wake that comes to a task as it is cancelled goes to the next.

        is_first: it was woken in vain, and keeps its place.
        """
        future: asyncio.Future[bool] = self._loop.create_future()
        timer = None
        if deadline is not None:
            timer = self._loop.call_at(deadline, self._expire, future)
        self._futures[future] = None
        if is_first:
            self._futures.move_to_end(future, last=False)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.wake()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self._futures.pop(future, None)

    def _expire(self, future: asyncio.Future[bool]) -> None:
        if not future.done():
            self._futures.pop(future, None)
            future.set_result(False)

    def wake(self) -> None:
        """The first of them looks again."""
        while self._futures:
            future, _ = self._futures.popitem(last=False)
            if not future.done():
                future.set_result(True)
                return

    def wake_all(self) -> None:
        """Each of them looks again."""
        for _ in range(len(self._futures)):
            self.wake()


class Run:
    """Calls that needed no wait: after some of them the loop gets a turn."""

    def __init__(self) -> None:
        self._left = _RUN_MAX

    async def step(self) -> None:
        """Before a call, so that a task that is cancelled here has done nothing."""
        self._left -= 1
        if self._left <= 0:
            self._left = _RUN_MAX
            await asyncio.sleep(0)

    def rest(self) -> None:
        """It has waited."""
        self._left = _RUN_MAX
