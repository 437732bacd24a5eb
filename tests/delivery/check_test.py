# SPDX-License-Identifier: Apache-2.0
"""delivery-check finds each kind of fault in logs that were written with one, and none in others.

    check_test.py
"""
import copy
import struct
import subprocess

import pytest

MAGIC = 0x31676F6C626D6101
POSTED, SETTLED, RECEIVED, WRONG, END, ACKED, TOLD = 1, 2, 3, 4, 5, 6, 7
SIZE = 100
START_NS, LIFE_NS = 10**18, 10**9
MODES = {"sub": 0, "ack": 1, "group": 2, "cumulative": 3}


def record(kind, publisher=0, number=0, seq=0, topic=0, size=0, lost=0, attempt=1, life=0):
    return {"kind": kind, "publisher": publisher, "number": number, "seq": seq, "topic": topic,
            "size": size, "lost": lost, "attempt": attempt, "life": life}


def write(path, id_, groups, mode, records, is_late=False):
    with open(path, "wb") as log:
        log.write(struct.pack("<QQIIQQI20x", MAGIC, id_, groups, mode, len(records), len(records),
                              is_late))
        for r in records:
            log.write(struct.pack("<QQQIIIHHq", r["publisher"], r["number"], r["seq"], r["topic"],
                                  r["size"], r["lost"], r["kind"], r["attempt"],
                                  START_NS + r["life"] * LIFE_NS))


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
        reads += [record(RECEIVED, 1, n, n - 10, topic, SIZE, life=1) for n in range(12, 21)]
    reads[16]["lost"] = LOST_ALL
    return {1: one + [record(END)], "sub": reads + [record(END)]}


def good_two_restarts():
    """The second broker has messages of topic 3 alone, and the third begins with one of topic 4."""
    one = [record(POSTED, 1, n, topic=topic, size=SIZE) for topic in (3, 4) for n in range(1, 21)]
    one += [record(SETTLED, 1, 1, 20, topic, UNKNOWN) for topic in (3, 4)]
    reads = [record(RECEIVED, 1, n, n, topic, SIZE) for topic in (3, 4) for n in range(1, 4)]
    reads += [record(RECEIVED, 1, n, n - 3, 3, SIZE, life=1) for n in range(5, 8)]
    reads += [record(RECEIVED, 1, n, n - 3, topic, SIZE, life=2)
              for topic in (4, 3) for n in range(10, 20)]
    reads[6]["lost"] = reads[9]["lost"] = LOST_ALL
    return {1: one + [record(END)], "sub": reads + [record(END)]}


TWO_RESTARTS_FAULTS = {
    "the third broker's first, and nobody told": lambda logs: logs["sub"][9].update(lost=0),
    "a gap in the third life": lambda logs: logs["sub"].pop(22),
}
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
    "told of another broker by the first one": lambda logs: logs["sub"][3].update(lost=LOST_ALL),
    "one of the first broker after one of the second": lambda logs: logs["sub"][17].update(life=0),
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


def told(delivered, dropped, matched):
    return record(TOLD, 1, delivered, dropped, 3, lost=matched)


def good_told(mode="sub"):
    """Ten messages to two subscribers, the fifth with a stamp as its property; the second one, unless it
    acknowledges, has lost 7 and 8. 1 to 5, 6 to 8, and the rest were settled together."""
    has_lost = mode == "sub"
    one = [record(POSTED, 1, n, topic=3, size=8 if n == 5 else SIZE) for n in range(1, 11)]
    for first, last, dropped in ((1, 5, 0), (6, 8, 2 * has_lost), (9, 10, 0)):
        one += [record(SETTLED, 1, first, last, 3), told(2 * (last - first + 1) - dropped, dropped, 2)]
    logs = {1: one + [record(END)]}
    for name in (f"{mode}-a", f"{mode}-b"):
        logs[name] = []
        for n in range(1, 11):
            if has_lost and name.endswith("b") and n in (7, 8):
                continue
            lost = 2 if has_lost and name.endswith("b") and n == 9 else 0
            logs[name].append(record(RECEIVED, 1, n, n, 3, 8 if n == 5 else SIZE, lost=lost))
            if mode == "ack":
                logs[name].append(dict(logs[name][-1], kind=ACKED))
        logs[name].append(record(END))
    return logs


