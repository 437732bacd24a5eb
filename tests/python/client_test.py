# SPDX-License-Identifier: Apache-2.0
"""Connections, publishers, subscriptions and messages of the Python package."""
import array
import contextlib
import ctypes
import gc
import os
import select
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest

from prompt import PROMPT, ended_by, interrupt, interrupted

WAIT = 10
WRONG_TIMES = (float("nan"), -1, -0.5, 1e30, float("inf"))


def test_messages_arrive_whole_and_in_order(conn):
    sub = conn.subscribe("a.>")
    pub = conn.publisher("a.b")
    sizes = (0, 1, 7, 4096, 70_000, 1 << 20)
    for number, size in enumerate(sizes):
        pub.send(bytes([number]) * size)
    pub.flush(WAIT)
    for number, size in enumerate(sizes):
        msg = sub.next(WAIT)
        assert bytes(msg) == msg.tobytes() == bytes([number]) * size
        assert (msg.topic, len(msg), msg.seq, msg.lost) == ("a.b", size, number + 1, 0)
        assert (msg.key, msg.content_type, msg.props, msg.wants_reply) == (None, None, {}, False)
        assert abs(msg.time_ns / 1e9 - time.time()) < 60


def test_a_wait_leaves_the_descriptor_readable(ambroker, broker):
    """A message that comes while the program waits for something else. The wait looks around ten times a second, and
    used to make the descriptor unreadable: a loop behind it slept beside its message."""
    with ambroker.connect(broker.url()) as other, ambroker.connect(broker.url()) as conn:
        sub, pub = conn.subscribe("news"), conn.publisher("nobody")
        fd = conn.fileno()
        other.publish("news", b"here")
        other.flush(WAIT)
        with pytest.raises(ambroker.Timeout):
            pub.wait_subscribers(1, 0.35)
        assert select.select([fd], [], [], WAIT)[0]
        conn.poll(0)
        assert bytes(sub.next(0)) == b"here"


def test_the_bytes_are_the_callers_again(conn):
    sub = conn.subscribe("a")
    pub = conn.publisher("a")
    for size in (10, 20_000, 1 << 20):
        data = bytearray(b"x" * size)
        pub.send(data)
        data[:] = b"y" * size
        data.append(0)  # no export is left
        assert bytes(sub.next(WAIT)) == b"x" * size


def test_arrays_come_back_with_their_shape(conn):
    sub = conn.subscribe("a")
    pub = conn.publisher("a")
    numbers = array.array("f", range(24))
    sent = memoryview(numbers).cast("B").cast("f", (2, 3, 4))
    pub.send(sent)
    msg = sub.next(WAIT)
    view = memoryview(msg)
    assert (view.format, view.shape, view.strides) == ("f", (2, 3, 4), (48, 16, 4))
    assert view.tolist() == sent.tolist() and view.readonly and view.c_contiguous
    assert bytes(msg) == numbers.tobytes()
    for code in "bBhHiIqQdf":
        pub.send(array.array(code, [1, 2, 3]))
        view = memoryview(sub.next(WAIT))
        assert (view.format, view.tolist()) == (code, [1, 2, 3])
    pub.send(array.array("d"))
    assert memoryview(sub.next(WAIT)).shape == (0,)


def test_arrays_that_say_no_strides_are_in_c_order(conn):
    """Those of ctypes, whatever is asked of them. They used to crash the interpreter."""
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    for sent in ((ctypes.c_int * 4)(1, 2, 3, 4), (ctypes.c_ubyte * 3)(1, 2, 3), ctypes.c_double(7),
                 ((ctypes.c_float * 3) * 2)((1, 2, 3), (4, 5, 6))):
        pub.send(sent)
        view = memoryview(sub.next(WAIT))
        assert (bytes(view), view.shape) == (bytes(sent), memoryview(sent).shape)
    pub.post((ctypes.c_short * 2)(1, 2))
    assert memoryview(sub.next(WAIT)).tolist() == [1, 2]


class Tensor(ctypes.Structure):
    """struct amb_tensor"""
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("ndim", ctypes.c_uint32), ("shape", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8)]


