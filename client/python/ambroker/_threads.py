# SPDX-License-Identifier: Apache-2.0
"""Threads for calls that wait, of programs with an event loop."""
from __future__ import annotations

import asyncio
import collections
import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from . import _amb

_T = TypeVar("_T")

_THREADS_MAX = 256  # further calls wait for one
_IDLE_MAX = 8  # threads that are kept for the next call


class _Job(Generic[_T]):
    """One call, whose future is somebody's in an event loop. It ends when that is cancelled, or is_over says so."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], _T],
                 is_over: Callable[[], bool] | None) -> None:
        self._loop, self._call = loop, call
        self.future: asyncio.Future[_T] = loop.create_future()
        self._is_over = is_over or self.future.cancelled

    def run(self) -> None:
        if self.future.cancelled():
            return
        tell: Callable[[Any], object] = self.future.set_result
        try:
            said: Any = _amb.interruptible(self._call, self._is_over)
        except BaseException as raised:  # pylint: disable=broad-except
            tell, said = self.future.set_exception, raised
        if self.future.cancelled():
            return  # What was made is closed here, where that may wait.
        try:
            self._loop.call_soon_threadsafe(self._finish, tell, said)
        except RuntimeError:
            pass  # The loop is closed.

    def _finish(self, tell: Callable[[Any], object], said: Any) -> None:
        if not self.future.done():
            tell(said)


class Threads:
    """Made as needed, and daemons: a call that waits does not hold the end of the program up."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: collections.deque[_Job[Any]] = collections.deque()
        self._idle = self._count = 0

    def run(self, loop: asyncio.AbstractEventLoop, call: Callable[[], _T],
            is_over: Callable[[], bool] | None = None) -> asyncio.Future[_T]:
        """A future of call(). A cancelled one ends the waits of the call, within 0.1 s; so does is_over() where it is
        given, by InterruptedError."""
        job = _Job(loop, call, is_over)
        with self._changed:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._changed.notify()
            elif self._count < _THREADS_MAX:
                self._begin(job)
        return job.future

    def _begin(self, job: _Job[Any]) -> None:
        try:
            threading.Thread(target=self._work, name="ambroker", daemon=True).start()
            self._count += 1
        except RuntimeError:  # The system has no further one.
            if self._count == 0:
                self._jobs.remove(job)
                raise

    def _next(self) -> _Job[Any] | None:
        with self._changed:
            while not self._jobs:
                if self._idle >= _IDLE_MAX:
                    self._count -= 1
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            return self._jobs.popleft()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run()
            del job  # Its result is not kept while this thread rests.


threads = Threads()


def _forget() -> None:
    threads.__init__()  # type: ignore[misc]  # A forked child has none of them.


os.register_at_fork(after_in_child=_forget)
