# SPDX-License-Identifier: Apache-2.0
"""Channels of an event loop; see _channels."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, Unpack

from . import _amb
from ._channels import GONE_SECONDS, GROUP, LAST, READER, Peer, id_of, new_id, slice_of, topic_of, topics_of
from ._deadlines import deadline_of, left_of, patience
from ._errors import error

if TYPE_CHECKING:
    from ._aio_connection import Connection
    from ._aio_publisher import Publisher
    from ._aio_subscription import Subscription
    from ._amb import SendFields, _Data, _Target


class Channel:
    """One end of a channel."""

    def __init__(self, conn: Connection, sub: Subscription[_amb.Message], pub: Publisher) -> None:
        self._conn, self._sub, self._pub = conn, sub, pub
        self._peer = Peer(pub.stat)
        self.lease, self.flush, self.post = pub.lease, pub.flush, pub.post

    async def send(self, data: _Data, timeout: float | None = None, **fields: Unpack[SendFields]) -> None:
        """Sends a copy of bytes, an array or a Message; Closed or Lost where the peer is known to be."""
        self._peer.check()
        await self._pub.send(data, timeout, **fields)

    async def send_object(self, value: Any, timeout: float | None = None, **fields: Unpack[SendFields]) -> None:
        """Sends an object; Message.object() where the other end says trust_pickle."""
        self._peer.check()
        await self._pub.send_object(value, timeout, **fields)

    async def recv(self, timeout: float | None = None) -> _amb.Message:
        """The next Message. Closed: the peer has closed the channel; Lost: it is gone, or a message is."""
        self._peer.check()
        loop = self._conn.loop
        end = deadline_of(loop.time(), timeout)
        while True:
            try:
                return self._peer.take(await self._sub.next(slice_of(timeout, end, loop.time())))
            except _amb.Timeout:
                self._peer.look()
                if end is not None and loop.time() >= end:
                    raise

    async def recv_into(self, buffer: _Target, timeout: float | None = None) -> int:
        """The next message's bytes into memory of one's own; how many. What is too large raises
        ValueError, and is gone."""
        return (await self.recv(timeout)).read(into=buffer)

    async def close(self, timeout: float | None = 5.0) -> None:
        """Tells the peer, when all before has been confirmed or the time is over."""
        try:
            end = deadline_of(self._conn.loop.time(), timeout)
            if self._peer.error is None:
                await self._pub.send(b"", timeout, **LAST)
                await self._pub.flush(left_of(timeout, end, self._conn.loop.time()))
        except _amb.Error:
            pass  # The peer finds it gone.
        finally:
            self._peer.error = error(_amb.Closed, "the channel is closed")
            await self._sub.close()
            await self._pub.close(timeout)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _amb.Message:
        try:
            return await self.recv()
        except _amb.Closed:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(patience(kind))


class Listener:
    """Channels that others dial: `async for channel in await conn.listen(name)`. Of several listeners
    of one name each dial reaches one."""

    def __init__(self, conn: Connection, name: str, sub: Subscription[_amb.Message], trust_pickle: bool) -> None:
        self._conn, self._name, self._sub, self._trust = conn, name, sub, trust_pickle

    async def accept(self, timeout: float | None = None) -> Channel:
        """The next Channel. Requests that are none are passed over, and so are dials that have ended."""
        loop = self._conn.loop
        end = deadline_of(loop.time(), timeout)
        while True:
            request = await self._sub.next(left_of(timeout, end, loop.time()))
            number = id_of(request)
            if number is not None:
                channel = await self._answer(request, number)
                if channel is not None:
                    return channel

    async def _answer(self, request: _amb.Message, number: str) -> Channel | None:
        writes, reads = topics_of(self._name, number)
        sub = await self._conn.subscribe(reads, trust_pickle=self._trust, **READER)
        pub = await self._conn.publisher(writes)
        try:
            await pub.wait_subscribers(1, GONE_SECONDS)
            await self._conn.reply(request, b"", timeout=GONE_SECONDS)
        except _amb.Timeout:
            await sub.close()
            await pub.close()
            return None
        return Channel(self._conn, sub, pub)

    async def close(self) -> None:
        """Nobody can dial any more; channels stay."""
        await self._sub.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Channel:
        try:
            return await self.accept()
        except (_amb.Closed, _amb.Stopped):
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def listen(conn: Connection, name: str, trust_pickle: bool) -> Listener:
    """A Listener."""
    sub = await conn.subscribe(topic_of(name), group=GROUP)
    return Listener(conn, name, sub, trust_pickle)


async def dial(conn: Connection, name: str, timeout: float | None, trust_pickle: bool) -> Channel:
    """A Channel to whoever listens."""
    number = new_id()
    reads, writes = topics_of(name, number)
    sub = await conn.subscribe(reads, trust_pickle=trust_pickle, **READER)
    pub = None
    try:
        await conn.request(topic_of(name), number.encode(), timeout)
        pub = await conn.publisher(writes)
        await pub.wait_subscribers(1, timeout)
    except BaseException:
        await sub.close()
        if pub is not None:
            await pub.close()
        raise
    return Channel(conn, sub, pub)