class Out(ctypes.Structure):
    """struct amb_out"""
    _fields_ = [("size", ctypes.c_uint32), ("mem", ctypes.c_int), ("data", ctypes.c_char_p), ("len", ctypes.c_size_t),
                ("iov", ctypes.c_void_p), ("forward", ctypes.c_void_p), ("iov_count", ctypes.c_uint32),
                ("prop_count", ctypes.c_uint32), ("props", ctypes.c_void_p), ("tensor", ctypes.POINTER(Tensor)),
                *((name, ctypes.c_void_p)
                  for name in ("content_type", "key", "stream", "ttl", "reserved", "expect_seq"))]


def libamb():
    """The library that the package has loaded, for what its own Python face does not publish."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        path, *_ = (line.split()[-1] for line in maps if "/libamb" in line)
    return ctypes.CDLL(path)


def test_arrays_of_a_peer_that_python_cannot_say_are_bytes(ambroker, broker):
    """Elements that lie on each other, more of them than there are numbers, and a stride that nothing uses. Products
    of these used to overflow."""
    largest, smallest = 2**62, -2**63
    with ambroker.connect(broker.url()) as conn:
        sub, library = conn.subscribe("a"), libamb()
        peer, pub = ctypes.c_void_p(), ctypes.c_void_p()
        assert library.amb_connect(broker.url().encode(), None, ctypes.byref(peer)) == 0
        assert library.amb_pub_open(peer, b"a", None, ctypes.byref(pub)) == 0
        for bits, shape, strides, seen in ((8, (largest, largest, 2), (0, 0, 1), (2,)),
                                           (8, (1, 2), (smallest, 1), (1, 2)),
                                           (16, (1, 1), (largest, 1), (1, 1)),
                                           (8, (3, 2), (0, 1), (3, 2))):
            tensor = Tensor(1, bits, 1, len(shape), (*shape,), (*strides,))
            out = Out(size=ctypes.sizeof(Out), mem=2, data=b"xy", len=2, tensor=ctypes.pointer(tensor))
            assert library.amb_pub_copy(pub, ctypes.byref(out), ctypes.c_int64(WAIT * 10**9), None) == 0
            msg = sub.next(WAIT)
            assert (memoryview(msg).shape, msg.tobytes()) == (seen, b"xy")
            assert msg.__array_interface__["shape"] == seen
        assert library.amb_close(peer, ctypes.c_int64(WAIT * 10**9)) == 0


def test_what_cannot_be_published_is_refused_and_nothing_is(conn, ambroker):
    sub = conn.subscribe(">")
    pub = conn.publisher("a")
    for wrong in ("text", None, 7, [1, 2], memoryview(b"1234")[::2], memoryview(b"ab").cast("c")):
        with pytest.raises((TypeError, ValueError, BufferError)):
            pub.send(wrong)
    for topic in ("", "a..b", "a\0b", "a.*", "x" * 300):
        with pytest.raises(ValueError):
            conn.publish(topic, b"x")
    for seconds in WRONG_TIMES:
        for call in (lambda s: pub.send(b"x", s), pub.flush, sub.next, conn.flush,
                     lambda s: conn.publish("a", b"x", s)):
            with pytest.raises(ValueError):
                call(seconds)
    with pytest.raises(ValueError, match="confirm"):
        conn.publisher("a", confirm="perhaps")
    with pytest.raises(ambroker.Error):
        conn.subscribe("a", filter="price >")
    pub.send(b"good")
    assert bytes(sub.next(WAIT)) == b"good"


def test_statuses_are_classes_and_builtins(ambroker, broker):
    conn = ambroker.connect(broker.url())
    sub = conn.subscribe("a")
    with pytest.raises(BlockingIOError) as caught:
        sub.next(0)
    assert isinstance(caught.value, ambroker.WouldBlock)
    begin = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        sub.next(0.25)
    assert time.monotonic() - begin >= 0.25
    assert (caught.value.status, caught.value.scope, caught.value.text) == (-2, "call", "timed out")
    with pytest.raises(ambroker.Unreachable, match="nowhere"):
        ambroker.connect("unix:///nowhere/at.all", connect_timeout=1)
    with pytest.raises(TypeError):
        ambroker.connect(broker.url(), colour="red")
    conn.close()


def test_arguments_that_release_the_message_find_it_released(conn):
    sub, pub = conn.subscribe("a"), conn.publisher("a")

    class Release:
        """An argument whose reading runs Python."""
        def __index__(self):
            msg.release()
            return 0

        def __float__(self):
            msg.release()
            return 0.0

        def __bool__(self):
            msg.release()
            return False

    for call in (lambda: msg.read(Release()), lambda: msg.read(0, Release()),
                 lambda: msg.read(timeout=Release()), lambda: msg.fetch(Release()), lambda: msg.nak(Release()),
                 lambda: msg.reply(b"", timeout=Release()), lambda: msg.__dlpack__(max_version=(Release(), 0)),
                 lambda: msg.__dlpack__(max_version=(1, 0), copy=Release())):
        pub.send(b"x" * 100000)
        msg = sub.next(WAIT)
        with pytest.raises(ValueError, match="released"):
            call()


def test_views_hold_their_message(ambroker, broker):
    conn = ambroker.connect(broker.url())
    sub = conn.subscribe("a")
    for size in (10, 100_000):
        conn.publish("a", b"v" * size)
        msg = sub.next(WAIT)
        view = memoryview(msg)
        with pytest.raises(BufferError):
            msg.release()
        with pytest.raises(TypeError):
            view[0] = 1
        del msg
        gc.collect()
        assert bytes(view) == b"v" * size
    conn.publish("a", b"kept")
    kept = sub.next(WAIT)
    conn.close()
    assert (bytes(kept), bytes(view), kept.topic) == (b"kept", b"v" * 100_000, "a")
    kept.release()
    kept.release()
    for use in (kept.tobytes, lambda: bytes(kept), lambda: kept.topic, lambda: len(kept), kept.ack):
        with pytest.raises(ValueError, match="released"):
            use()


def test_a_detached_message_holds_nothing(ambroker, broker):
    conn = ambroker.connect(broker.url())
    sub, pub = conn.subscribe("a", ack="explicit", group="g"), conn.publisher("a")
    kept = []
    for size in (0, 3, 5000, 300_000):
        pub.send(b"d" * size, key="k", props={"a": 1})
        msg = sub.next(WAIT)
        view = memoryview(msg)
        with pytest.raises(BufferError):
            msg.detach()
        view.release()
        msg.ack()
        seq, came = msg.seq, msg.time_ns
        assert msg.detach() is msg and sub.stat()["held_msgs"] == 0
        assert (bytes(msg), msg.key, msg.props, msg.topic) == (b"d" * size, "k", {"a": b"1"}, "a")
        assert (msg.seq, msg.time_ns, msg.mem, msg.subscription_id) == (seq, came, "host", 0)
        with pytest.raises(ambroker.WrongState):
            msg.ack()
        kept.append(msg)
    pub.send(kept[2])  # forwarded
    assert bytes(sub.next(WAIT)) == b"d" * 5000
    lazy = conn.subscribe("b", lazy="pin")
    conn.publish("b", b"x" * 100_000)
    msg = lazy.next(WAIT)
    with pytest.raises(ambroker.WrongState, match="lazy"):
        msg.detach()
    msg.fetch(WAIT)
    assert bytes(msg.detach()) == b"x" * 100_000
    conn.close()
    assert [len(bytes(one)) for one in kept] == [0, 3, 5000, 300_000]
    kept[0].release()
    with pytest.raises(ValueError, match="released"):
        kept[0].detach()


@pytest.mark.parametrize("end", ("close", "drop"))
def test_a_posted_buffer_is_lent_until_the_connection_is_closed(ambroker, broker, end):
    """A publisher goes while another thread closes the connection, which still sends what was posted. The buffer used to
    be given back there, to be freed or written under libamb's hands."""
    data = bytearray(100_000)
    conn = ambroker.connect(broker.url("stream"), timeout=60)
    pub = conn.publisher("a")
    pub.post(bytes(100_000))
    pub.flush(WAIT)
    broker.signal(signal.SIGSTOP)
    try:
        pub.post(data, WAIT)

        def close():
            with contextlib.suppress(ambroker.Error):
                conn.close(60)

        thread = threading.Thread(target=close)
        thread.start()
        while not conn.closed:
            time.sleep(0.001)
        if end == "close":
            pub.close()
        del pub
        gc.collect()
        assert thread.is_alive()
        with pytest.raises(BufferError):
            data.append(0)
    finally:
        broker.signal(signal.SIGCONT)
    thread.join()
    data.append(0)


