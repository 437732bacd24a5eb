# SPDX-License-Identifier: Apache-2.0
"""The harness of the Python benchmarks finds what is planted: losses, damage, wrong order; and tells who holds a GIL."""
import pathlib
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
numpy = pytest.importorskip("numpy")

import cells  # noqa: E402
import comm  # noqa: E402
import gauge  # noqa: E402
import merge  # noqa: E402
import table  # noqa: E402
from board import END, HELLO, RING, Board, Payloads, Tally  # noqa: E402

COUNTS = ("lost", "disordered", "damaged")


def run_small(datas, sent):
    payloads = Payloads(64)
    tally = Tally(payloads, True)
    for data in datas:
        if data == payloads.ring[tally.at]:
            tally.took(1)
        else:
            tally.odd(data)
    answer = tally.end(sent)
    return [answer[key] for key in COUNTS], tally


def run_large(datas, sent):
    tally = Tally(Payloads(65536), True)
    for words in datas:
        tally.large(words)
    answer = tally.end(sent)
    return [answer[key] for key in COUNTS], tally


def words_of(seq):
    words = numpy.zeros(8192, "u8")
    Payloads(65536).fill(words, seq)
    return words


def test_whole():
    ring = Payloads(64).ring
    assert run_small(ring + ring, 2 * RING)[0] == [0, 0, 0]
    assert run_large([words_of(seq) for seq in range(9)], 9)[0] == [0, 0, 0]


def test_lost():
    ring = Payloads(64).ring
    assert run_small(ring[:5] + ring[8:], RING)[0] == [3, 0, 0]
    assert run_small(ring[:5], 7)[0] == [2, 0, 0]  # the last ones
    assert run_large([words_of(seq) for seq in (0, 1, 4)], 5)[0] == [2, 0, 0]


def test_disordered():
    ring = Payloads(64).ring
    assert run_small(ring[:5] + ring[3:4] + ring[5:], RING)[0] == [0, 1, 0]
    assert run_large([words_of(seq) for seq in (0, 1, 1, 2)], 3)[0] == [0, 1, 0]


@pytest.mark.parametrize("at", [8, 30, 63])
def test_damaged_small(at):
    ring = list(Payloads(64).ring)
    data = bytearray(ring[5])
    data[at] ^= 1
    ring[5] = bytes(data)
    assert run_small(ring, RING)[0] == [0, 0, 1]


@pytest.mark.parametrize("at", [8, 32768, 65535])
def test_damaged_large(at):
    datas = [words_of(seq) for seq in range(3)]
    datas[1].view("u1")[at] ^= 1
    assert run_large(datas, 3)[0] == [0, 0, 1]


def test_special():
    payloads = Payloads(64)
    counts, tally = run_small([payloads.special(HELLO), payloads.ring[0], payloads.special(END)], 1)
    assert counts == [0, 0, 0] and tally.heard and tally.is_over


def test_window(tmp_path):
    """A writer stays within the window of the slowest reader."""
    board = Board(tmp_path / "board", 2)
    assert board.room(0, [0, 1], 10) == 10
    board.count(0, 7)
    assert board.room(10, [0, 1], 10) == 10
    board.count(1, 4)
    assert board.room(10, [0, 1], 10) == 14


PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
import gauge
print(gauge.gil_address(), flush=True)
end = time.monotonic() + 20
while time.monotonic() < end:
    if sys.argv[2] == "idle":
        time.sleep(0.05)
"""


@pytest.mark.parametrize("way,low,high", [("busy", 0.95, 1), ("idle", 0, 0.3)])
def test_gil(way, low, high):
    """A loop of Python's holds its GIL, one that sleeps does not."""
    folder = str(pathlib.Path(__file__).resolve().parent)
    with subprocess.Popen([sys.executable, "-c", PROGRAM, folder, way], stdout=subprocess.PIPE, text=True) as process:
        try:
            address = int(process.stdout.readline())
            if address == 0 and sys.version_info >= (3, 14):
                pytest.skip("not found in this interpreter")
            assert address
            gil = gauge.Gil(process.pid, address)
            for _ in range(200):
                gil.look()
                time.sleep(0.002)
            if gil.looks == 0:
                pytest.skip("the memory of another process cannot be read here")
            assert low <= gil.share() <= high
        finally:
            process.kill()


def row_of(system, cell, **figures):
    return dict(zip(cells.FIELDS, cell)) | {"system": system, "lost": 0, "disordered": 0, "damaged": 0} | figures


def test_table():
    """The best peer counts; a target that is missed is said so; a loss shows."""
    cell = ("pubsub", "64", 1, "sync", "call")
    rows = [row_of("ambroker", cell, msgs_per_s=5e6), row_of("zmq-ipc", cell, msgs_per_s=1e6),
            row_of("redis-unix", cell, msgs_per_s=2e6) | {"lost": 3}]
    said = table.text(rows).splitlines()
    assert next(line for line in said if "a call a message" in line).endswith("| 2.50 | >= 4 | no |")
    noisy = table.text([rows[0], rows[1] | {"others": 0.4}]).splitlines()
    assert next(line for line in noisy if "a call a message" in line).endswith("1 M* | 5 M | 5.00 | >= 4 | open |")
    assert said[-1].endswith("redis-unix: 3 lost, 0 out of order, 0 damaged")
    assert [table.is_bad(row) for row in rows] == [False, False, True]


def test_rounds():
    """The clean rounds count, losses of all; a file's row is such a round."""
    import driver  # pylint: disable=import-outside-toplevel

    cell = ("pubsub", "64", 1, "sync", "call")
    rows = [row_of("ambroker", cell, msgs_per_s=rate, others=others) for rate, others in
            ((1.0, 0.9), (5.0, 0.1), (7.0, 0.15))]
    rows[0]["lost"] = 2
    assert (driver.merged(rows)["msgs_per_s"], driver.merged(rows)["lost"]) == (6.0, 2)
    assert [row["msgs_per_s"] for row in driver.added(rows[:1], rows[1:2])] == [5.0]
    failed = {**row_of("ambroker", cell), "not run": "why"}
    assert driver.added(rows[:1], [failed])[0] == rows[0]
    assert driver.added([failed], rows[:1])[0] == rows[0]


def test_merge():
    """What partition and join make is what expected says, and a partition that is lost or changed shows."""
    workers, rows = 3, 100
    tables = [[merge.table(rows, worker, workers, is_left) for worker in range(workers)] for is_left in (True, False)]
    parts = [[merge.partition(*one, workers) for one in side] for side in tables]
    for me in range(workers):
        left, right = ([part[me] for part in side] for side in parts)
        assert merge.join(left, right) == merge.expected(rows, me, workers)
        assert merge.join(left[:-1], right) != merge.expected(rows, me, workers)
        keys, values = right[0]
        values[0] += 1
        assert merge.join(left, right) != merge.expected(rows, me, workers)


def test_comm_frames():
    """Frames of a Comm begin where they are aligned, one behind the other."""
    places, end = comm._places([3, 0, 130], 32)  # pylint: disable=protected-access
    assert places == [64, 128, 128] and end == 258
