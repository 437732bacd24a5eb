# SPDX-License-Identifier: Apache-2.0
"""Channels: two topics with one writer and one reader each.

    dial ── request on channel.NAME, with an id ──► accept
    channel.NAME.ID.up: what the one that dialled sends; channel.NAME.ID.down: the other way

Each side subscribes before the other one publishes. An end sends its last word, so that a peer that has
left is told from one that is lost. That one shows as a topic without subscribers.
"""
from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, Unpack

from . import _amb
from ._deadlines import deadline_of, left_of, patience
from ._errors import error

if TYPE_CHECKING:
    from ._amb import SendFields, SubscribeOptions, _Data, _Target
    from ._connection import Connection, Publisher, Subscription

_ID_LEN = 32
_ID = re.compile(f"[0-9a-f]{{{_ID_LEN}}}")
_LAST = "ambroker.last"  # the property of a last word
_BLOCK_SECONDS = 86400  # how long a writer waits for its reader before the broker drops
GONE_SECONDS = 1.0  # without subscribers; after a reconnect the peer may come back
_SLICE_SECONDS = 0.25  # of a wait, between two looks at the peer
GROUP = "listeners"
LAST: SendFields = {"props": {_LAST: 1}}
READER: SubscribeOptions = {"policy": "block", "block": _BLOCK_SECONDS}


def topic_of(name: str) -> str:
    """Of its requests."""
    return f"channel.{name}"


def new_id() -> str:
    """Of a channel that is to be."""
    return os.urandom(16).hex()


def topics_of(name: str, number: str) -> tuple[str, str]:
    """(what the one that dials reads, what it writes)"""
    return f"channel.{name}.{number}.down", f"channel.{name}.{number}.up"


def id_of(request: _amb.Message) -> str | None:
    """The id that a request names; None: it is none, however large."""
    if len(request) != _ID_LEN:
        return None
    text = request.tobytes().decode("ascii", "replace")
    return text if _ID.fullmatch(text) and request.wants_reply else None


def slice_of(timeout: float | None, deadline: float | None, now: float) -> float:
    """The timeout of the next wait, behind which the peer is looked at."""
    left = left_of(timeout, deadline, now)
    return _SLICE_SECONDS if left is None else min(_SLICE_SECONDS, left)


class Peer:
    """What one side knows of the other."""

    def __init__(self, stat: Callable[[], dict[str, Any]], clock: Callable[[], float] = time.monotonic) -> None:
        self._stat, self._clock = stat, clock
        self._gone_since: float | None = None
        self.error: _amb.Error | None = None

    def take(self, msg: _amb.Message) -> _amb.Message:
        """The message; Closed: it is the last word; Lost: some before it were lost."""
        if msg.lost:
            self.error = error(_amb.Lost, "messages of the channel were lost")
        elif msg.prop(_LAST) is not None:
            self.error = error(_amb.Closed, "the peer has closed the channel")
        self.check()
        return msg

    def look(self) -> None:
        """Nothing has come for a while. Lost: the peer is gone."""
        stat = self._stat()
        if stat["subscribers"] != 0 or stat["blocked"] == "lost":
            self._gone_since = None
        elif self._gone_since is None:
            self._gone_since = self._clock()
        elif self._clock() - self._gone_since >= GONE_SECONDS:
            self.error = error(_amb.Lost, "the peer of the channel is gone")
        self.check()

    def check(self) -> None:
        """Raises what has ended it."""
        if self.error is not None:
            raise self.error.with_traceback(None)  # It would grow, and hold what callers have.