def test_a_posted_buffer_is_lent_until_the_first_of_two_closes_is_over(ambroker, broker):
    """The second of two closes used to give buffers back, while the first one waited for the link. That still read
    them."""
    lent = [bytearray(100_000) for _ in range(12)]
    conn = ambroker.connect(broker.url("stream"), timeout=60)
    pub = conn.publisher("a")
    pub.post(bytes(100_000))  # The broker grants room for others.
    pub.flush(WAIT)
    broker.signal(signal.SIGSTOP)
    try:
        for data in lent:
            pub.post(data, WAIT)
        threads = [threading.Thread(target=pub.close) for _ in range(2)]
        threads[0].start()
        while pub.id != 0:
            time.sleep(0.001)
        threads[1].start()
        threads[1].join(0.3)
        assert threads[0].is_alive() and threads[1].is_alive()
        for data in lent:
            with pytest.raises(BufferError):
                data.append(0)
    finally:
        broker.signal(signal.SIGCONT)
    for thread in threads:
        thread.join()
    for data in lent:
        data.append(0)
    with contextlib.suppress(ambroker.Canceled):  # What had not left.
        conn.close()


def test_a_signal_comes_before_a_refusal(ambroker, broker):
    """A handler raises just as the flush has its answer, which is a refusal: the handler's exception is raised. It used
    to be replaced by the other one."""
    with ambroker.connect(broker.url()) as conn, ambroker.connect(broker.url()) as reader:
        sub = reader.subscribe("slow")
        pub = conn.publisher("slow", confirm="delivered")
        pub.send(b"x")
        held = [sub.next(WAIT)]
        other = conn.publisher("refused")
        other.send(b"y", expect_seq=7)
        while other.stat()["settled"] == 0:
            conn.poll(0.01)

        def handle(*_):
            held.clear()  # Now the flush is over,
            end = time.monotonic() + WAIT
            while pub.stat()["inflight_msgs"] != 0 and time.monotonic() < end:
                time.sleep(0.001)
            raise KeyError("the handler's")

        def strike():
            while not is_inside.wait(0.01):
                pass
            time.sleep(0.2)  # The flush sleeps.
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)  # It ends no sleep of the main thread.

        former = signal.signal(signal.SIGUSR1, handle)
        is_inside = threading.Event()
        thread = threading.Thread(target=strike)
        thread.start()
        try:
            is_inside.set()
            with pytest.raises(KeyError, match="the handler's") as raised:
                conn.flush(WAIT)
            assert raised.value.__context__ is None
        finally:
            signal.signal(signal.SIGUSR1, former)
            thread.join()


