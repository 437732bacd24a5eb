# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments, callbacks that raise, Ctrl-C where Python runs inside a call or where a link reads a buffer, other
interpreters: each has its error, and the next call works."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from patience import patience
from prompt import PROMPT, READY, interrupt, interrupted

WAIT = 10


def works(conn, sub):
    """The connection is unhurt."""
    conn.publish("works", b"still")
    assert bytes(sub.next(WAIT)) == b"still"


def test_names_of_topics(ambroker, conn):
    sub = conn.subscribe("works")
    longest = "x" * 255
    with conn.subscribe(longest) as other:
        conn.publish(longest, b"1")
        assert other.next(WAIT).topic == longest
    for topic in ("x" * 256, "a\0b", "\udc80", "a\udfff", "a.", ".a"):
        for call in (lambda t: conn.publish(t, b"x"), conn.publisher, conn.subscribe,
                     lambda t: conn.request(t, b"x", 1), conn.listen, lambda t: conn.dial(t, 1)):
            with pytest.raises(ValueError):
                call(topic)
    for topic in (None, 7, b"a"):
        with pytest.raises(TypeError):
            conn.publisher(topic)
    works(conn, sub)
    assert issubclass(ambroker.Topic, ValueError)


class Grad:
    """A tensor that needs its gradient, as PyTorch refuses it."""

    def __dlpack__(self, **_):
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    def __dlpack_device__(self):
        return (2, 0)


def test_a_tensor_that_needs_its_gradient(conn):
    sub, pub = conn.subscribe("works"), conn.publisher("works")
    tensors = [Grad()]
    try:
        import torch  # pylint: disable=import-outside-toplevel
        tensors.append(torch.ones(3, requires_grad=True))
    except ImportError:
        pass
    for tensor in tensors:
        for call in (pub.send, pub.post, lambda t: pub.send_many([t]), lambda t: conn.request("works", t, 1)):
            with pytest.raises(ValueError, match="detach"):
                call(tensor)
    works(conn, sub)


def test_bfloat16_comes_back(conn):
    torch = pytest.importorskip("torch")
    sub = conn.subscribe("a")
    sent = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4)
    conn.publish("a", sent)
    msg = sub.next(WAIT)
    assert len(msg) == 24 and torch.equal(torch.from_dlpack(msg.unflagged), sent)
    assert msg.__array_interface__["typestr"] == "|V2" and msg.array.shape == (3, 4)


def test_a_capsule_is_consumed_once(conn):
    numpy = pytest.importorskip("numpy")
    if not hasattr(numpy, "from_dlpack"):
        pytest.skip("this NumPy has no from_dlpack")
    sub = conn.subscribe("a")

    class Once:
        """Hands the same capsule out again and again."""
        def __init__(self, source):
            self.capsule, self.device = source.__dlpack__(), source.__dlpack_device__()

        def __dlpack__(self, **_):
            return self.capsule

        def __dlpack_device__(self):
            return self.device

    conn.publish("a", numpy.arange(5))
    msg = sub.next(WAIT)
    once = Once(msg.unflagged)
    first = numpy.from_dlpack(once)
    for consume in (numpy.from_dlpack, lambda o: conn.publish("a", o)):
        with pytest.raises((ValueError, BufferError)):
            consume(once)
    del msg, once
    assert first.tolist() == [0, 1, 2, 3, 4]
    conn.publish("a", b"next")
    assert bytes(sub.next(WAIT)) == b"next"


def test_into_gives_what_is_no_memory(conn):
    given = [None, "text", b"read-only", 7, bytearray(2), bytearray(6)]
    sub = conn.subscribe("a", into={"host": lambda size, msg: given.pop(0)})
    conn.publish("a", b"landed")
    for error in (TypeError, (TypeError, BufferError), BufferError, (TypeError, AttributeError), ValueError):
        with pytest.raises(error):
            sub.next(WAIT)
    assert sub.next(WAIT) == b"landed" and not given


def test_a_callback_that_raises_is_told_and_others_go_on(ambroker, rig, monkeypatch):
    broker = rig.broker()
    told, seen = [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda said: told.append(said.exc_value))

    def hear(event):
        seen.append(event.type)
        raise KeyError(event.type)

    with ambroker.connect(broker.url(), on_event=hear) as conn:
        pub = conn.publisher("a")
        for _ in range(2):
            with conn.subscribe("a"):
                pub.wait_subscribers(1, WAIT)
            while "subscribers" not in seen:
                conn.poll(WAIT)
        sub = conn.subscribe("works")
        works(conn, sub)
    assert told and all(isinstance(error, KeyError) for error in told) and len(told) == len(seen)


