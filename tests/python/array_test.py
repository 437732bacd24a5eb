# SPDX-License-Identifier: Apache-2.0
"""Arrays in and out: NumPy's through the buffer protocol, array interface and DLPack, and leases."""
import collections
import subprocess
import sys
import threading

import pytest

numpy = pytest.importorskip("numpy")
WAIT = 10


def arrays():
    """One of each kind that can be published."""
    cube = numpy.arange(24, dtype="i8").reshape(2, 3, 4)
    read_only = numpy.arange(5, dtype="u2")
    read_only.flags.writeable = False
    return [numpy.ones((48, 64), "f4"), numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4)),
            cube.transpose(1, 0, 2), cube.transpose(2, 0, 1), numpy.float64(3).reshape(()),
            numpy.zeros((0, 3)), numpy.array([1 + 2j]), numpy.array([True, False]),
            numpy.arange(3, dtype="f2"), numpy.arange(300_000, dtype="i4"), read_only]


def refused():
    """What cannot be: nothing of it is published."""
    return ["text", numpy.array([object()]), numpy.array([1], dtype=">f4"), numpy.arange(10)[::2],
            numpy.arange(4)[::-1], numpy.zeros((1,) * 9), numpy.zeros(2, dtype="i4,f4"),
            numpy.broadcast_to(numpy.arange(3), (2, 3)), numpy.array(["a"]), numpy.longdouble([1])]


def address(array):
    return array.__array_interface__["data"][0]


def test_arrays_come_back_equal(conn):
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    for sent in arrays():
        pub.send(sent)
        msg = sub.next(WAIT)
        got = numpy.asarray(msg)
        assert (got.shape, got.dtype) == (sent.shape, sent.dtype) and (got == sent).all()
        assert not got.flags.writeable
        holder = type("Holder", (), {"__array_interface__": msg.__array_interface__})()
        if sent.shape != ():  # numpy 1.24 takes an object with a shape of () for a scalar
            assert (numpy.asarray(holder) == sent).all()
        assert bytes(msg.data) == msg.tobytes() and msg.data.format == "B"
        pub.send(msg)  # forwarded, with its shape
        again = numpy.asarray(sub.next(WAIT))
        assert again.shape == sent.shape and (again == sent).all()


def test_dlpack_is_the_same_memory(conn):
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    for sent in arrays():
        if sent.dtype == bool or sent.size == 0:  # numpy 1.24 has no bool there
            continue
        pub.send(sent)
        msg = sub.next(WAIT)
        assert msg.__dlpack_device__() == (1, 0)
        got = numpy.from_dlpack(msg.unflagged)
        assert (got == sent).all() and address(got) == address(numpy.asarray(msg))
        with pytest.raises(BufferError, match="unflagged"):
            msg.__dlpack__()
        msg.__dlpack__(max_version=(1, 0))  # and dropped
        with pytest.raises(BufferError, match="device"):
            msg.__dlpack__(max_version=(1, 0), dl_device=(2, 0))
        with pytest.raises(BufferError, match="copy"):
            msg.__dlpack__(max_version=(1, 0), copy=True)
        assert not hasattr(msg, "__cuda_array_interface__")
        msg = None
        assert (got == sent).all()  # it holds the message


def test_dlpack_in(conn):
    """An array that has nothing but DLPack, with and without versions."""

    class Old:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, *, stream=None):
            assert stream is None
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    class New(Old):
        def __dlpack__(self, *, stream=None, max_version=None):
            assert max_version == (1, 0)
            return super().__dlpack__(stream=stream)

    sub, pub = conn.subscribe("a"), conn.publisher("a")
    sent = numpy.arange(12.0).reshape(3, 4)
    for make in (Old, New):
        pub.send(make(sent.T))
        assert (numpy.asarray(sub.next(WAIT)) == sent.T).all()