def test_a_flush_has_an_end_while_others_publish(ambroker, broker):
    """It waits for what was published before the call, and tells events meanwhile."""
    events = []
    with ambroker.connect(broker.url(), on_event=events.append, timeout=60) as conn:
        pub, other = conn.publisher("a", window_msgs=100), conn.publisher("b")
        pub.send(b"x")
        other.flush(WAIT)
        is_over = threading.Event()

        def publish():
            while not is_over.is_set():
                other.send(b"y")

        thread = threading.Thread(target=publish)
        thread.start()
        begin = time.monotonic()
        for _ in range(20):
            conn.flush(WAIT)
        is_over.set()
        thread.join()
        assert time.monotonic() - begin < WAIT
        broker.signal(signal.SIGSTOP)
        try:
            pub.send(b"z")
            with pytest.raises(ambroker.Timeout):
                conn.flush(0.3)
            with pytest.raises(ambroker.WouldBlock):
                conn.flush(0)
            assert interrupted(conn.flush) < PROMPT
            assert interrupted(conn.drain) < PROMPT
            with pytest.raises(ambroker.WouldBlock):
                while True:
                    pub.send(b"w", 0)
            del events[:]
            timer = threading.Timer(0.3, broker.signal, (signal.SIGCONT,))
            timer.start()
            while "room" not in [event.type for event in events]:
                conn.flush(WAIT)
                conn.poll(0)
            timer.join()
        finally:
            broker.signal(signal.SIGCONT)
        assert conn.stat() == {"events_dropped": 0}


