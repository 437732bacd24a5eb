#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nobody copies: a process writes tensors into leases, two others read them, and all three have the same
memory. Proof: each array's address is in a mapping of the broker's segment, its library has no other memory
for it, and what the publisher writes into its memory after the commit is what the readers then see.

    nocopy.py [--build DIR] [--package DIR] [--rounds N]

NumPy always; PyTorch where it is installed. Messages are in host memory: GPUs have tests/gpu.
Exit: 0 proved, 1 not, 77 no package or no NumPy."""
import json
import sys

import program

ELEMENTS = 1 << 18  # float32: 1 MiB, so that no message is staged with others

READER = """
import json, sys
import numpy
try:
    import torch
except ImportError:
    torch = None
import ambroker

def mapping(address):
    for line in open("/proc/self/maps"):
        low, high = (int(word, 16) for word in line.split()[0].split("-"))
        if low <= address < high:
            return line.split()[-2] if line.endswith("(deleted)\\n") else line.split()[-1]

with ambroker.connect(sys.argv[1], name="reader") as conn:
    sub = conn.subscribe("tensors")
    print("ready")
    while True:
        msg = sub.next()
        array = numpy.asarray(msg)
        address = array.__array_interface__["data"][0]
        said = {"in": mapping(address), "first": float(array[0, 0]), "sum": float(array.sum()),
                "shape": array.shape, "path": msg.path, "writable": bool(array.flags.writeable)}
        if torch is not None:
            tensor = torch.from_dlpack(msg.unflagged)
            said["torch"] = [torch.__version__, tensor.data_ptr() == address, list(tensor.shape)]
        print(json.dumps(said))
        sys.stdin.readline()
        print(float(array[0, 0]))
        if said["first"] < 0:
            break
"""


def tell(condition, text):
    if not condition:
        sys.exit(f"nocopy: {text}")


def one_round(pub, readers, number, last):
    """Whether each reader has the publisher's memory."""
    lease = pub.lease((512, ELEMENTS // 512), "f4")
    array, late = lease.array, memoryview(lease._lease)
    array[:] = number
    array[0, 0] = -1.0 if last else number
    expected = float(array.sum())
    before = pub.stat()["leased"]
    lease.commit()
    rows = [json.loads(reader.line()) for reader in readers]
    # Counted when it leaves, which libamb's own thread may do after the commit; so not before it is read.
    tell(pub.stat()["leased"] == before + 1, "the counter of leased messages has not grown")
    for row in rows:
        tell("ambroker-segment" in row["in"], f"an array is in {row['in']}")
        tell(row["sum"] == expected and row["shape"] == [512, ELEMENTS // 512], f"wrong bytes: {row}")
        tell(not row["writable"], "an array can be written")
        tell(row.get("torch", [0, True])[1], "PyTorch's tensor has another address")
    late[0, 0] = number + 0.5  # Through a view of before the commit: the same memory, or nobody sees it.
    for reader in readers:
        reader.tell("again")
        seen = float(reader.line())
        tell(seen == number + 0.5, f"a reader sees {seen}: it has memory of its own")
    late.release()
    return rows


def main():
    given = program.options(__doc__, rounds=200)
    ambroker = program.module(given)
    if program.module(given, "numpy") is None:
        print("skipped: no NumPy")
        sys.exit(77)
    with program.rig(given, 280) as rig:
        broker = rig.broker()
        readers = [program.python(given, rig, READER, broker.url()) for _ in range(2)]
        for reader in readers:
            reader.expect("ready")
        with ambroker.connect(broker.url(), name="publisher") as conn:
            pub = conn.publisher("tensors")
            pub.wait_subscribers(2, 20)
            for number in range(1, given.rounds + 1):
                rows = one_round(pub, readers, number, number == given.rounds)
        for reader in readers:
            tell(reader.wait() == 0, reader.log())
    torch = rows[0].get("torch")
    print("| library | memory | messages | readers | path | same memory |\n|---|---|---|---|---|---|")
    print(f"| NumPy | host | {given.rounds} | 2 | {rows[0]['path']} | yes |")
    print(f"| PyTorch {torch[0]} | host | {given.rounds} | 2 | {rows[0]['path']} | yes |" if torch
          else "| PyTorch | - | not installed | - | - | - |")


if __name__ == "__main__":
    main()
