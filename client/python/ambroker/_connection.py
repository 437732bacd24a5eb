# SPDX-License-Identifier: Apache-2.0
"""Connections, publishers and subscriptions: the synchronous face."""
from __future__ import annotations

import atexit
import collections
import json
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, SupportsIndex, TypeVar, Unpack, overload

from . import _amb, _channels, _objects
from ._deadlines import deadline_of, left_of, patience
from ._lease import Lease

if TYPE_CHECKING:
    from ._amb import ConnectOptions, LeaseFields, PublisherOptions, SendFields, SubscribeOptions, _Data, _Stream
    Makers = Mapping[str, Callable[[int, _amb.Message], Any]]
_Taken = TypeVar("_Taken")  # A Message, or what a callable of into= makes.

_LOG = logging.getLogger("ambroker")
_LEVELS = {"lost": logging.WARNING, "restored": logging.INFO, "gap": logging.WARNING,
           "slow": logging.WARNING}
PUBLISHERS_MAX = 256  # that publish() keeps open
_SLICE = 0.1


class _Open(Protocol):  # A connection of either face.
    _conn: _amb.Connection

    @property
    def closed(self) -> bool: ...


_open: weakref.WeakSet[_Open] = weakref.WeakSet()


def log_event(event: _amb.Event) -> None:
    """What becomes of an event where no on_event is given."""
    level = _LEVELS.get(event.type)
    if level is not None:
        _LOG.log(level, "%s: %s (count %d)", event.type, event.text, event.count)


def at_exit(conn: _Open) -> None:
    """It is flushed at the end of the program."""
    _open.add(conn)