def test_what_hears_events_may_publish(ambroker, broker):
    """Inside a publish to a new topic, which waits for the broker. It used to wait for itself."""
    heard = []

    def hear(event):
        if event.type == "subscribers" and not heard:
            heard.append(event.type)
            broker.signal(signal.SIGCONT)
            conn.publish("log", b"heard")

    with ambroker.connect(broker.url()) as other, ambroker.connect(broker.url(), on_event=hear, timeout=60) as conn:
        log, pub = other.subscribe("log"), conn.publisher("a")
        kept = other.subscribe("a")  # It is told by the next call that waits.
        while pub.stat()["subscribers"] == 0:
            time.sleep(0.001)
        broker.signal(signal.SIGSTOP)
        thread = threading.Thread(target=conn.publish, args=("new", b"x"), daemon=True)
        thread.start()
        thread.join(WAIT)
        broker.signal(signal.SIGCONT)
        assert not thread.is_alive()
        assert bytes(log.next(WAIT)) == b"heard"
        kept.close()


def test_a_reader_with_into_keeps_its_time_beside_another_one(conn, ambroker):
    """It used to wait until the other one had its message."""
    sub = conn.subscribe("a", into={"host": lambda size, msg: bytearray(size)})
    landed, late, begun = [], [], threading.Event()

    def read():
        begun.set()
        landed.append(sub.next(WAIT))

    def read_late():
        for timeout in (0, 0.05):
            try:
                sub.next(timeout)
            except ambroker.Error as error:
                late.append(type(error))

    threads = [threading.Thread(target=read, daemon=True), threading.Thread(target=read_late, daemon=True)]
    threads[0].start()
    begun.wait()
    time.sleep(0.05)  # It is inside by now, or the test tells nothing.
    threads[1].start()
    threads[1].join(WAIT / 2)
    assert not threads[1].is_alive() and late == [ambroker.WouldBlock, ambroker.Timeout]
    conn.publish("a", b"x")
    threads[0].join(WAIT)
    assert landed == [b"x"]


def test_exceptions_of_the_package_have_all_that_those_of_libamb_have(ambroker):
    classes = [one for one in vars(ambroker).values() if isinstance(one, type) and issubclass(one, ambroker.Error)]
    assert len(classes) > 30
    for one in classes:
        raised = one("said")
        assert raised.status < 0 and raised.text and raised.scope in ("call", "message", "session", "process")
    assert ambroker.Closed.status == ambroker.Closed("x").status != ambroker.Lost.status


def test_closed_handles_say_so(ambroker, broker):
    conn = ambroker.connect(broker.url())
    pub, sub, other = conn.publisher("a"), conn.subscribe("a"), conn.subscribe("b")
    other.close()
    other.close()
    with pytest.raises(ambroker.Closed):
        other.next(0)
    assert list(other) == []
    conn.close()
    conn.close()
    for call in (lambda: pub.send(b"x"), pub.flush, sub.next, lambda: conn.publish("a", b""),
                 conn.stop, lambda: conn.publisher("a"), lambda: conn.subscribe("a")):
        with pytest.raises(ambroker.Closed):
            call()
    pub.close()
    sub.close()


def test_what_waits_is_ended_by_a_close_a_stop_and_a_signal(ambroker, broker):
    for end, expected in ((lambda: sub.close(), ambroker.Closed),
                          (lambda: conn.close(), ambroker.Closed),
                          (lambda: conn.stop(), ambroker.Stopped), (interrupt, KeyboardInterrupt)):
        conn = ambroker.connect(broker.url())
        sub = conn.subscribe("a")
        raised, late = ended_by(end, sub.next)
        assert raised is expected and late < PROMPT
        if expected is KeyboardInterrupt:  # nothing is lost, and the next call works
            conn.publish("a", b"x")
            assert bytes(sub.next(WAIT)) == b"x"
        conn.close()
    conn = ambroker.connect(broker.url())
    sub = conn.subscribe("a")
    conn.publish("a", b"one")
    seen = []
    timer = threading.Timer(0.3, sub.close)
    timer.start()
    for msg in sub:
        seen.append(bytes(msg))
    timer.join()
    assert seen == [b"one"]
    conn.close()


