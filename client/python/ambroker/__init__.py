# SPDX-License-Identifier: Apache-2.0
"""ambroker: messages of host and GPU buffers, by a broker.

    with ambroker.Broker() as broker, ambroker.connect(broker.url) as conn:
        sub = conn.subscribe("frames.>")
        conn.publish("frames.left", b"...")
        msg = sub.next(timeout=1)
        memoryview(msg)                     # the payload where it lies, read-only
"""
import importlib
from typing import TYPE_CHECKING

from ._amb import (
    Event, Message, Auth, Busy, Canceled, Closed, Cuda, Disassociated, Error, Expired,
    Forbidden, Forked, HeldWarning, Internal, Invalid, Kicked, Kind, Limit, Lost, NoMemory, NoResponders,
    NotFound, NotSupported, Protocol, Rejected, Stale, Stopped, Timeout, TooLarge, Topic, Ucx,
    Unknown, Unreachable, Version, WouldBlock, WrongState, interface_address, version as __version__)
from ._broker import Broker
from ._connection import Connection, Publisher, Subscription, connect

__all__ = [
    "connect", "interface_address", "Broker", "Connection", "Publisher", "Subscription", "Message", "Event", "Auth",
    "Busy", "Canceled", "Closed", "Cuda", "Disassociated", "Error", "Expired", "Forbidden",
    "Forked", "HeldWarning", "Internal", "Invalid", "Kicked", "Kind", "Limit", "Lost", "NoMemory",
    "NoResponders", "NotFound", "NotSupported", "Protocol", "Rejected", "Stale", "Stopped",
    "Timeout", "TooLarge", "Topic", "Ucx", "Unknown", "Unreachable", "Version", "WouldBlock",
    "WrongState"]

if TYPE_CHECKING:
    from . import aio as aio
else:
    def __getattr__(name):
        """`ambroker.aio` comes when it is asked for: asyncio takes a while to import."""
        if name == "aio":
            return importlib.import_module(".aio", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