def test_what_cannot_be_published_is_refused(conn):
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    for wrong in refused():
        for call in (pub.send, pub.post, lambda w: pub.send_many([w]), lambda w: conn.publish("a", w)):
            with pytest.raises((TypeError, ValueError)):
                call(wrong)
    pub.send(b"good")
    assert bytes(sub.next(WAIT)) == b"good"


def test_an_array_of_cuda_is_refused_where_its_strides_are_no_whole_elements(conn):
    pub = conn.publisher("a")
    interface = {"shape": (2, 1), "strides": (3, 2), "typestr": "<i2", "data": (1 << 20, True), "version": 3}
    with pytest.raises(ValueError, match="gaps"):
        pub.send(type("Array", (), {"__cuda_array_interface__": interface})())


def test_a_message_as_an_array(conn):
    """msg.array: NumPy's, in place and read-only; elements that it has no code for are void."""
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    for sent in arrays():
        pub.send(sent)
        msg = sub.next(WAIT)
        got = msg.array
        assert (got.shape, got.dtype) == (sent.shape, sent.dtype) and (got == sent).all()
        assert not got.flags.writeable
        with pytest.raises(BufferError):
            msg.release()
    lease = pub.lease((2, 3), "bfloat16")
    lease.commit()
    msg = sub.next(WAIT)
    got = msg.array
    assert got.shape == (2, 3) and got.dtype == "V2" and not got.flags.writeable
    assert address(got) == msg.__array_interface__["data"][0]
    with pytest.raises(BufferError):
        msg.release()
    del got
    msg.release()
    with pytest.raises(ValueError, match="released"):
        msg.array