def test_a_signal_ends_a_long_wait_at_once(ambroker, broker):
    """Its slices are 0.2 s by then, and it does not wait for the end of one."""
    with ambroker.connect(broker.url()) as conn:
        sub = conn.subscribe("a")
        late = []
        for _ in range(4):
            timer = threading.Timer(1.3, lambda: late.append(time.monotonic()) or interrupt())
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                sub.next()
            late[-1] = time.monotonic() - late[-1]
            timer.join()
        assert min(late) < 0.03 and max(late) < PROMPT, late


def test_a_reader_that_holds_its_credit_is_warned(ambroker, broker):
    with ambroker.connect(broker.url()) as conn:
        sub, pub = conn.subscribe("a", credit_msgs=2, policy="block"), conn.publisher("a")
        assert sub.stat()["credit_msgs"] == 2 and sub.stat()["credit_bytes"] == 64 << 20
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ambroker.Timeout):  # It waits for others, not for itself.
                sub.next(1.3)
        held = []
        with pytest.warns(ambroker.HeldWarning, match="holds 2 messages"):
            with pytest.raises(ambroker.Timeout):
                while True:
                    pub.send(b"x", 0.1)
                    held.append(sub.next(1.5))
                    pub.flush(WAIT)
        assert len(held) >= 2
        with warnings.catch_warnings():  # Once.
            warnings.simplefilter("error")
            with pytest.raises(ambroker.Timeout):
                sub.next(1.3)
        del held[:]
        assert bytes(sub.next(WAIT)) == b"x"


def test_a_close_beside_calls_of_other_threads(ambroker, broker):
    url = broker.url()
    for number in range(100):
        conn = ambroker.connect(url)
        sub, pub = conn.subscribe("a"), conn.publisher("a")
        wrong = []

        def work(call):
            try:
                while True:
                    call()
            except (ambroker.Closed, ambroker.Timeout):
                pass
            except BaseException as error:  # pylint: disable=broad-except
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(call,))
                   for call in (lambda: sub.next(WAIT), lambda: pub.send(b"x" * 1000),
                                lambda: conn.publish("a", b"y"), lambda: list(sub) or sub.next(0))]
        for thread in threads:
            thread.start()
        if number % 3 == 0:
            sub.close()
        with contextlib.suppress(ambroker.Timeout):  # Nobody reads any more: the topic may be full.
            conn.close(1)
        for thread in threads:
            thread.join(WAIT)
            assert not thread.is_alive()
        assert wrong == []


def test_a_child_says_forked_and_hurts_nobody(ambroker, broker):
    conn = ambroker.connect(broker.url())
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    pid = os.fork()
    if pid == 0:
        answers = 0
        for call in (lambda: pub.send(b"x"), lambda: sub.next(1), lambda: conn.publish("a", b""), pub.close):
            try:
                call()
            except ambroker.Forked:
                answers += 1
        os._exit(answers)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 4
    pub.send(b"parent")
    assert bytes(sub.next(WAIT)) == b"parent"
    conn.close()


def test_nothing_is_left_of_messages(ambroker, broker):
    conn = ambroker.connect(broker.url())
    sub, pub = conn.subscribe("a"), conn.publisher("a")

    def exchange(count):
        for _ in range(count):
            pub.send(b"x" * 100, WAIT)
            msg = sub.next(WAIT)
            assert len(memoryview(msg)) == 100

    def resident():
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    exchange(5000)
    gc.collect()
    blocks, memory = sys.getallocatedblocks(), resident()
    exchange(20000)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 200
    assert resident() - memory < 4 << 20
    conn.close()


def test_an_interpreter_ends_with_all_of_it_open(package, broker):
    program = f"""
import sys, threading
sys.path.insert(0, {str(package)!r})
import ambroker
conn = ambroker.connect({broker.url()!r})
sub = conn.subscribe("a")
pub = conn.publisher("a")
pub.send(b"x")
msg = sub.next(10)
threading.Thread(target=sub.next, daemon=True).start()
print("ready", flush=True)
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True,
                          text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")
