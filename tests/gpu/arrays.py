#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package between array libraries. Each publishes an array that a kernel of its own has written, on a stream
of its own, and writes one into a lease. Each reads both where they lie, on another stream, and has a kernel check them.

    tests/gpu/arrays.py BUILD_OR_KIT [--real]

With --real PyTorch, CuPy, Numba and JAX on GPU 0, those that are here. Else NumPy in host memory, which goes the same
way.
Exit: 0 all pairs of those that are here have passed, 1 not, 77 none is here, or no package that this Python takes."""
import os
import pathlib
import sys

COUNT = 1 << 20  # of float32: element i is 3 * i + 1
WAIT = 60


class Numpy:
    """Host memory: no streams, no kernels."""

    leases = True

    def __init__(self):
        import numpy  # pylint: disable=import-outside-toplevel
        self.np = numpy
        self.name = f"numpy {numpy.__version__}"

    def stream(self):
        return None

    def make(self, _stream):
        return self.np.arange(COUNT, dtype="f4") * 3 + 1

    def read(self, msg, _stream):
        return self.np.asarray(msg)

    def write(self, lease, _stream):
        self.np.asarray(lease)[:] = self.make(None)

    def is_good(self, array, _stream):
        return bool((array == self.make(None)).all())

    def address(self, array):
        return array.__array_interface__["data"][0]


class Torch:
    leases = True

    def __init__(self):
        import torch  # pylint: disable=import-outside-toplevel
        if not torch.cuda.is_available():
            raise ImportError("torch sees no GPU")
        self.torch = torch
        self.name = f"torch {torch.__version__}"

    def stream(self):
        return self.torch.cuda.Stream()

    def make(self, stream):
        with self.torch.cuda.stream(stream):
            return self.torch.arange(COUNT, device="cuda", dtype=self.torch.float32) * 3 + 1

    def read(self, msg, stream):
        with self.torch.cuda.stream(stream):
            return self.torch.from_dlpack(msg)

    def write(self, lease, stream):
        with self.torch.cuda.stream(stream):
            self.torch.from_dlpack(lease).copy_(self.make(stream))

    def is_good(self, array, stream):
        with self.torch.cuda.stream(stream):
            return self.torch.equal(array, self.make(stream))

    def address(self, array):
        return array.data_ptr()


class Cupy:
    leases = True

    def __init__(self):
        import cupy  # pylint: disable=import-outside-toplevel
        self.cp = cupy
        self.name = f"cupy {cupy.__version__}"

    def stream(self):
        return self.cp.cuda.Stream(non_blocking=True)

    def make(self, stream):
        with stream:
            return self.cp.arange(COUNT, dtype="f4") * 3 + 1

    def read(self, msg, stream):
        with stream:
            return self.cp.from_dlpack(msg)

    def write(self, lease, stream):
        with stream:
            self.cp.asarray(lease)[:] = self.make(stream)

    def is_good(self, array, stream):
        with stream:
            return bool((array == self.make(stream)).all())

    def address(self, array):
        return array.data.ptr


class Numba:
    leases = True

    def __init__(self):
        import numba  # pylint: disable=import-outside-toplevel
        from numba import cuda  # pylint: disable=import-outside-toplevel
        if not cuda.is_available():
            raise ImportError("numba sees no GPU")
        self.cuda = cuda
        self.name = f"numba {numba.__version__}"
        self.grid = ((COUNT + 255) // 256, 256)

        @cuda.jit
        def fill(out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = 3 * i + 1

        @cuda.jit
        def count_wrong(array, wrong):
            i = cuda.grid(1)
            if i < array.size and array[i] != 3 * i + 1:
                cuda.atomic.add(wrong, 0, 1)

        self.fill, self.count_wrong = fill, count_wrong

    def stream(self):
        return self.cuda.stream()

    def make(self, stream):
        array = self.cuda.device_array(COUNT, "f4", stream=stream)
        self.fill[(*self.grid, stream)](array)
        return array

    def read(self, msg, _stream):
        return self.cuda.as_cuda_array(msg)

    def write(self, lease, stream):
        self.fill[(*self.grid, stream)](self.cuda.as_cuda_array(lease))

    def is_good(self, array, stream):
        wrong = self.cuda.device_array(1, "i4", stream=stream)
        wrong[0] = 0
        self.count_wrong[(*self.grid, stream)](array, wrong)
        stream.synchronize()
        return int(wrong.copy_to_host()[0]) == 0

    def address(self, array):
        return array.__cuda_array_interface__["data"][0]


class Jax:
    leases = False  # Its arrays are never written.

    def __init__(self):
        import jax  # pylint: disable=import-outside-toplevel
        if jax.default_backend() != "gpu":
            raise ImportError("jax sees no GPU")
        self.jax = jax
        self.name = f"jax {jax.__version__}"

    def stream(self):
        return None

    def make(self, _stream):
        numpy = self.jax.numpy
        return (numpy.arange(COUNT, dtype=numpy.float32) * 3 + 1).block_until_ready()

    def read(self, msg, _stream):
        return self.jax.dlpack.from_dlpack(msg.unflagged)

    def is_good(self, array, _stream):
        return bool((array == self.make(None)).all())

    def address(self, array):
        return array.unsafe_buffer_pointer()


def skip(why):
    print(why)
    sys.exit(77)


def package(root):
    """The package of a build or a kit, and the folder with its broker."""
    if not (root / "python" / "ambroker").exists():
        skip(f"no Python package in {root}")
    os.environ.setdefault("AMBROKER_BIN", str(root / "broker"))
    sys.path.insert(0, str(root / "python"))
    try:
        import ambroker  # pylint: disable=import-outside-toplevel
    except (ImportError, SyntaxError) as error:
        skip(f"Python {sys.version.split()[0]}: {error}")
    return ambroker


def libraries(is_real):
    found, missing = [], []
    for kind in (Torch, Cupy, Numba, Jax) if is_real else (Numpy,):
        try:
            found.append(kind())
        except Exception as error:  # pylint: disable=broad-exception-caught
            missing.append(f"{kind.__name__.lower()}: {error}")
    if not found:
        skip("; ".join(missing))
    return found, missing


def address_of(msg, is_real):
    interface = msg.__cuda_array_interface__ if is_real else msg.__array_interface__
    return interface["data"][0]


def judge(reader, msg, stream, is_real):
    """What is wrong with what the reader has; None: nothing."""
    array = reader.read(msg, stream)
    if reader.address(array) != address_of(msg, is_real):
        return f"it has memory of its own at {reader.address(array):#x}"
    return None if reader.is_good(array, stream) else "it reads other numbers"


def pair(conn, writer, reader, is_real):
    """Says what went from one library to the other, or ends."""
    topic = f"{writer.name.split()[0]}.{reader.name.split()[0]}"
    there, here = writer.stream(), reader.stream()
    options = {"mem": "cuda:0", "stream": here} if is_real else {}
    sub, pub = conn.subscribe(topic, **options), conn.publisher(topic, lease_mem="cuda:0" if is_real else None)
    ways = ["sent"]
    array = writer.make(there)
    pub.send(array, WAIT, stream=there)
    if writer.leases:
        ways.append("leased")
        lease = pub.lease(COUNT, "f4", timeout=WAIT, stream=there)
        writer.write(lease.array, there)
        lease.commit(stream=there)
    for way in ways:
        wrong = judge(reader, sub.next(WAIT), here, is_real)
        if wrong is not None:
            sys.exit(f"{writer.name}, {way}, to {reader.name}: {wrong}")
    print(f"{writer.name} to {reader.name}: {' and '.join(ways)}, {4 * COUNT} bytes each, read in place")
    sub.close()
    pub.close()


def main():
    is_real = "--real" in sys.argv
    ambroker = package(pathlib.Path(sys.argv[1]).resolve())
    found, missing = libraries(is_real)
    memory = {"host": {"size": "256M"}, **({"cuda": {"size": "512M"}} if is_real else {})}
    with ambroker.Broker(memory=memory) as broker, ambroker.connect(broker.url) as conn:
        for writer in found:
            for reader in found:
                pair(conn, writer, reader, is_real)
    if missing:
        print("left out:", "; ".join(missing))


if __name__ == "__main__":
    main()
