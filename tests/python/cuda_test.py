# SPDX-License-Identifier: Apache-2.0
"""GPU memory by the fake CUDA driver (tests/fakecuda): messages as __cuda_array_interface__ and DLPack, leases,
into=, streams. The consumer of the arrays is consumer.c. Skipped where ctest has not set the driver."""
import ctypes
import gc
import os
import pathlib
import struct
import subprocess
import sys
import time

import pytest

DRIVER = os.environ.get("AMB_CUDA_LIBRARY", "")
if "fakecuda" not in DRIVER or not pathlib.Path(DRIVER).exists():
    pytest.skip("no fake driver is set", allow_module_level=True)
WAIT = 20
CPU, CUDA = 1, 2
COUNT = 1 << 18  # of float32: 1 MiB
READ_ONLY = 1


class Seen(ctypes.Structure):
    """struct seen of consumer.c."""
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("flags", ctypes.c_uint64),
                *((name, ctypes.c_int32) for name in ("device_type", "device_id", "ndim", "code", "bits", "lanes")),
                ("shape", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8), ("address", ctypes.c_uint64)]


class Consumer:
    """An array library: it takes a capsule over, and gives it back by a thread without Python."""

    def __init__(self, build):
        self.library = ctypes.CDLL(str(build / "tests" / "libpython-consumer.so"))  # without the GIL
        self.driver = ctypes.CDLL(DRIVER)
        self.get_pointer, self.set_name = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_SetName
        self.get_pointer.restype, self.get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self.set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
        self.kept = []  # names are not copied

    def take(self, capsule, is_versioned=True):
        name = b"dltensor_versioned" if is_versioned else b"dltensor"
        pointer = self.get_pointer(capsule, name)
        self.kept.append(b"used_" + name)
        self.set_name(capsule, self.kept[-1])
        seen = Seen()
        self.library.consumer_look(ctypes.c_void_p(pointer), is_versioned, ctypes.byref(seen))
        return pointer, seen

    def give_back(self, pointer, is_versioned=True):
        assert self.library.consumer_delete(ctypes.c_void_p(pointer), is_versioned) == 0

    def peek(self, address, size):
        out = ctypes.create_string_buffer(size)
        assert self.driver.fakecuda_peek(ctypes.c_uint64(address), out, ctypes.c_size_t(size))
        return out.raw

    def poke(self, address, data):
        assert self.driver.fakecuda_poke(ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))

    def hold(self, is_held):
        self.driver.fakecuda_hold(ctypes.c_bool(is_held))

    def stream(self):
        """A stream of device 0's primary context."""
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert self.driver.cuCtxSetCurrent(context) == 0
        assert self.driver.cuStreamCreate(ctypes.byref(stream), 0) == 0
        return stream.value


@pytest.fixture
def consumer(build):
    return Consumer(build)


@pytest.fixture
def broker(rig):
    """It has memory of the fake driver's GPU."""
    rig.env |= {"AMB_CUDA_LIBRARY": DRIVER, "FAKECUDA_MEMORY": "1G", "FAKECUDA_MACHINE": os.environ["FAKECUDA_MACHINE"]}
    return rig.broker("-o", "memory.cuda.size=64M", "-o", "memory.cuda.devices=0", "-o", "memory.host.size=256M")


@pytest.fixture
def conn(ambroker, broker):
    with ambroker.connect(broker.url(), name="cuda") as connection:
        yield connection


def await_release(conn, sub):
    """Until the broker has all of its messages back."""
    end = time.monotonic() + WAIT
    while sub.stat()["held_msgs"]:
        assert time.monotonic() < end
        conn.poll(0.01)


def numbers(first=0):
    return struct.pack(f"<{COUNT}f", *range(first, first + COUNT))


def shaped(data):
    return memoryview(data).cast("f", shape=[512, 512])


def received(conn, data, **options):
    """A message in GPU memory that was published from the host, as a 2-d array."""
    sub = conn.subscribe("a", mem="cuda:0", **options)
    conn.publish("a", shaped(data))
    return sub.next(WAIT)


