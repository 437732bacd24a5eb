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
POSTED, SETTLED, RECEIVED, WRONG, END, ACKED = 1, 2, 3, 4, 5, 6
SIZE = 100
MODES = {"sub": 0, "ack": 1, "group": 2, "cumulative": 3}


def record(kind, publisher=0, number=0, seq=0, topic=0, size=0, lost=0, attempt=1):
    return {"kind": kind, "publisher": publisher, "number": number, "seq": seq, "topic": topic,
            "size": size, "lost": lost, "attempt": attempt}


def write(path, id_, groups, mode, records):
    with open(path, "wb") as log:
        log.write(struct.pack("<QQIIQQ24x", MAGIC, id_, groups, mode, len(records), len(records)))
        for r in records:
            log.write(struct.pack("<QQQIIIHH", r["publisher"], r["number"], r["seq"], r["topic"],
                                  r["size"], r["lost"], r["kind"], r["attempt"]))


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


def good_acks(name):
    """One publisher, five messages; the third is given back once."""
    one = [record(POSTED, 1, n, topic=3, size=SIZE) for n in range(1, 6)]
    one += [record(SETTLED, 1, 1, 5, topic=3), record(END)]
    reads = []
    for n in (1, 2, 3, 4, 3, 5):
        attempt = 2 if n == 3 and reads[-1]["number"] == 4 else 1
        reads.append(record(RECEIVED, 1, n, n, 3, SIZE, attempt=attempt))
        if n != 3 or attempt == 2:
            reads.append(record(ACKED, 1, n, n, 3, SIZE, attempt=attempt))
    if name == "ack":
        return {1: one, "ack": reads + [record(END)]}
    if name == "cumulative":  # 1 to 3 by one, 4 and 5 by another; 3 came again before.
        reads = [record(RECEIVED, 1, n, n, 3, SIZE, attempt=a)
                 for n, a in ((1, 1), (2, 1), (3, 1), (3, 2), (4, 1), (5, 1))]
        reads.insert(4, record(ACKED, 1, 3, 3, 3, SIZE))
        return {1: one, "cumulative": reads + [record(ACKED, 1, 5, 5, 3, SIZE), record(END)]}
    # Two members: the message that was given back goes to the other one.
    return {1: one, "group-a": reads[:7] + [record(END)], "group-b": reads[7:] + [record(END)]}


UNKNOWN, LOST_ALL = 1, 0xFFFFFFFF


def good_restart():
    """One publisher, twenty messages to topic 3 and as many to topic 4, same subscription. The broker is replaced
    behind number 10 of each: 9 was accepted and is lost with it, 10 is unknown, 11 came before
    the subscription was back. Sequences begin anew."""
    one, reads = [], []
    for topic in (3, 4):
        one += [record(POSTED, 1, n, topic=topic, size=SIZE) for n in range(1, 21)]
        one += [record(SETTLED, 1, 1, 9, topic), record(SETTLED, 1, 10, 10, topic, UNKNOWN),
                record(SETTLED, 1, 11, 20, topic)]
        reads += [record(RECEIVED, 1, n, n, topic, SIZE) for n in range(1, 9)]
    for topic in (3, 4):
        reads += [record(RECEIVED, 1, n, n - 10, topic, SIZE) for n in range(12, 21)]
    reads[16]["lost"] = LOST_ALL
    return {1: one + [record(END)], "sub": reads + [record(END)]}


RESTART_FAULTS = {
    "told more often than there were restarts": lambda logs: logs["sub"][20].update(lost=LOST_ALL),
    "a loss that nobody told": lambda logs: logs["sub"][16].update(lost=0),
    "a gap in the second life": lambda logs: logs["sub"].pop(18),
    "a gap without a gap in the sequence": lambda logs: (
        logs["sub"][18].update(number=15), logs["sub"][19].update(number=16),
        logs["sub"].pop(20), [r.update(seq=r["seq"] - 1) for r in logs["sub"][20:24]]),
    "the end of the second life missing": lambda logs: logs["sub"].pop(-2),
    "the same twice, once in each life": lambda logs: logs["sub"][16].update(number=8),
    "a gap in the first life": lambda logs: logs["sub"].pop(5),
}


def first_of(records, kind):
    return next(r for r in records if r["kind"] == kind)


ACK_FAULTS = {
    "never acknowledged": lambda logs: logs["ack"].pop(-2),
    "acknowledged twice": lambda logs: logs["ack"].insert(-1, dict(logs["ack"][-2])),
    "first delivered twice": lambda logs: logs["ack"].insert(0, dict(logs["ack"][0])),
    "wrong bytes, acknowledged": lambda logs: logs["ack"][0].update(kind=WRONG),
}
CUMULATIVE_FAULTS = {
    "the last ones not covered": lambda logs: logs["cumulative"].pop(-2),
    "covered, and never there": lambda logs: logs["cumulative"].pop(1),
    "again, though covered": lambda logs: logs["cumulative"].insert(
        -1, dict(logs["cumulative"][0], attempt=2)),
    "acknowledged before it came": lambda logs: swap(logs["cumulative"], 6, 7),
    "the second before the first": lambda logs: swap(logs["cumulative"], 0, 1),
    "another size, acknowledged": lambda logs: logs["cumulative"][0].update(size=SIZE + 1),
    "wrong bytes, covered": lambda logs: logs["cumulative"][0].update(kind=WRONG),
}
GROUP_FAULTS = {
    "to two members": lambda logs: logs["group-b"].insert(0, dict(logs["group-a"][0])),
    "acknowledged by two members": lambda logs: logs["group-b"].insert(
        0, dict(first_of(logs["group-a"], ACKED))),
    "to no member": lambda logs: logs.update({"group-b": [record(END)]}),
}


def judge(rig, logs, *options):
    paths = []
    for name, records in logs.items():
        paths.append(str(rig.folder / f"log-{name}"))
        is_sub = isinstance(name, str)
        mode = MODES[name.partition("-")[0]] if is_sub else 0
        write(paths[-1], 0 if is_sub else name, 1 if is_sub else 0, mode, records)
    done = subprocess.run([rig.program("delivery-check"), *options, *paths], capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stderr


def test(rig, _options):
    check(judge(rig, good()) == (0, ""), f"good logs are judged {judge(rig, good())}")
    for kind in ("ack", "group", "cumulative"):
        verdict = judge(rig, good_acks(kind))
        check(verdict == (0, ""), f"good logs with {kind} are judged {verdict}")
    faults = [(good, *fault) for fault in FAULTS.items()]
    faults += [(lambda: good_acks("ack"), *fault) for fault in ACK_FAULTS.items()]
    faults += [(lambda: good_acks("group"), *fault) for fault in GROUP_FAULTS.items()]
    check(judge(rig, good_restart(), "--restarts", "1") == (0, ""),
          f"a restart is taken for a fault: {judge(rig, good_restart(), '--restarts', '1')}")
    faults.append((good_restart, "unknown without a restart", lambda logs: logs["sub"].clear()))
    for name, plant in RESTART_FAULTS.items():
        logs = good_restart()
        plant(logs)
        status, text = judge(rig, logs, "--restarts", "1")
        check(status == 1 and text, f"not found: {name}")
        print(f"{name}: {text.splitlines()[0]}")
    faults += [(lambda: good_acks("cumulative"), *fault) for fault in CUMULATIVE_FAULTS.items()]
    for make, name, plant in faults:
        logs = copy.deepcopy(make())
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