def test_ctrl_c_in_a_callback_goes_to_the_caller(ambroker, broker):
    seen = []

    def hear(event):
        seen.append(event.type)
        if len(seen) == 1:
            interrupt()
            os.getpid()  # Python's handler has run by here.

    with ambroker.connect(broker.url(), on_event=hear) as conn:
        pub, sub = conn.publisher("a"), conn.subscribe("works")
        other = conn.subscribe("a")
        with pytest.raises(KeyboardInterrupt):
            while True:
                conn.poll(WAIT)
        other.close()
        works(conn, sub)

        def make(size, _):
            if not made:
                made.append(None)
                interrupt()
                os.getpid()
            made.append(bytearray(size))
            return made[-1]

        made = []
        lands = conn.subscribe("b", into={"host": make})
        conn.publish("b", b"landed")
        with pytest.raises(KeyboardInterrupt):
            lands.next(WAIT)
        assert lands.next(WAIT) == b"landed"  # The message has stayed.
        works(conn, sub)
        assert pub.stat()["leases"] == 0


def test_a_handler_closes_what_waits(ambroker, broker):
    """A close by a signal's handler, or by what hears events, inside a call of the same thread. It used to wait for that
    call, which waited for it."""
    def closing(what, call):
        former = signal.signal(signal.SIGALRM, lambda *_: what.close())
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with pytest.raises(ambroker.Closed):
                call()
        finally:
            signal.signal(signal.SIGALRM, former)

    for what in ("connection", "subscription", "event"):
        for name in ("next", "flush"):
            heard = []
            with ambroker.connect(broker.url(), on_event=lambda event: heard and heard.pop().close()) as conn:
                sub, pub = conn.subscribe("a"), conn.publisher("a", confirm="delivered")
                pub.send(b"x")
                held = sub.next(WAIT)
                call = (lambda: sub.next(None)) if name == "next" else conn.flush
                if what == "event":
                    heard.append(conn)
                    with ambroker.connect(broker.url()) as other:
                        kept = other.subscribe("a")  # It is told while the call waits.
                        with pytest.raises(ambroker.Closed):
                            call()
                        del kept
                elif what == "connection":
                    closing(conn, call)
                elif name == "next":
                    closing(sub, call)
                    works(conn, conn.subscribe("works"))
                assert bytes(held) == b"x"
                held.release()
            with pytest.raises(ambroker.Closed):
                conn.flush(WAIT)


def test_ctrl_c_at_the_end_of_with(ambroker, rig):
    broker = rig.broker()
    broker.signal(signal.SIGCONT)

    def leave_publisher():
        with conn.publisher("a") as pub:
            broker.signal(signal.SIGSTOP)  # Before it can accept the message: then nothing would be waited for.
            pub.send(b"x")

    def leave_connection():
        with ambroker.connect(broker.url()) as other:
            pub = other.publisher("a")
            broker.signal(signal.SIGSTOP)
            pub.send(b"x")

    def fill_publisher():
        with conn.publisher("a") as pub:
            broker.signal(signal.SIGSTOP)
            while True:
                pub.send(b"x" * 1000)

    with ambroker.connect(broker.url()) as conn:
        sub = conn.subscribe("works")
        for call in (leave_publisher, leave_connection, fill_publisher):
            assert interrupted(call) < PROMPT
            broker.signal(signal.SIGCONT)
            works(conn, sub)
        with pytest.raises(ambroker.Canceled):  # The publisher's message, as it was left in haste.
            conn.flush(WAIT)


def many(ambroker, rig, link=lambda url: url):
    """(broker, connection, publishers) for stall. A session that is lost while the broker is stopped ends all waits."""
    broker = rig.broker("-o", "memory.host.size=1G", "-o", f"limits.peer_timeout={patience(30):.0f}s")
    conn = ambroker.connect(link(broker.url("stream")), timeout=60)
    return broker, conn, [conn.publisher(f"p{number}") for number in range(60)]


def stall(ambroker, peer, pubs, kind=bytearray, idle=()):
    """{publisher: posted buffers}: more than a socket holds, of which the link has yet to read the last publisher's.
    The peer is stopped. idle: publishers that are about to have room, as these had."""
    lent = {}
    while sum(map(len, lent.values())) < 40:  # MiB: more than a socket ever takes
        peer.signal(signal.SIGCONT)
        for pub in [*pubs, *idle]:  # The windows open, and close again where nobody uses them for some seconds.
            pub.send(bytes(1 << 20))
        for pub in [*pubs, *idle]:
            pub.flush(WAIT)
        peer.signal(signal.SIGSTOP)
        lent = {}
        for pub in pubs:
            with contextlib.suppress(ambroker.WouldBlock):
                while True:
                    buffer = kind(b"y" * (1 << 20))
                    pub.post(buffer, 0)
                    lent.setdefault(pub, []).append(buffer)
    with pytest.raises(BufferError):
        lent[list(lent)[-1]][-1].append(0)
    return lent


