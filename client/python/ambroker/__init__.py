# SPDX-License-Identifier: Apache-2.0
"""ambroker: messages of host and GPU buffers, by a broker.

    with ambroker.connect("unix:///tmp/b.sock") as conn:
        sub = conn.subscribe("frames.>")
        conn.publish("frames.left", b"...")
        msg = sub.next(timeout=1)
        memoryview(msg)                     # the payload where it lies, read-only
"""
from . import _amb
from ._amb import *  # noqa: F403  the exceptions and types
from ._amb import Error, Message, Publisher, Subscription, version as __version__

__all__ = ["connect", "Connection", "Publisher", "Subscription", "Message", "Error"]

_ACK = {None: 0, "none": _amb.ACK_NONE, "explicit": _amb.ACK_EXPLICIT,
        "cumulative": _amb.ACK_CUMULATIVE}
_START = {"new": _amb.START_NEW, "last": _amb.START_LAST, "first": _amb.START_FIRST}
_CONFIRM = {"accepted": _amb.CONFIRM_ACCEPTED, "delivered": _amb.CONFIRM_DELIVERED}


def _choose(what, names, name):
    if name not in names:
        known = ", ".join(repr(n) for n in names if n is not None)
        raise ValueError(f"{what}: one of {known}, not {name!r}")
    return names[name]


class Connection:
    """A connection to a broker. As a context manager it flushes and closes when it is left."""

    def __init__(self, url=None, **options):
        self._conn = _amb.connect(url, **options)
        self.publish = self._conn.publish
        self.flush = self._conn.flush
        self.stop = self._conn.stop

    def publisher(self, topic, *, name=None, confirm="accepted"):
        """A Publisher of one topic."""
        return self._conn.publisher(topic, name=name,
                                    confirm=_choose("confirm", _CONFIRM, confirm))

    def subscribe(self, pattern, *, group=None, durable=None, filter=None, ack=None, start="new",
                  copy=False, credit_msgs=0):
        """A Subscription to the topics of a pattern."""
        return self._conn.subscribe(pattern, group=group, durable=durable, filter=filter,
                                    ack=_choose("ack", _ACK, ack),
                                    start=_choose("start", _START, start), copy=copy,
                                    credit_msgs=credit_msgs)

    def close(self, timeout=5.0):
        """Flushes, then closes whatever the answer. Messages that are held stay valid."""
        try:
            if timeout != 0:
                self._conn.flush(timeout)
        except _amb.Closed:
            pass
        finally:
            self._conn.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def connect(url=None, **options):
    """Opens a session with a broker; `amb_connect` says what url is."""
    return Connection(url, **options)