def test_a_message_lands_on_the_gpu(conn, consumer):
    data = numbers()
    msg = received(conn, data)
    assert (msg.mem, msg.device, len(msg)) == ("cuda", 0, len(data))
    shown = msg.__cuda_array_interface__
    address, readonly = shown["data"]
    assert (shown["shape"], shown["typestr"], shown["version"], readonly) == ((512, 512), "<f4", 3, True)
    assert consumer.peek(address, len(data)) == data
    assert not hasattr(msg, "__array_interface__")
    with pytest.raises((BufferError, TypeError, ValueError)):
        memoryview(msg)
    assert msg.read() == data


def test_a_capsule_has_the_standards_layout(conn, consumer):
    data = numbers()
    msg = received(conn, data)
    assert msg.__dlpack_device__() == (CUDA, 0)
    pointer, seen = consumer.take(msg.__dlpack__(max_version=(1, 0), stream=1))
    assert (seen.major, seen.flags & READ_ONLY, seen.device_type, seen.device_id) == (1, READ_ONLY, CUDA, 0)
    assert (seen.ndim, seen.code, seen.bits, seen.lanes) == (2, 2, 32, 1)
    assert list(seen.shape[:2]) == [512, 512] and list(seen.strides[:2]) in ([512, 1], [0, 0])
    assert seen.address == msg.__cuda_array_interface__["data"][0]
    conn.close()
    del msg
    gc.collect()
    assert consumer.peek(seen.address, len(data)) == data  # The capsule holds it.
    consumer.give_back(pointer)


def test_unversioned_capsules_are_of_unflagged_alone(conn, consumer):
    data = numbers()
    msg = received(conn, data)
    with pytest.raises(BufferError, match="unflagged"):
        msg.__dlpack__(stream=1)
    pointer, seen = consumer.take(msg.unflagged.__dlpack__(stream=1), False)
    assert seen.address == msg.__cuda_array_interface__["data"][0] and seen.device_type == CUDA
    consumer.give_back(pointer, False)
    with pytest.raises(BufferError):
        msg.__dlpack__(max_version=(1, 0), dl_device=(CPU, 0))
    with pytest.raises(ValueError):
        msg.__dlpack__(max_version=(1, 0), stream=0)
    with pytest.raises(BufferError):
        msg.__dlpack__(max_version=(1, 0), copy=True)


def test_what_nobody_takes_over_gives_the_message_back(conn):
    sub = conn.subscribe("a", mem="cuda:0")
    conn.publish("a", shaped(numbers()))
    msg = sub.next(WAIT)
    for version in ((1, 0), None):
        (msg if version else msg.unflagged).__dlpack__(max_version=version)
    del msg
    gc.collect()
    await_release(conn, sub)


class Array:
    """A library's array in GPU memory."""

    def __init__(self, address, shape, stream=None):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": shape, "typestr": "<f4",
                                         "strides": None, "version": 3, "stream": stream}


def test_a_gpus_array_is_published(conn, consumer):
    data = numbers(7)
    msg = received(conn, numbers())
    sub = conn.subscribe("b")
    lent = ctypes.c_uint64()
    consumer.stream()  # Its context is current now.
    assert consumer.driver.cuMemAlloc_v2(ctypes.byref(lent), ctypes.c_size_t(len(data))) == 0
    consumer.poke(lent.value, data)
    conn.publish("b", Array(lent.value, (512, 512)))
    got = sub.next(WAIT)
    assert got.read() == data and got.props == {}
    conn.publish("b", msg)  # Forwarded from the GPU.
    assert sub.next(WAIT).read() == numbers()


def test_into_reads_to_where_the_callable_says(conn, consumer):
    data = numbers()
    sub = conn.subscribe("a", mem="cuda:0", into={"cuda": lambda size, msg: bytearray(size)})
    conn.publish("a", shaped(data))
    assert sub.next(WAIT) == data
    lent = ctypes.c_uint64()
    consumer.stream()
    assert consumer.driver.cuMemAlloc_v2(ctypes.byref(lent), ctypes.c_size_t(len(data))) == 0
    own = Array(lent.value, (512, 512))
    answers = [ValueError("no memory"), Array(lent.value, (4,)), own]

    def make(_size, _msg):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    there = conn.subscribe("b", mem="cuda:0", into={"cuda": make})
    conn.publish("b", shaped(data))
    for _ in range(2):  # One that raises, one that is too small: the message stays.
        with pytest.raises(ValueError):
            there.next(WAIT)
    assert there.next(WAIT) is own
    assert consumer.peek(lent.value, len(data)) == data