def stalled(ambroker, rig, kind=bytearray):
    """(broker, connection, publishers, {publisher: posted buffers}), as stall has left them."""
    broker, conn, pubs = many(ambroker, rig)
    lent = stall(ambroker, broker, pubs, kind)
    return broker, conn, list(lent), lent


@pytest.mark.parametrize("ending", ["publisher", "with", "connection", "last reference"])
def test_ctrl_c_while_a_link_reads_posted_buffers(ambroker, rig, ending):
    """Closes used to wait for the link, whatever signals came."""
    broker, conn, pubs, lent = stalled(ambroker, rig)
    last = lent[pubs[-1]][-1]

    def leave():
        with pubs[-1]:
            time.sleep(WAIT)

    try:
        if ending == "publisher":
            assert interrupted(pubs[-1].close) < patience(PROMPT)
        elif ending == "with":
            assert interrupted(leave) < patience(PROMPT)
        if ending in ("publisher", "with"):
            with pytest.raises(ambroker.Closed):
                pubs[-1].send(b"x")
        if ending == "last reference":
            begin = time.monotonic()
            del lent[pubs.pop()]
            assert time.monotonic() - begin < patience(1 + PROMPT)  # It flushes for a second.
        if ending != "connection":
            with pytest.raises(BufferError):  # The link may read it yet.
                last.append(0)
        assert interrupted(lambda: conn.close(60)) < patience(PROMPT)
        for pub in pubs:
            pub.close()
        for buffer in [last, *sum(lent.values(), [])]:
            buffer.append(0)
    finally:
        broker.signal(signal.SIGCONT)
    with ambroker.connect(broker.url()) as conn:
        works(conn, conn.subscribe("works"))


def posted(pub):
    return pub.stat()["posted"]


@pytest.mark.parametrize("name", ["send", "send_many"])
def test_ctrl_c_while_a_link_reads_what_is_sent(ambroker, rig, name):
    """Sends used to wait for the link, whatever signals came. The message goes on as a copy, and is the only one."""
    broker, conn, pubs = many(ambroker, rig)
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    count = 0
    try:
        while count == 0:  # Else its window was closed: it has waited for room.
            stall(ambroker, broker, pubs, idle=[pub])
            buffer, before = bytearray(b"y") * (128 << 10), posted(pub)
            late = interrupted(lambda: pub.send(buffer) if name == "send" else pub.send_many([buffer, buffer]),
                               lambda: posted(pub) > before)
            count = posted(pub) - before
        assert count == 1 and late < patience(PROMPT)
        buffer[:] = bytes(len(buffer))
        buffer.append(0)  # Nobody holds it.
    finally:
        broker.signal(signal.SIGCONT)
    msg = sub.next(WAIT)
    while len(msg) != 128 << 10:
        msg = sub.next(WAIT)
    assert bytes(msg) == b"y" * (128 << 10)
    works(conn, conn.subscribe("works"))
    conn.close()


def test_other_threads_run_while_a_send_waits(ambroker, rig):
    broker, conn, pubs = many(ambroker, rig)
    pub = conn.publisher("a")
    ran, is_back = [], threading.Event()

    def run():
        end = time.monotonic() + READY
        while posted(pub) == before and time.monotonic() < end:
            time.sleep(0.001)
        for _ in range(100):
            time.sleep(0.001)
        ran.append((posted(pub) - before, is_back.is_set()))
        broker.signal(signal.SIGCONT)

    while ran in ([], [(0, False)]):  # The second: its window was closed.
        stall(ambroker, broker, pubs, idle=[pub])
        before = posted(pub)
        ran.clear()
        beside = threading.Thread(target=run)
        beside.start()
        try:
            pub.send(bytes(128 << 10))
        finally:
            is_back.set()
            beside.join()
    assert ran == [(1, False)]
    conn.close()


# Between a client and its broker, whose batches have 81,920 bytes: the client hears of 16,384.
NARROW = """
import socket, sys, threading
port = int(sys.argv[1])
door = socket.create_server(("127.0.0.1", 0))
print(door.getsockname()[1], flush=True)

def go(source, target):
    while piece := source.recv(65536):
        target.sendall(piece.replace({said!r}, {told!r}) if source in brokers else piece)
    target.shutdown(socket.SHUT_WR)

brokers = []
while True:
    client = door.accept()[0]
    brokers.append(socket.create_connection(("127.0.0.1", port)))
    for pair in ((client, brokers[-1]), (brokers[-1], client)):
        threading.Thread(target=go, args=pair, daemon=True).start()
"""