class Publisher:
    """Messages to one topic."""

    def __init__(self, pub: _amb.Publisher) -> None:
        self._pub = pub
        self.send, self.post, self.send_many = pub.send, pub.post, pub.send_many
        self.flush, self.wait_subscribers = pub.flush, pub.wait_subscribers
        self.stat, self.close = pub.stat, pub.close

    @property
    def id(self) -> int:
        """The number by which events name it."""
        return self._pub.id

    def send_object(self, value: Any, timeout: float | None = None, **fields: Unpack[SendFields]) -> None:
        """Publishes an object of Python's, pickled; what has buffers is not copied into the pickle."""
        _objects.send(self._pub, _objects.Parts(value), timeout, fields)

    def lease(self, shape: SupportsIndex | Sequence[int], dtype: Any = "u1", *, timeout: float | None = None,
              stream: _Stream = None, **fields: Unpack[LeaseFields]) -> Lease:
        """Memory for one message, written in place: `with pub.lease((480, 640), "f4") as a: ...`"""
        return Lease(self._pub, shape, dtype, timeout, stream, fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        wait = 0.0  # for the link; none where the flush has waited in vain
        try:
            self.flush(patience(kind))
            wait = patience(kind)
        except _amb.Error:
            if kind is None:  # Else the exception of the body says more.
                raise
        finally:
            self.close(wait)


class Made:
    """What a callable of into= has made, for a call that was ended: the next one gives it."""

    def __init__(self, target: Any) -> None:
        self.target = target


class Subscription(Generic[_Taken]):
    """Messages of the topics of a pattern."""

    def __init__(self, sub: _amb.Subscription, into: Makers | None = None) -> None:
        self._sub = sub
        self._into = dict(into) if into else None
        # Messages whose callable has failed, and what calls had made that were ended.
        self._kept: collections.deque[_amb.Message | Made] = collections.deque()
        self._late: Exception | None = None  # ended a call that had messages to give: the next call raises it
        self.position, self.stat, self.close = sub.position, sub.stat, sub.close
        if self._into is None:
            self.next, self.next_many = sub.next, sub.next_many  # type: ignore[method-assign,assignment]

    @property
    def id(self) -> int:
        """The number by which events name it."""
        return self._sub.id

    def next(self, timeout: float | None = None) -> _Taken:  # pylint: disable=method-hidden
        """The next message; with into=, what the callable of its kind has made, filled in."""
        late, self._late = self._late, None
        if late is not None:
            raise late
        msg, was_kept = self._take_kept(), True
        if msg is None:
            msg, was_kept = self._take(timeout)
        try:
            target: _Taken = self._landed(msg)
            return target
        except BaseException:
            if was_kept:
                self._kept.appendleft(msg)
            else:
                self._kept.append(msg)
            self._sub.turn_back()  # A thread that waits takes it.
            raise

    def _take_kept(self) -> _amb.Message | Made | None:
        try:
            msg = self._kept.popleft()
        except IndexError:
            return None
        if self._kept:
            self._sub.turn_back()  # There may be another thread for the rest.
        return msg

    def _take(self, timeout: float | None) -> tuple[_amb.Message | Made, bool]:
        """The next message, and whether it is one that was kept meanwhile."""
        end = deadline_of(time.monotonic(), timeout)
        while True:
            try:
                return self._sub.next(left_of(timeout, end, time.monotonic())), False
            except _amb.WouldBlock:
                if timeout == 0:
                    raise
            msg = self._take_kept()
            if msg is not None:
                return msg, True

    def _landed(self, msg: _amb.Message | Made) -> Any:
        if isinstance(msg, Made):
            return msg.target
        make = self._into.get(msg.mem) if self._into is not None else None
        if make is None:
            return msg
        target = make(len(msg), msg)
        if target is None:
            raise TypeError("into: the callable has returned None, not memory")
        msg.read(into=target)
        return target

    def next_many(self, count: int, timeout: float | None = None) -> list[_Taken]:  # pylint: disable=method-hidden
        """Waits for one message, then takes those that are there. Where the callable fails for a further one,
        that one stays. The next call raises that exception, and the one behind it tries again."""
        taken = [self.next(timeout)]
        try:
            while len(taken) < count:
                taken.append(self.next(0))
        except _amb.Error:
            pass  # There is no further one; else the next call hears it, too.
        except Exception as error:  # pylint: disable=broad-exception-caught
            self._late = error
        except BaseException:
            self._kept.extendleft(Made(target) for target in reversed(taken))
            self._sub.turn_back()
            raise
        return taken

    def __iter__(self) -> Iterator[_Taken]:
        return iter(self._sub) if self._into is None else self._each()  # type: ignore[arg-type]

    def _each(self) -> Iterator[_Taken]:
        try:
            while True:
                yield self.next()
        except (_amb.Closed, _amb.Stopped):
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Connection:
    """A connection to a broker. As a context manager it flushes and closes when it is left.

    on_event: called with each Event, inside calls that wait and inside poll. Without one, what is
    lost, restored, missed and slow is logged.
    """

    def __init__(self, url: str | None = None, *, on_event: Callable[[_amb.Event], object] | None = None,
                 **options: Unpack[ConnectOptions]) -> None:
        self._conn = _amb.connect(url, **options)
        self._on_event = on_event or log_event
        self._publishers: dict[str, _amb.Publisher] = {}
        self._lock = threading.RLock()  # A handler, or on_event, may publish, too.
        self._pending = 0
        own = weakref.ref(self)

        def tell() -> None:
            conn = own()
            if conn is not None:
                conn._tell(conn._conn.news())

        self._conn.set_hook(tell)
        self.flush, self.drain, self.stop = self._conn.flush, self._conn.drain, self._conn.stop
        self.fileno, self.stat = self._conn.fileno, self._conn.stat
        at_exit(self)

    def _tell(self, news: tuple[list[_amb.Event], list[_amb.Pending]]) -> int:
        for event in news[0]:
            _amb.call(self._on_event, event)
        return len(news[0]) + len(news[1])

    @property
    def closed(self) -> bool:
        """Has close been called?"""
        return self._conn.closed

    def poll(self, timeout: float | None = None) -> int:
        """Waits for events and calls on_event; how many there were."""
        return self._tell(self._conn.poll(timeout))

    def publisher(self, topic: str, **options: Unpack[PublisherOptions]) -> Publisher:
        """A Publisher of one topic."""
        return Publisher(self._conn.publisher(topic, **options))

    def publish(self, topic: str, data: _Data, timeout: float | None = None, **fields: Unpack[SendFields]) -> None:
        """Publishes a copy of bytes, an array or a Message. The fields are those of send."""
        pub = self._publishers.get(topic)
        if pub is None:
            pub = self._publisher_of(topic)
        pub.send(data, timeout, **fields)

    def publish_object(self, topic: str, value: Any, timeout: float | None = None,
                       **fields: Unpack[SendFields]) -> None:
        """Publishes an object of Python's; see Publisher.send_object."""
        pub = self._publishers.get(topic) or self._publisher_of(topic)
        _objects.send(pub, _objects.Parts(value), timeout, fields)

    def _publisher_of(self, topic: str) -> _amb.Publisher:
        with self._lock:
            pub = self._publishers.get(topic)
            if pub is None:
                opened = self._conn.publisher(topic)
                while len(self._publishers) >= PUBLISHERS_MAX:
                    oldest = self._publishers.pop(next(iter(self._publishers)))
                    oldest.flush(5.0)  # Another thread may be inside: its last reference ends it.
                pub = self._publishers.setdefault(topic, opened)
        return pub

    @overload
    def subscribe(self, pattern: str, *, into: None = None, trust_pickle: bool = False,
                  **options: Unpack[SubscribeOptions]) -> Subscription[_amb.Message]: ...
    @overload
    def subscribe(self, pattern: str, *, into: Makers, trust_pickle: bool = False,
                  **options: Unpack[SubscribeOptions]) -> Subscription[Any]: ...

    def subscribe(self, pattern: str, *, into: Makers | None = None, trust_pickle: bool = False,
                  **options: Unpack[SubscribeOptions]) -> Subscription[Any]:
        """A Subscription to the topics of a pattern.

        trust_pickle: Message.object() may load pickles. Whoever may publish to these topics may
        then run what he wants in this process.

        into: {"host": f, "cuda": g}: a payload is copied to where the callable of its kind of
        memory says; it is given the length and the Message.
        """
        sub = self._conn.subscribe(pattern, **options)
        if trust_pickle:
            sub.trust_pickle()
        return Subscription(sub, into)

    def listen(self, name: str, *, trust_pickle: bool = False) -> _channels.Listener:
        """A Listener, whose channels others dial."""
        return _channels.Listener(self, name, trust_pickle)

    def dial(self, name: str, timeout: float | None = 5.0, *, trust_pickle: bool = False) -> _channels.Channel:
        """A Channel to whoever listens; NoResponders: nobody does."""
        return _channels.dial(self, name, timeout, trust_pickle)

    def request(self, topic: str, data: _Data, timeout: float | None = 5.0, *, trust_pickle: bool = False,
                **fields: Unpack[SendFields]) -> _amb.Message:
        """Publishes a request and waits for the first reply, a Message."""
        asked = self._conn.request_post(topic, data, timeout, **fields)
        self._pending += 1
        try:
            while not asked.done:
                # Of several threads one may poll another one's answer.
                self.poll(_SLICE if self._pending == 1 else _SLICE / 20)
        finally:
            self._pending -= 1
        return asked.result(trust_pickle)

    def admin(self, query: str = "status", timeout: float | None = 5.0) -> dict[str, Any]:
        """The broker's answer to "status", "topics", "clients", ...: a dict."""
        answer: dict[str, Any] = json.loads(self._conn.admin(query, timeout).tobytes())
        return answer

    def close(self, timeout: float | None = 5.0) -> None:
        """Calls of other threads turn back; then it flushes, and closes whatever the answer.
        Messages that are held stay valid."""
        self._conn.close(timeout)
        self._publishers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close(patience(kind))
        except _amb.Error:
            if kind is None:  # Else the exception of the body says more.
                raise


def connect(url: str | None = None, *, on_event: Callable[[_amb.Event], object] | None = None,
            **options: Unpack[ConnectOptions]) -> Connection:
    """Opens a session with a broker; docs/python.md has the options."""
    return Connection(url, on_event=on_event, **options)


@atexit.register
def _flush_all() -> None:
    """What is open at the end of the program is flushed, within a second. It is not closed:
    daemon threads may wait on it."""
    deadline = time.monotonic() + 1.0
    for conn in list(_open):
        try:
            if not conn.closed:
                conn._conn.flush(max(0.0, deadline - time.monotonic()))
        except _amb.Error:
            pass
