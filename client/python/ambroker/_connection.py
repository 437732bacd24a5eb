# SPDX-License-Identifier: Apache-2.0
"""Connections, publishers and subscriptions: the synchronous face."""
import atexit
import json
import logging
import threading
import time
import weakref

from . import _amb
from ._lease import Lease

_LOG = logging.getLogger("ambroker")
_LEVELS = {"lost": logging.WARNING, "restored": logging.INFO, "gap": logging.WARNING,
           "slow": logging.WARNING}
_PUBLISHERS_MAX = 256  # that publish() keeps open
_SLICE = 0.1
_open = weakref.WeakSet()


def log_event(event):
    """What becomes of an event where no on_event is given."""
    level = _LEVELS.get(event.type)
    if level is not None:
        _LOG.log(level, "%s: %s (count %d)", event.type, event.text, event.count)


class Publisher:
    """Messages to one topic."""

    def __init__(self, pub):
        self._pub = pub
        self.send, self.post, self.send_many = pub.send, pub.post, pub.send_many
        self.flush, self.wait_subscribers = pub.flush, pub.wait_subscribers
        self.stat, self.close = pub.stat, pub.close

    @property
    def id(self):
        """The number by which events name it."""
        return self._pub.id

    def lease(self, shape, dtype="u1", *, timeout=None, stream=None, **fields):
        """Memory for one message, written in place: `with pub.lease((480, 640), "f4") as a: ...`"""
        return Lease(self._pub, shape, dtype, timeout, stream, fields)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.flush(5.0)
        finally:
            self.close()


class Subscription:
    """Messages of the topics of a pattern."""

    def __init__(self, sub, into=None):
        self._sub = sub
        self._into = dict(into) if into else None
        self._kept = None  # a message whose callable has failed
        self._lock = threading.Lock()
        self.position, self.stat, self.close = sub.position, sub.stat, sub.close
        if self._into is None:
            self.next, self.next_many = sub.next, sub.next_many

    @property
    def id(self):
        """The number by which events name it."""
        return self._sub.id

    def next(self, timeout=None):  # pylint: disable=method-hidden
        """The next message; with into=, what the callable of its kind has made, filled in."""
        with self._lock:
            if self._kept is None:
                self._kept = self._sub.next(timeout)
            target = self._landed(self._kept)
            self._kept = None
            return target

    def _landed(self, msg):
        make = self._into.get(msg.mem)
        if make is None:
            return msg
        target = make(len(msg), msg)
        if target is None:
            raise TypeError("into: the callable has returned None, not memory")
        msg.read(into=target)
        return target

    def next_many(self, count, timeout=None):  # pylint: disable=method-hidden
        """Waits for one message, then takes those that are there."""
        taken = [self.next(timeout)]
        try:
            while len(taken) < count:
                taken.append(self.next(0))
        except _amb.WouldBlock:
            pass
        return taken

    def __iter__(self):
        return iter(self._sub) if self._into is None else self._each()

    def _each(self):
        try:
            while True:
                yield self.next()
        except (_amb.Closed, _amb.Stopped):
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Connection:
    """A connection to a broker. As a context manager it flushes and closes when it is left.

    on_event: called with each Event, inside calls that wait and inside poll. Without one, what is
    lost, restored, missed and slow is logged.
    """

    def __init__(self, url=None, *, on_event=None, **options):
        self._conn = _amb.connect(url, **options)
        self._on_event = on_event or log_event
        self._publishers = {}
        self._lock = threading.Lock()
        self._pending = 0
        own = weakref.ref(self)

        def tell():
            conn = own()
            if conn is not None:
                conn._tell(conn._conn.news())

        self._conn.set_hook(tell)
        self.flush, self.drain, self.stop = self._conn.flush, self._conn.drain, self._conn.stop
        self.fileno = self._conn.fileno
        _open.add(self)

    def _tell(self, news):
        for event in news[0]:
            self._on_event(event)
        return len(news[0]) + len(news[1])

    @property
    def closed(self):
        """Has close been called?"""
        return self._conn.closed

    def poll(self, timeout=None):
        """Waits for events and calls on_event; how many there were."""
        return self._tell(self._conn.poll(timeout))

    def publisher(self, topic, **options):
        """A Publisher of one topic."""
        return Publisher(self._conn.publisher(topic, **options))

    def publish(self, topic, data, timeout=None, **fields):
        """Publishes a copy of bytes, an array or a Message. The fields are those of send."""
        pub = self._publishers.get(topic)
        if pub is None:
            pub = self._publisher_of(topic)
        pub.send(data, timeout, **fields)

    def _publisher_of(self, topic):
        with self._lock:
            pub = self._publishers.get(topic)
            if pub is None:
                pub = self._conn.publisher(topic)
                while len(self._publishers) >= _PUBLISHERS_MAX:
                    oldest = self._publishers.pop(next(iter(self._publishers)))
                    oldest.flush(5.0)  # Another thread may be inside: its last reference ends it.
                self._publishers[topic] = pub
        return pub

    def subscribe(self, pattern, *, into=None, **options):
        """A Subscription to the topics of a pattern.

        into: {"host": f, "cuda": g}: a payload is copied to where the callable of its kind of
        memory says; it is given the length and the Message.
        """
        return Subscription(self._conn.subscribe(pattern, **options), into)

    def request(self, topic, data, timeout=5.0, **fields):
        """Publishes a request and waits for the first reply, a Message."""
        asked = self._conn.request_post(topic, data, timeout, **fields)
        self._pending += 1
        try:
            while not asked.done:
                # Of several threads one may poll another one's answer.
                self.poll(_SLICE if self._pending == 1 else _SLICE / 20)
        finally:
            self._pending -= 1
        return asked.result()

    def admin(self, query="status", timeout=5.0):
        """The broker's answer to "status", "topics", "clients", ...: a dict."""
        return json.loads(self._conn.admin(query, timeout).tobytes())

    def close(self, timeout=5.0):
        """Calls of other threads turn back; then it flushes, and closes whatever the answer.
        Messages that are held stay valid."""
        self._conn.close(timeout)
        self._publishers.clear()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.close()
        except _amb.Error:
            if kind is None:  # Else the exception of the body says more.
                raise


def connect(url=None, **options):
    """Opens a session with a broker; docs/python.md has the options."""
    return Connection(url, **options)


@atexit.register
def _flush_all():
    """What is open at the end of the program is flushed, within a second. It is not closed:
    daemon threads may wait on it."""
    deadline = time.monotonic() + 1.0
    for conn in list(_open):
        try:
            if not conn.closed:
                conn.flush(max(0.0, deadline - time.monotonic()))
        except _amb.Error:
            pass