def test_a_lease_of_gpu_memory(conn, consumer):
    data = numbers(3)
    sub = conn.subscribe("a", mem="cuda:0")
    pub = conn.publisher("a", lease_mem="cuda:0")
    with pub.lease((512, 512), "f4") as array:
        shown = array.__cuda_array_interface__
        assert shown["shape"] == (512, 512) and shown["data"][1] is False
        consumer.poke(shown["data"][0], data)
    assert array.__cuda_array_interface__["data"][1] is True  # Committed.
    msg = sub.next(WAIT)
    assert msg.__cuda_array_interface__["data"][0] != 0 and msg.read() == data


def test_a_lease_by_dlpack(conn, consumer):
    data = numbers(5)
    sub = conn.subscribe("a", mem="cuda:0")
    pub = conn.publisher("a", lease_mem="cuda:0")
    lease = pub.lease((512, 512), "f4")
    assert lease.array.__dlpack_device__() == (CUDA, 0)
    lease.array.__dlpack__(stream=1)  # Nobody takes it over.
    taken = [consumer.take(lease.array.__dlpack__(stream=1, max_version=version), version is not None)
             for version in ((1, 0), None)]
    for (_, seen), major in zip(taken, (1, 0)):
        assert (seen.major, seen.flags & READ_ONLY, seen.device_type, seen.ndim) == (major, 0, CUDA, 2)
        assert list(seen.shape[:2]) == [512, 512] and list(seen.strides[:2]) == [512, 1]
        assert seen.address == lease.array.__cuda_array_interface__["data"][0]
    consumer.poke(taken[0][1].address, data)
    array = lease.array
    lease.commit()
    assert sub.next(WAIT).read() == data
    with pytest.raises(BufferError, match="committed"):
        array.__dlpack__(stream=1)
    with pytest.raises(BufferError):
        pub.lease(4).array.__dlpack__(dl_device=(CPU, 0))
    del array, lease
    gc.collect()
    consumer.peek(taken[0][1].address, 4)  # The capsules hold the memory.
    consumer.give_back(taken[0][0])
    consumer.give_back(taken[1][0], False)
    pub.close()


def test_a_held_stream_holds_a_lease_and_a_release(conn, consumer):
    """What is on the stream comes first: a commit leaves, and memory goes back, only then."""
    data = numbers()
    stream = consumer.stream()
    sub = conn.subscribe("a", mem="cuda:0", stream=stream)
    pub = conn.publisher("a", lease_mem="cuda:0")
    lease = pub.lease((512, 512), "f4", stream=stream)
    consumer.poke(lease.array.__cuda_array_interface__["data"][0], data)
    consumer.hold(True)
    try:
        lease.commit()
        with pytest.raises(TimeoutError):
            sub.next(0.3)
    finally:
        consumer.hold(False)
    msg = sub.next(WAIT)
    assert msg.read() == data
    msg.release()
    await_release(conn, sub)


def test_objects_go_by_the_host(conn):
    """Also where leases are a GPU's; large ones used to be written there, and could not be."""
    sub, pub = conn.subscribe("a", trust_pickle=True), conn.publisher("a", lease_mem="cuda:0")
    for value in ([1], bytearray(300_000)):
        pub.send_object(value)
        assert sub.next(WAIT).object() == value
    assert pub.stat()["leases"] == 0


def test_torch_like_streams_are_taken(conn, consumer):
    number = consumer.stream()
    streams = (number, type("T", (), {"cuda_stream": number})(), type("C", (), {"ptr": number})(),
               type("P", (), {"__cuda_stream__": lambda self: (0, number)})())
    for stream in streams:
        sub = conn.subscribe("a", mem="cuda:0", stream=stream)
        conn.publish("a", shaped(numbers()), stream=stream)
        assert sub.next(WAIT).mem == "cuda"
        sub.close()
    with pytest.raises(TypeError):
        conn.subscribe("a", mem="cuda:0", stream="one")


def test_the_program_of_the_docs(environment, rig, broker):
    """docs/examples/python/cuda.py"""
    pytest.importorskip("numpy")
    program = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples" / "python" / "cuda.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False,
                          env={**environment, **rig.env, "AMB_URL": broker.url()})
    assert (done.stdout, done.returncode) == ("cuda:0 (512, 512)\nweights.two 262144.0\n", 0), done.stderr