def settled_of(logs, nth):
    """Where the publisher's nth TOLD is."""
    return [i for i, r in enumerate(logs[1]) if r["kind"] == TOLD][nth]


def tell(logs, nth, **changes):
    logs[1][settled_of(logs, nth)].update(changes)


def die(logs, name, keep):
    """A subscriber's log ends behind so many records, as a kill leaves it."""
    del logs[name][keep:]


TOLD_FAULTS = {
    "told one delivery too many": lambda logs: tell(logs, 1, number=5, seq=1),
    "told one delivery too few": lambda logs: tell(logs, 1, number=3, seq=3),
    "a drop that was none": lambda logs: tell(logs, 0, number=9, seq=1),
    "told delivered, and nobody matched": lambda logs: tell(logs, 0, lost=0),
    "counts that do not add up": lambda logs: tell(logs, 0, seq=1),
    "one subscription too many": lambda logs: tell(logs, 2, number=6, lost=3),
    "one subscription too few": lambda logs: tell(logs, 2, number=2, lost=1),
    "a tiny message told delivered, and only one has it": lambda logs: (
        logs["sub-b"].pop(4), logs["sub-b"][4].update(lost=1)),
    "settled, and not told": lambda logs: logs[1].pop(settled_of(logs, 1)),
    "another topic's word": lambda logs: tell(logs, 1, topic=4),
    "a tiny message under another's number": lambda logs: logs["sub-a"][4].update(number=6),
    "told delivered, and one has it twice, one not": lambda logs: (
        logs["sub-b"].pop(0), logs["sub-a"].insert(1, dict(logs["sub-a"][0]))),
}
# Of a run in which the subscriber was killed, or the broker: what is found all the same.
KILLED_TOLD_FAULTS = {
    "told delivered to one that died before": lambda logs: die(logs, "sub-b", 3),
    "told all delivered, and one has only most of it": lambda logs: (
        die(logs, "sub-b", 7), tell(logs, 1, number=5, seq=1)),
}
ACK_TOLD_FAULTS = {
    "told delivered, and never acknowledged": lambda logs: die(logs, "ack-b", 15),
}
LATE_FAULTS = {
    "late, and a gap": lambda logs: logs["sub-late"].pop(1),
    "late, and its last one missing": lambda logs: logs["sub-late"].pop(-2),
    "late, and one twice": lambda logs: logs["sub-late"].insert(1, dict(logs["sub-late"][0])),
}


def good_late(mode="sub"):
    """One has all ten, the other one came before the fifth."""
    logs = good_told("sub")
    logs["sub-a"], logs[f"{mode}-late"] = logs["sub-a"], copy.deepcopy(logs["sub-a"][4:])
    del logs["sub-b"]
    logs[1] = [r for r in logs[1] if r["kind"] != TOLD]
    for part in (logs["sub-a"], logs[f"{mode}-late"]):
        for r in part:
            if r["size"] == 8:
                r.update(publisher=0, number=0)
    if mode == "ack":
        logs["ack-late"] = [dict(r, kind=kind) for r in logs["ack-late"][:-1]
                            for kind in (RECEIVED, ACKED)] + [record(END)]
    return logs


def good_told_restart(mode="sub"):
    """1 to 6 of twenty were told delivered to one, 7 to 9 are unknown, 10 to 20 went to the second broker. The
    subscriber, which was not back before 12, has 7 too."""
    one = [record(POSTED, 1, n, topic=3, size=SIZE) for n in range(1, 21)]
    one += [record(SETTLED, 1, 1, 6, 3), told(6, 0, 1), record(SETTLED, 1, 7, 9, 3, UNKNOWN),
            record(SETTLED, 1, 10, 11, 3), told(0, 0, 0), record(SETTLED, 1, 12, 20, 3), told(9, 0, 1)]
    reads = [record(RECEIVED, 1, n, n, 3, SIZE) for n in range(1, 8)]
    reads += [record(RECEIVED, 1, n, n - 9, 3, SIZE, life=1) for n in range(12, 21)]
    reads[7]["lost"] = LOST_ALL
    if mode == "ack":  # The last of the first life is in the air.
        reads = [dict(r, kind=kind) for r in reads for kind in (RECEIVED, ACKED)
                 if r["number"] != 7 or kind == RECEIVED]
    return {1: one + [record(END)], mode: reads + [record(END)]}