class Channel:
    """One end of a channel."""

    def __init__(self, sub: Subscription[_amb.Message], pub: Publisher) -> None:
        self._sub, self._pub = sub, pub
        self._peer = Peer(pub.stat)
        self.lease, self.flush, self.post = pub.lease, pub.flush, pub.post

    def send(self, data: _Data, timeout: float | None = None, **fields: Unpack[SendFields]) -> None:
        """Sends a copy of bytes, an array or a Message; Closed or Lost where the peer is known to be."""
        self._peer.check()
        self._pub.send(data, timeout, **fields)

    def send_object(self, value: Any, timeout: float | None = None, **fields: Unpack[SendFields]) -> None:
        """Sends an object; Message.object() where the other end says trust_pickle."""
        self._peer.check()
        self._pub.send_object(value, timeout, **fields)

    def recv(self, timeout: float | None = None) -> _amb.Message:
        """The next Message. Closed: the peer has closed the channel; Lost: it is gone, or a message is."""
        self._peer.check()
        end = deadline_of(time.monotonic(), timeout)
        while True:
            try:
                return self._peer.take(self._sub.next(slice_of(timeout, end, time.monotonic())))
            except _amb.Timeout:
                self._peer.look()
                if end is not None and time.monotonic() >= end:
                    raise

    def recv_into(self, buffer: _Target, timeout: float | None = None) -> int:
        """The next message's bytes into memory of one's own; how many. What is too large raises
        ValueError, and is gone."""
        return self.recv(timeout).read(into=buffer)

    def close(self, timeout: float | None = 5.0) -> None:
        """Tells the peer, when all before has been confirmed or the time is over."""
        try:
            end = deadline_of(time.monotonic(), timeout)
            if self._peer.error is None:
                self._pub.send(b"", timeout, **LAST)
                self._pub.flush(left_of(timeout, end, time.monotonic()))
        except _amb.Error:
            pass  # The peer finds it gone.
        finally:
            self._peer.error = error(_amb.Closed, "the channel is closed")
            self._sub.close()
            self._pub.close(timeout)

    def __iter__(self) -> Iterator[_amb.Message]:
        try:
            while True:
                yield self.recv()
        except _amb.Closed:
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(patience(kind))


class Listener:
    """Channels that others dial: `for channel in conn.listen(name)`. Of several listeners of one name
    each dial reaches one."""

    def __init__(self, conn: Connection, name: str, trust_pickle: bool) -> None:
        self._conn, self._name, self._trust = conn, name, trust_pickle
        self._sub = conn.subscribe(topic_of(name), group=GROUP)

    def accept(self, timeout: float | None = None) -> Channel:
        """The next Channel. Requests that are none are passed over, and so are dials that have ended."""
        end = deadline_of(time.monotonic(), timeout)
        while True:
            request = self._sub.next(left_of(timeout, end, time.monotonic()))
            number = id_of(request)
            if number is not None:
                channel = self._answer(request, number)
                if channel is not None:
                    return channel

    def _answer(self, request: _amb.Message, number: str) -> Channel | None:
        writes, reads = topics_of(self._name, number)
        sub = self._conn.subscribe(reads, trust_pickle=self._trust, **READER)
        pub = self._conn.publisher(writes)
        try:
            pub.wait_subscribers(1, GONE_SECONDS)
            request.reply(b"", timeout=GONE_SECONDS)
        except _amb.Timeout:
            sub.close()
            pub.close()
            return None
        return Channel(sub, pub)

    def close(self) -> None:
        """Nobody can dial any more; channels stay."""
        self._sub.close()

    def __iter__(self) -> Iterator[Channel]:
        try:
            while True:
                yield self.accept()
        except (_amb.Closed, _amb.Stopped):
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def dial(conn: Connection, name: str, timeout: float | None, trust_pickle: bool) -> Channel:
    """A Channel to whoever listens."""
    number = new_id()
    reads, writes = topics_of(name, number)
    sub = conn.subscribe(reads, trust_pickle=trust_pickle, **READER)
    pub = None
    try:
        conn.request(topic_of(name), number.encode(), timeout)
        pub = conn.publisher(writes)
        pub.wait_subscribers(1, timeout)
    except BaseException:
        sub.close()
        if pub is not None:
            pub.close()
        raise
    return Channel(sub, pub)