def test_no_send_waits_for_the_link_with_the_gil(ambroker, rig):
    """What is too large for a batch of a broker with smaller ones used to wait until the link had read it."""
    relays = []

    def narrow(url):
        said, told = b"\x48\x80\x80\x05", b"\x48\x80\x80\x01"  # Welcome.batch_bytes of control.proto
        port = re.search(r":(\d+)", url)[1]
        relays.append(rig.start([sys.executable, "-c", NARROW.format(said=said, told=told), port]))
        return url.replace(port, relays[0].line(WAIT))

    _, conn, pubs = many(ambroker, rig, narrow)
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    try:
        before = after = None
        while after == before:  # Else its window was closed.
            stall(ambroker, relays[0], pubs, idle=[pub])
            before, begin = posted(pub), time.monotonic()
            with contextlib.suppress(ambroker.WouldBlock):
                pub.send(b"y" * 40000, 0)
            late, after = time.monotonic() - begin, posted(pub)
        assert late < patience(PROMPT)
    finally:
        relays[0].signal(signal.SIGCONT)
    msg = sub.next(WAIT)
    while len(msg) != 40000:
        msg = sub.next(WAIT)
    assert bytes(msg) == b"y" * 40000
    conn.close()


def test_buffers_of_a_close_without_patience_are_the_connections(ambroker, rig):
    broker, conn, pubs, lent = stalled(ambroker, rig)
    try:
        last = lent.pop(pubs[-1])[-1]
        begin = time.monotonic()
        pubs.pop().close(0)
        assert time.monotonic() - begin < patience(PROMPT)
        with pytest.raises(BufferError):
            last.append(0)
    finally:
        broker.signal(signal.SIGCONT)
    is_lent, end = True, time.monotonic() + WAIT
    while is_lent and time.monotonic() < end:
        conn.publisher("other").close()  # It looks.
        try:
            last.append(0)
            is_lent = False
        except BufferError:
            pass
    assert not is_lent
    conn.close()


class Closes(bytearray):
    """A buffer whose end closes a connection."""
    conn, ends = None, []  # None: not yet

    def __del__(self):
        if self.conn is not None:
            try:
                self.conn.close()
                self.ends.append("closed")
            except TimeoutError as error:
                self.ends.append(error)


@pytest.fixture
def arm():
    """Has buffers close a connection from here on. One that waits for itself gets a TimeoutError."""
    def late(*_):
        raise TimeoutError("it waits for itself")

    def begin(conn):
        Closes.conn, Closes.ends = conn, []
        signal.alarm(2 * WAIT)

    former = signal.signal(signal.SIGALRM, late)
    yield begin
    Closes.conn = None
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


def test_a_buffer_that_is_settled_closes_the_connection(ambroker, broker, arm):
    """The close used to wait for the call that had given the buffer back."""
    conn = ambroker.connect(broker.url())
    pub = conn.publisher("a")
    arm(conn)
    pub.post(Closes(b"x"))
    pub.flush(WAIT)
    with pytest.raises(ambroker.Closed):
        pub.post(b"y")
    assert Closes.ends == ["closed"]


def test_a_buffer_that_was_left_closes_the_connection(ambroker, rig, arm):
    """The close used to wait for the call that had found the buffer."""
    broker, conn, pubs, lent = stalled(ambroker, rig, Closes)
    try:
        del lent[pubs[-1]]
        arm(conn)
        pubs.pop().close(0)
        assert Closes.ends == []
    finally:
        broker.signal(signal.SIGCONT)
    with pytest.raises(ambroker.Closed):
        while True:
            conn.publisher("other").close()  # It looks.
    assert set(Closes.ends) == {"closed"}


OTHER = """
import sys
sys.path.insert(0, {0!r})
try:
    import ambroker
    print("imported")
except ImportError as error:
    print("ImportError:", error)
sys.stdout.flush()
"""
INTERPRETERS = """
import sys
try:
    import _interpreters as others
except ImportError:
    import _xxsubinterpreters as others
sys.path.insert(0, {0!r})
import ambroker
number = others.create()
others.run_string(number, {1!r})
others.destroy(number)
print(ambroker.interface_address.__name__)
"""


def test_another_interpreter_says_import_error(package):
    program = INTERPRETERS.format(str(package), OTHER.format(str(package)))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("ImportError:") and second == "interface_address"
