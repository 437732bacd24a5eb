# SPDX-License-Identifier: Apache-2.0
"""The package for asyncio, and for other loops that have add_reader, such as uvloop's.

    async with ambroker.aio.connect(url) as conn:
        async for msg in await conn.subscribe("jobs", group="w", ack="explicit"):
            await conn.publish("done", msg)     # forwarded
            msg.ack()

Everything is of one loop, and used by it alone; `stop` by anybody. Messages are those of the
synchronous face.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from ._aio_connection import Connecting, Connection
from ._aio_publisher import Publisher
from ._aio_subscription import Subscription

if TYPE_CHECKING:
    from . import _amb
    from ._amb import ConnectOptions

__all__ = ["connect", "Connection", "Publisher", "Subscription"]


def connect(url: str | None = None, *, on_event: Callable[[_amb.Event], object] | None = None,
            **options: Unpack[ConnectOptions]) -> Connecting:
    """Opens a session with a broker: `await` it, or enter it. The options are those of
    ambroker.connect."""
    return Connecting(url, on_event, options)
