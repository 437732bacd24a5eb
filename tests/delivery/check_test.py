#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""delivery-check finds each kind of fault in logs that were written with one, and none in others.

    check_test.py BUILD
"""
import copy
import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import check, main

MAGIC = 0x31676F6C626D6101
POSTED, SETTLED, RECEIVED, WRONG, END = 1, 2, 3, 4, 5
SIZE = 100


def record(kind, publisher=0, number=0, seq=0, topic=0, size=0, lost=0):
    return {"kind": kind, "publisher": publisher, "number": number, "seq": seq, "topic": topic,
            "size": size, "lost": lost}


def write(path, id_, groups, records):
    with open(path, "wb") as log:
        log.write(struct.pack("<QQIIQQ24x", MAGIC, id_, groups, 0, len(records), len(records)))
        for r in records:
            log.write(struct.pack("<QQQIIII", r["publisher"], r["number"], r["seq"], r["topic"],
                                  r["size"], r["lost"], r["kind"]))


def good():
    """Two publishers, ten messages each to topic 3, taken in turn; every fourth too small to tell;
    sequence 9 and 10 were lost."""
    logs = {}
    sizes = {n: 8 if n % 4 == 0 else SIZE for n in range(1, 11)}
    for publisher in (1, 2):
        logs[publisher] = [record(POSTED, publisher, n, topic=3, size=sizes[n])
                           for n in range(1, 11)]
        logs[publisher] += [record(SETTLED, publisher, 1, 6, topic=3),
                            record(SETTLED, publisher, 7, 10, topic=3), record(END)]
    reads = []
    for n in range(1, 11):
        for publisher in (1, 2):
            seq = 2 * n - 2 + publisher
            if seq in (9, 10):
                continue
            is_stamped = sizes[n] == SIZE
            reads.append(record(RECEIVED, publisher if is_stamped else 0, n if is_stamped else 0,
                                seq, 3, sizes[n], 2 if seq == 11 else 0))
    logs["sub"] = reads + [record(END)]
    return logs


def swap(records, a, b):
    records[a], records[b] = records[b], records[a]


def drop_tail(logs):
    del logs["sub"][-2]


FAULTS = {
    "a delivery twice": lambda logs: logs["sub"].insert(1, dict(logs["sub"][0])),
    "two deliveries in the wrong order": lambda logs: swap(logs["sub"], 0, 2),
    "a silent loss": lambda logs: logs["sub"].pop(4),
    "the last one missing": drop_tail,
    "a loss counted short": lambda logs: logs["sub"][8].update(lost=1),
    "a loss that was none": lambda logs: logs["sub"][3].update(lost=1),
    "wrong bytes": lambda logs: logs["sub"][2].update(kind=WRONG),
    "a number that was never posted": lambda logs: logs["sub"][0].update(number=11),
    "a publisher that does not exist": lambda logs: logs["sub"][0].update(publisher=9),
    "another size": lambda logs: logs["sub"][0].update(size=SIZE + 1),
    "another topic": lambda logs: logs["sub"][0].update(topic=4),
    "a topic not asked for": lambda logs: logs["sub"][0].update(topic=63),
    "a number under another's sequence": lambda logs: (
        logs["sub"][0].update(number=2), logs["sub"][2].update(number=1)),
    "settled twice": lambda logs: logs[1].insert(-1, dict(logs[1][-2])),
    "never settled": lambda logs: logs[2].pop(-2),
    "delivered though refused": lambda logs: logs[2][-2].update(size=0xFFFFFFFF),
    "a subscriber without an end": lambda logs: logs["sub"].pop(),
    "a publisher without an end": lambda logs: logs[1].pop(),
}


def judge(rig, logs, *options):
    paths = []
    for name, records in logs.items():
        paths.append(str(rig.folder / f"log-{name}"))
        is_sub = name == "sub"
        write(paths[-1], 0 if is_sub else name, 1 if is_sub else 0, records)
    done = subprocess.run([rig.program("delivery-check"), *options, *paths], capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stderr


def test(rig, _options):
    check(judge(rig, good()) == (0, ""), f"good logs are judged {judge(rig, good())}")
    for name, plant in FAULTS.items():
        logs = copy.deepcopy(good())
        plant(logs)
        status, text = judge(rig, logs)
        check(status == 1 and text, f"not found: {name}")
        print(f"{name}: {text.splitlines()[0]}")
    # What a death leaves behind is no fault: a publisher cut off, its last message there or not.
    for received in (True, False):
        logs = good()
        del logs[2][-2:]
        if not received:
            drop_tail(logs)
        status, text = judge(rig, logs, "--killed")
        check(status == 0, f"a death is taken for a fault: {text}")


if __name__ == "__main__":
    main(test, 60)