RESTART_TOLD_FAULTS = {
    "told delivered by the first broker, and it never came": lambda logs: (
        logs["sub"].pop(5), logs["sub"][5].update(lost=1)),
    "told delivered by the second broker, and it never came": lambda logs: (
        logs["sub"].pop(10), logs["sub"][10].update(lost=1)),
    "told delivered, and another one came": lambda logs: tell(logs, 1, number=1, lost=1, seq=1),
}
RESTART_ACK_FAULTS = {
    "told delivered by the first broker, and not acknowledged": lambda logs: logs["ack"].pop(11),
    "first delivered by two brokers": lambda logs: logs["ack"][13].update(number=6),
}


def judge(rig, logs, *options):
    paths = []
    for name, records in logs.items():
        paths.append(str(rig.folder / f"log-{name}"))
        is_sub = isinstance(name, str)
        is_confirmed = any(r["kind"] == TOLD for r in records)
        mode = MODES[name.partition("-")[0]] if is_sub else is_confirmed
        write(paths[-1], 0 if is_sub else name, 1 if is_sub else 0, mode, records,
              str(name).endswith("late"))
    done = subprocess.run([rig.program("delivery-check"), *options, *paths], capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stderr


RESTARTED = ("--restarts", str(START_NS + LIFE_NS))
RESTARTED_TWICE = ("--restarts", f"{START_NS + LIFE_NS},{START_NS + 2 * LIFE_NS}")
# (how the logs are judged, what makes good ones, what is planted)
CASES = (
    ((), good, FAULTS),
    ((), lambda: good_acks("ack"), ACK_FAULTS),
    ((), lambda: good_acks("group"), GROUP_FAULTS),
    ((), lambda: good_acks("cumulative"), CUMULATIVE_FAULTS),
    (RESTARTED, good_restart, RESTART_FAULTS),
    (RESTARTED_TWICE, good_two_restarts, TWO_RESTARTS_FAULTS),
    ((), good_told, TOLD_FAULTS),
    (("--killed",), good_told, KILLED_TOLD_FAULTS),
    (("--killed",), lambda: good_told("ack"), ACK_TOLD_FAULTS),
    (("--killed",), good_late, LATE_FAULTS),
    (("--killed",), lambda: good_late("ack"), {
        "late, and not acknowledged": lambda logs: logs["ack-late"].pop(3)}),
    (RESTARTED, good_told_restart, RESTART_TOLD_FAULTS),
    (RESTARTED, lambda: good_told_restart("ack"), RESTART_ACK_FAULTS),
)


def expect_found(rig, options, logs):
    status, text = judge(rig, logs, *options)
    assert status == 1 and text
    print(text.splitlines()[0].rpartition("/")[2])


PLANTED = [pytest.param(options, make, plant, id=f"{index}-{name}")
           for index, (options, make, faults) in enumerate(CASES) for name, plant in faults.items()]


@pytest.mark.parametrize("options, make", [case[:2] for case in CASES])
def test_good_logs_are_good(rig, options, make):
    assert judge(rig, make(), *options) == (0, "")


@pytest.mark.parametrize("options, make, plant", PLANTED)
def test_a_fault_is_found(rig, options, make, plant):
    logs = copy.deepcopy(make())
    plant(logs)
    expect_found(rig, options, logs)


def test_what_is_unknown_without_a_restart_is_found(rig):
    logs = good_restart()
    logs["sub"].clear()
    expect_found(rig, (), logs)


# What a death leaves behind is no fault: a publisher cut off, its last message there or not; a
# subscriber that has more than it could give back; a publisher that was not told any more.
@pytest.mark.parametrize("received", (True, False))
def test_a_death_is_no_fault(rig, received):
    logs = good()
    del logs[2][-2:]
    if not received:
        drop_tail(logs)
    assert judge(rig, logs, "--killed")[0] == 0


@pytest.mark.parametrize("mode", ("sub", "ack"))
def test_a_death_before_the_release_is_no_fault(rig, mode):
    logs = good_told(mode)
    tell(logs, 2, number=2, seq=2)
    del logs[next(name for name in logs if str(name).endswith("b"))][-1:]
    assert judge(rig, logs, "--killed")[0] == 0


def test_a_death_between_two_records_is_no_fault(rig):
    logs = good_told()
    del logs[1][settled_of(logs, 2):]
    assert judge(rig, logs, "--killed")[0] == 0
