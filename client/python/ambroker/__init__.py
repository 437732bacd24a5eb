# SPDX-License-Identifier: Apache-2.0
"""ambroker: messages of host and GPU buffers, by a broker.

    with ambroker.Broker() as broker, ambroker.connect(broker.url) as conn:
        sub = conn.subscribe("frames.>")
        conn.publish("frames.left", b"...")
        msg = sub.next(timeout=1)
        memoryview(msg)                     # the payload where it lies, read-only
"""
from . import _amb
from ._amb import *  # noqa: F403  the exceptions and types
from ._amb import Error, Event, Message, version as __version__
from ._broker import Broker
from ._connection import Connection, Publisher, Subscription, connect

__all__ = ["connect", "Broker", "Connection", "Publisher", "Subscription", "Message", "Event",
           "Error"] + [name for name, value in vars(_amb).items()
                       if isinstance(value, type) and issubclass(value, Error) and value is not Error]
