#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An array library that knows nothing of Ambroker reads what was received, where it lies, by DLPack.

    tests/gpu/dlpack.py BUILD_OR_KIT [--real]

With --real PyTorch or CuPy from GPU memory; else NumPy from host memory, which tries the same way as far
as it goes without a GPU. Exit 77: none of them can be imported, or the library is too old.
"""
import ctypes
import os
import subprocess
import sys
import tempfile
import time

AMB_MEM_HOST, AMB_MEM_CUDA = 2, 4
SECOND = 1000000000


def skip(why):
    print(why)
    sys.exit(77)


def library(real):
    """A name, how it takes a capsule, and whether its array lies on a GPU at this address."""
    names = ("torch", "cupy") if real else ("numpy",)
    for name in names:
        try:
            module = __import__(name)
        except ImportError:
            continue
        return name, module
    return skip("none of " + ", ".join(names) + " can be imported")


class Capsule:
    """What array libraries ask for an array: __dlpack__ and its device."""

    def __init__(self, managed, device):
        self.managed, self.device = managed, device

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(self.managed, b"dltensor_versioned", None)

    def __dlpack_device__(self):
        return self.device


def find(root, name):
    for folder in (root, os.path.join(root, "lib"), os.path.join(root, "client")):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    return skip(f"no {name} in {root}")


def receive(amb, url, mem, publish):
    """The first message of a topic as (amb, message)."""
    amb.amb_msg_data.restype = ctypes.c_void_p
    amb.amb_msg_data_on.restype = ctypes.c_void_p
    amb.amb_msg_size.restype = ctypes.c_size_t
    conn, sub, msg = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(amb, amb.amb_connect(url.encode(), None, ctypes.byref(conn)), "connect")
    options = (ctypes.c_uint32 * 128)()
    options[0] = 16  # size: up to `lazy`; the rest is what it is by default
    options[1] = mem
    check(amb, amb.amb_subscribe(conn, b"gpu.roundtrip", options, ctypes.byref(sub)), "subscribe")
    publish()
    while True:
        forever = ctypes.c_int64(20 * SECOND)
        check(amb, amb.amb_next(sub, forever, ctypes.byref(msg)), "next")
        if amb.amb_msg_size(msg) >= 65536:
            return conn, msg
        amb.amb_msg_release(msg)


def check(amb, status, what):
    if status != 0:
        amb.amb_strerror.restype = ctypes.c_char_p
        raise SystemExit(f"{what}: {amb.amb_strerror(status).decode()}")


def start_broker(root, folder):
    url = f"unix://{folder}/s"
    command = [os.path.join(root, "broker", "brokerd"), "--dev", "--listen", url,
               "-o", "transports.trusted=", "-o", "memory.cuda.size=512M"]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if not broker.stdout.readline().startswith(b"ready"):
        raise SystemExit("brokerd does not start")
    return broker, url


def main():
    root, real = os.path.abspath(sys.argv[1]), "--real" in sys.argv
    name, module = library(real)
    if not hasattr(module, "from_dlpack"):
        skip(f"{name} {module.__version__} has no from_dlpack")
    if real and name == "torch" and not module.cuda.is_available():
        skip("torch sees no GPU")
    amb = ctypes.CDLL(find(root, "libamb.so.0"))
    with tempfile.TemporaryDirectory() as folder:
        broker, url = start_broker(root, folder)
        try:
            read_array(amb, root, url, name, module, real)
        finally:
            broker.terminate()
            broker.wait()


def read_array(amb, root, url, name, module, real):
    if real and name == "torch":
        module.zeros(1, device="cuda")  # Its context is the primary one, as ours.

    def publish():
        environment = dict(os.environ, AMB_URL=url)
        global publisher
        publisher = subprocess.Popen([os.path.join(root, "tests", "gpu-roundtrip"), "publish", "0", "1"],
                                     env=environment, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)

    conn, msg = receive(amb, url, AMB_MEM_CUDA if real else AMB_MEM_HOST, publish)
    managed = ctypes.c_void_p()
    check(amb, amb.amb_msg_dlpack(msg, None, ctypes.byref(managed)), "dlpack")
    device = (2, amb.amb_msg_device(msg)) if real else (1, 0)
    address = amb.amb_msg_data_on(msg, None) if real else amb.amb_msg_data(msg)
    size = amb.amb_msg_size(msg)
    try:
        array = module.from_dlpack(Capsule(managed, device))
    except (BufferError, TypeError, ValueError, RuntimeError) as error:
        skip(f"{name} {module.__version__} does not take a versioned, read-only DLPack: {error}")
    where = array.data_ptr() if name == "torch" else (
        array.data.ptr if name == "cupy" else array.ctypes.data)
    flat = array.reshape(-1)
    host = flat.cpu().numpy() if name == "torch" else flat.get() if name == "cupy" else flat
    # gpu-roundtrip's pattern; the sequence is the message's.
    amb.amb_msg_seq.restype = ctypes.c_uint64
    seq = amb.amb_msg_seq(msg)
    good = where == address and len(host) == size and all(
        int(host[i]) == (seq * 31 + i * 7 + (i >> 8)) % 256 for i in range(0, size, 997))
    amb.amb_msg_release(msg)
    del array, flat, host
    time.sleep(0.05)
    publisher.kill()
    publisher.wait()
    amb.amb_close(conn, ctypes.c_int64(5 * SECOND))
    if not good:
        raise SystemExit(f"{name} reads other bytes, or a copy: at {where:#x}, not {address:#x}")
    print(f"{name} {module.__version__} read {size} bytes in place on device {device}")


if __name__ == "__main__":
    main()