def test_a_message_without_numpy_is_a_memoryview(environment, broker):
    code = f"""
import pickle, sys
sys.modules["numpy"] = None
import ambroker
with ambroker.connect({broker.url()!r}) as conn:
    sub = conn.subscribe("a")
    conn.publish("a", memoryview(b"12345678").cast("f", (2,)))
    print(type(sub.next(10).array).__name__)
    with conn.publisher("a").lease(3) as array:
        print(type(array).__name__)
        array[:] = b"abc"
        older = pickle.PickleBuffer(array)  # Somebody has it: it is committed all the same.
    print(sub.next(10).tobytes(), bytes(older))
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True,
                          timeout=60)
    assert done.stdout == "memoryview\nmemoryview\nb'abc' b'abc'\n"


def test_fields_go_along(conn):
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    pub.send(numpy.arange(3), key="k", content_type="t/t", ttl=60,
             props={"text": "é", "bytes": b"\0", "int": -7, "float": 1.5})
    msg = sub.next(WAIT)
    assert (msg.key, msg.content_type, msg.lost_why, msg.priority) == ("k", "t/t", None, "normal")
    assert msg.props == {"text": "é".encode(), "bytes": b"\0", "int": b"-7", "float": b"1.5"}
    assert (msg.prop("int"), msg.prop("none"), msg.prop("none", 1)) == (b"-7", None, 1)
    for fields in ({"props": {"$x": "1"}}, {"props": {str(n): n for n in range(300)}},
                   {"props": {"a\0b": 1}}, {"props": {"\udc80": 1}}, {"key": "a\0"}, {"ttl": -1},
                   {"ttl": float("nan")}, {"expect_seq": -1}):
        with pytest.raises(ValueError):
            pub.send(b"x", **fields)
    for fields in ({"props": {"a": object()}}, {"props": [1]}, {"key": 7}, {"colour": "red"}):
        with pytest.raises(TypeError):
            pub.send(b"x", **fields)


def test_leases_are_written_in_place(ambroker, broker):
    with ambroker.connect(broker.url()) as conn:
        sub, pub = conn.subscribe("a"), conn.publisher("a")
        with pub.lease((480, 640), "f4", props={"lens": "wide"}) as array:
            assert array.shape == (480, 640) and array.dtype == "f4"
            array[:] = 7
            older = array[3:5]
        msg = sub.next(WAIT)
        assert (numpy.asarray(msg) == 7).all() and msg.props == {"lens": b"wide"}
        assert msg.path == "mapped"
        with pytest.raises(ValueError):
            array[0, 0] = 1
        older[:] = 3  # no crash: it changes the message, or nothing
        with pytest.raises(KeyError):
            with pub.lease(10) as array:
                raise KeyError
        lease = pub.lease((2, 2), numpy.int16)
        lease.array[:] = 5
        lease.commit()
        with pytest.raises(ambroker.WrongState):
            lease.commit()
        assert numpy.asarray(sub.next(WAIT)).tolist() == [[5, 5], [5, 5]]
        assert pub.stat()["leases"] == 0 and pub.stat()["leased"] >= 1
        for shape in (numpy.int64(6), numpy.prod((2, 3)), [2, 3], numpy.array([2, 3])):
            lease = pub.lease(shape, "u1")
            assert lease.array.size == 6
            lease.abandon()
        for shape, dtype in (((-1,), "f4"), ((1,) * 9, "f4"), ((2, 1 << 62), "f8")):
            with pytest.raises(ValueError):
                pub.lease(shape, dtype)
        for dtype in ("no such", ">f4", numpy.dtype(">f4"), numpy.dtype("i4,f4")):
            with pytest.raises(TypeError):
                pub.lease(3, dtype)
    older[:] = 4  # after the end of the connection, too
    assert (numpy.asarray(msg)[0] == 7).all()


def test_an_empty_array_s_other_sizes_may_be_any(conn):
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    shape = (0, 1 << 62, 1 << 62)
    lease = pub.lease(shape, "u1")
    assert memoryview(lease._lease).shape == shape and lease._lease.nbytes == 0
    lease._lease.__dlpack__(max_version=(1, 0))
    lease.commit()
    msg = sub.next(WAIT)
    assert memoryview(msg).shape == shape and memoryview(msg).nbytes == 0
    assert msg.__array_interface__["shape"] == shape
    msg.__dlpack__(max_version=(1, 0))


def test_post_holds_the_bytes_until_they_are_settled(conn):
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    data = bytearray(b"x" * 500_000)
    assert pub.post(data) == 1
    with pytest.raises(BufferError):
        data.append(0)
    pub.flush(WAIT)
    assert bytes(sub.next(WAIT)) == data
    data.append(0)
    assert pub.send_many([b"a"] * 100) == 100
    taken = []
    while len(taken) < 100:
        taken += sub.next_many(64, WAIT)
    assert {bytes(msg) for msg in taken} == {b"a"}


def test_into_lands_where_the_callable_says(conn):
    made = []

    def host(size, msg):
        if not made:
            made.append(None)
            raise KeyError("not now")
        made.append(bytearray(size if len(made) != 1 else size - 1))
        return made[-1]

    sub = conn.subscribe("a", into={"host": host})
    conn.publish("a", b"landed")
    with pytest.raises(KeyError):
        sub.next(WAIT)
    with pytest.raises(ValueError, match="too few"):
        sub.next(WAIT)
    assert sub.next(WAIT) == bytearray(b"landed")


@pytest.mark.parametrize("failure", [KeyError, KeyboardInterrupt])
def test_what_has_landed_is_not_lost_where_the_next_one_fails(conn, failure):
    """next_many used to forget what it had by then."""
    made = []

    def host(size, msg):
        made.append(msg.seq)
        if len(made) == 3:
            raise failure
        return bytearray(size)

    sub, pub = conn.subscribe("a", into={"host": host}), conn.publisher("a")
    pub.send_many([b"0", b"1", b"2", b"3"])
    while sub.stat()["pending_msgs"] < 4:
        conn.poll(0.01)
    landed = []
    if failure is KeyboardInterrupt:
        with pytest.raises(failure):
            sub.next_many(10, WAIT)
    else:
        landed += sub.next_many(10, WAIT)
        assert landed == [b"0", b"1"]
        with pytest.raises(failure):  # It was swallowed once.
            sub.next_many(10, WAIT)
    while len(landed) < 4:
        landed += sub.next_many(10, WAIT)
    assert landed == [b"0", b"1", b"2", b"3"] and made == [1, 2, 3, 3, 4]


def test_a_thread_that_waits_takes_what_another_one_leaves(conn):
    """It used to wait on for a message of its own."""
    threads, asked, has_looked, got = [], threading.Event(), threading.Event(), []

    class Kept(collections.deque):
        def popleft(self):
            try:
                return super().popleft()
            except IndexError:
                if threading.current_thread() is threads[1]:
                    has_looked.set()
                raise

    def host(size, msg):
        if threading.current_thread() is threads[0]:
            asked.set()
            assert has_looked.wait(WAIT)
            raise KeyError("not now")
        return bytearray(size)

    def fail():
        try:
            sub.next(WAIT)
        except KeyError as error:
            got.append(error.args)

    sub = conn.subscribe("a", into={"host": host})
    sub._kept = Kept()
    conn.publish("a", b"kept")
    threads += [threading.Thread(target=fail), threading.Thread(target=lambda: got.append(sub.next(WAIT)))]
    threads[0].start()
    assert asked.wait(WAIT)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert got == [("not now",), b"kept"]


def test_requests_have_arrays_too(ambroker, conn):
    sub = conn.subscribe("sum")

    def serve():
        msg = sub.next(WAIT)
        msg.reply(numpy.asarray(msg).sum(keepdims=True), props={"n": len(msg)})

    thread = threading.Thread(target=serve)
    thread.start()
    answer = conn.request("sum", numpy.arange(5.0), timeout=WAIT)
    thread.join()
    assert numpy.asarray(answer).tolist() == [10.0] and answer.props == {"n": b"40"}
    with pytest.raises(ambroker.NoResponders):
        conn.request("nobody", b"", timeout=WAIT)
    with pytest.raises(ambroker.Timeout):
        conn.request("sum", b"", timeout=0.3)


def test_a_lease_is_written_by_dlpack(conn):
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    lease = pub.lease((3, 4), "f4")
    raw = lease._lease
    assert raw.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        raw.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        raw.__dlpack__(copy=True)
    numpy = pytest.importorskip("numpy")
    if hasattr(numpy, "from_dlpack"):
        array = numpy.from_dlpack(raw)
        assert array.shape == (3, 4) and array.__array_interface__["data"][0] == raw.__array_interface__["data"][0]
        if array.flags.writeable:  # Before NumPy 2.1 it never is.
            array[:] = 7
        else:
            lease.array[:] = 7
        lease.commit()
        assert numpy.asarray(sub.next(WAIT)).tolist() == [[7.0] * 4] * 3
        with pytest.raises(BufferError, match="committed"):
            raw.__dlpack__()
        del lease, raw
        conn.close()
        float(array[0, 0])  # The memory is there, whatever has become of it.


@pytest.mark.parametrize("falls_back", ["copies", "cannot"])
def test_a_lease_without_memory_for_its_array_is_no_copy(conn, monkeypatch, falls_back):
    """As NumPy does where it has no memory for the buffer: it asks for the items, one by one."""
    numpy = pytest.importorskip("numpy")
    pub = conn.publisher("a")

    def asarray(memory):
        if falls_back == "cannot":
            raise NotImplementedError("multi-dimensional sub-views are not implemented")
        return numpy.array(memory)

    with monkeypatch.context() as patch:
        patch.setattr("ambroker._lease.numpy_or_none", lambda: type("Numpy", (), {"asarray": staticmethod(asarray)}))
        with pytest.raises(MemoryError):
            with pub.lease((3, 4), "f4"):
                pass
    with pub.lease((3, 4), "f4") as array:
        array[:] = 7


def test_the_package_leaves_numpy_to_the_first_lease(environment):
    code = "import sys, ambroker; print('numpy' in sys.modules); import numpy"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True,
                          timeout=60)
    assert done.stdout == "False\n"
