# SPDX-License-Identifier: Apache-2.0
"""Connections of an event loop: its reader on the descriptor of libamb."""
from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from . import _aio_channels, _amb
from ._aio_publisher import Publisher
from ._aio_subscription import Subscription
from ._connection import PUBLISHERS_MAX, at_exit, log_event
from ._deadlines import patience
from ._threads import threads
from ._waiters import Waiters

if TYPE_CHECKING:
    from ._amb import ConnectOptions, PublisherOptions, SendFields, SubscribeOptions, _Data, _Target
    from ._connection import Makers
_T = TypeVar("_T")

_HELD_SECONDS = 1.0  # a reader that waits so long may hold all its credit itself


class Connection:
    """A connection to a broker, of one event loop. It is open until it is closed.

    on_event: called with each Event, by the loop. Without one, what is lost, restored, missed and
    slow is logged.
    """

    def __init__(self, conn: _amb.Connection, loop: asyncio.AbstractEventLoop,
                 on_event: Callable[[_amb.Event], object] | None) -> None:
        self._conn = conn
        self._on_event = on_event or log_event
        self._publishers: dict[str, Publisher] = {}
        self._opening = asyncio.Lock()
        self._asked: dict[_amb.Pending, Waiters] = {}  # requests under way, and who waits for each
        self._dropped = 0
        self.loop = loop
        self.waiting: dict[Subscription[Any], None] = {}  # that tasks wait for, in the order of their coming
        self.resting: dict[Publisher, None] = {}  # that tasks wait for
        self.stop, self.stat = conn.stop, conn.stat
        self._look: asyncio.TimerHandle | None = None  # at readers that wait for long
        self._fd: int | None = conn.fileno()
        loop.add_reader(self._fd, self._hear)
        at_exit(self)

    @property
    def closed(self) -> bool:
        """Has close been called?"""
        return self._conn.closed

    @property
    def is_deaf(self) -> bool:
        """No more news will come: it is closed, stopped, or lost for good."""
        return self._fd is None

    # ---- news ----

    def _hear(self) -> None:
        try:
            news = self._conn.poll(0)
        except _amb.Error:
            self._deafen()
            news = self._conn.news()
        self._tell(*news)
        for sub in list(self.waiting):
            sub.waiters.wake()

    def _tell(self, events: list[_amb.Event], answered: list[_amb.Pending]) -> None:
        dropped = self._conn.stat()["events_dropped"] if events else self._dropped
        for event in events:
            if event.type == "room":
                self._tell_room(event.publisher)
            _amb.call(self._on_event, event)
        if dropped != self._dropped:
            self._dropped = dropped
            self._tell_room(0)
        for asked in answered:
            if asked in self._asked:
                self._asked[asked].wake_all()

    def _tell_room(self, number: int) -> None:
        for pub in list(self.resting):
            if number in (0, pub.id):
                pub.waiters.wake()

    def look_later(self) -> None:
        """At a reader that begins to wait."""
        if self._look is None and not self.is_deaf:
            self._look = self.loop.call_later(_HELD_SECONDS, self._look_at_readers)

    def _look_at_readers(self) -> None:
        self._look = None
        since = self.loop.time() - _HELD_SECONDS
        for sub in list(self.waiting):
            if sub.waits_since <= since:
                sub.warn_if_held()
            else:
                self.look_later()

    def _deafen(self) -> None:
        """Nothing comes any more: everybody who waits hears why."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if self._fd is not None:
            self.loop.remove_reader(self._fd)
            self._fd = None
        for sub in list(self.waiting):
            sub.waiters.wake_all()
        for waiters in [pub.waiters for pub in self.resting] + list(self._asked.values()):
            waiters.wake_all()

    # ---- calls ----

    async def in_thread(self, call: Callable[..., _T], *args: Any, **keywords: Any) -> _T:
        """A call that may wait for the broker's answer. Cancelling ends it."""
        return await threads.run(self.loop, functools.partial(call, *args, **keywords))

    async def publisher(self, topic: str, **options: Unpack[PublisherOptions]) -> Publisher:
        """A Publisher of one topic."""
        return Publisher(self, await self.in_thread(self._conn.publisher, topic, **options))

    async def publish(self, topic: str, data: _Data, timeout: float | None = None,
                      **fields: Unpack[SendFields]) -> None:
        """Publishes a copy of bytes, an array or a Message. The fields are those of send."""
        pub = self._publishers.get(topic) or await self._publisher_of(topic)
        await pub.send(data, timeout, **fields)

    async def publish_object(self, topic: str, value: Any, timeout: float | None = None,
                             **fields: Unpack[SendFields]) -> None:
        """Publishes an object of Python's; see Publisher.send_object."""
        pub = self._publishers.get(topic) or await self._publisher_of(topic)
        await pub.send_object(value, timeout, **fields)

    async def _publisher_of(self, topic: str) -> Publisher:
        async with self._opening:
            pub = self._publishers.get(topic)
            if pub is None:
                pub = await self.publisher(topic)
                while len(self._publishers) >= PUBLISHERS_MAX:
                    oldest = self._publishers.pop(next(iter(self._publishers)))
                    await oldest.flush(5.0)  # A task may be inside: its reference is the last one.
                self._publishers[topic] = pub
        return pub

    @overload
    async def subscribe(self, pattern: str, *, into: None = None, trust_pickle: bool = False,
                        **options: Unpack[SubscribeOptions]) -> Subscription[_amb.Message]: ...
    @overload
    async def subscribe(self, pattern: str, *, into: Makers, trust_pickle: bool = False,
                        **options: Unpack[SubscribeOptions]) -> Subscription[Any]: ...

    async def subscribe(self, pattern: str, *, into: Makers | None = None, trust_pickle: bool = False,
                        **options: Unpack[SubscribeOptions]) -> Subscription[Any]:
        """A Subscription to the topics of a pattern.

        trust_pickle: Message.object() may load pickles. Whoever may publish to these topics may
        then run what he wants in this process.

        into: {"host": f, "cuda": g}: a payload is copied to where the callable of its kind of
        memory says; it is given the length and the Message.
        """
        sub = await self.in_thread(self._conn.subscribe, pattern, **options)
        if trust_pickle:
            sub.trust_pickle()
        is_far = options.get("mem") not in (None, "host", "as_sent")
        return Subscription(self, sub, into, is_far)

    async def listen(self, name: str, *, trust_pickle: bool = False) -> _aio_channels.Listener:
        """A Listener, whose channels others dial."""
        return await _aio_channels.listen(self, name, trust_pickle)

    async def dial(self, name: str, timeout: float | None = 5.0, *,
                   trust_pickle: bool = False) -> _aio_channels.Channel:
        """A Channel to whoever listens; NoResponders: nobody does."""
        return await _aio_channels.dial(self, name, timeout, trust_pickle)

    async def request(self, topic: str, data: _Data, timeout: float | None = 5.0, *,
                      trust_pickle: bool = False, **fields: Unpack[SendFields]) -> _amb.Message:
        """Publishes a request and waits for the first reply, a Message."""
        asked = await self.in_thread(self._conn.request_post, topic, data, timeout, **fields)
        self._asked[asked] = Waiters(self.loop)
        try:
            while not asked.done:
                if self.is_deaf:
                    self._conn.poll(0)  # It says why.
                await self._asked[asked].wait(None)
        finally:
            del self._asked[asked]
        return asked.result(trust_pickle)

    async def reply(self, request: _amb.Message, data: _Data, timeout: float | None = None,
                    **fields: Unpack[SendFields]) -> None:
        """Answers a request; Message.reply would keep the loop waiting."""
        await self.in_thread(request.reply, data, timeout=timeout, **fields)

    async def fetch(self, msg: _amb.Message, timeout: float | None = None) -> None:
        """Brings the payload of a lazy message."""
        await self.in_thread(msg.fetch, timeout)

    @overload
    async def read(self, msg: _amb.Message, offset: int = 0, size: int | None = None, *, into: None = None,
                   timeout: float | None = None) -> bytes: ...
    @overload
    async def read(self, msg: _amb.Message, offset: int = 0, size: int | None = None, *, into: _Target,
                   timeout: float | None = None) -> int: ...

    async def read(self, msg: _amb.Message, offset: int = 0, size: int | None = None, *,
                   into: _Target | None = None, timeout: float | None = None) -> bytes | int:
        """Some of a message's bytes, or how many were written into a buffer; lazy ones, too."""
        call: Callable[..., bytes | int] = msg.read
        return await self.in_thread(call, offset, size, into=into, timeout=timeout)

    async def admin(self, query: str = "status", timeout: float | None = 5.0) -> dict[str, Any]:
        """The broker's answer to "status", "topics", "clients", ...: a dict."""
        answer = await self.in_thread(self._conn.admin, query, timeout)
        answered: dict[str, Any] = json.loads(answer.tobytes())
        return answered

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until the broker has confirmed what was published and acknowledged before the call."""
        await self.in_thread(self._conn.flush, timeout)

    async def drain(self, timeout: float | None = None) -> None:
        """Takes no new messages, and waits until held ones are released and all is confirmed."""
        await self.in_thread(self._conn.drain, timeout)

    async def close(self, timeout: float | None = 5.0) -> None:
        """Whoever waits hears Closed; then it flushes, and closes whatever the answer. Messages that
        are held stay valid."""
        self._conn.shut()
        self._deafen()
        await self.in_thread(self._conn.close, timeout)
        self._publishers.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            await self.close(patience(kind))
        except _amb.Error:
            if kind is None:  # Else the exception of the body says more.
                raise


class Connecting:
    """`await` it, or enter it: `async with connect(url) as conn`."""

    def __init__(self, url: str | None, on_event: Callable[[_amb.Event], object] | None,
                 options: ConnectOptions) -> None:
        self._url, self._on_event, self._options = url, on_event, options
        self._conn: Connection | None = None

    async def _open(self) -> Connection:
        loop = asyncio.get_running_loop()
        conn = await threads.run(loop, functools.partial(_amb.connect, self._url, **self._options))
        return Connection(conn, loop, self._on_event)

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._open().__await__()

    async def __aenter__(self) -> Connection:
        self._conn = await self
        return self._conn

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._conn is not None:
            await self._conn.__aexit__(kind, *rest)
