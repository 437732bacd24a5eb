# SPDX-License-Identifier: Apache-2.0
"""What the processes of a run share: a page of counters, and what a payload has to be.

Each reader counts what it has taken, so a writer can stay within a window of the slowest one, whatever
back-pressure the system has. The driver reads rates from the same counters.
"""
import mmap
import operator
import os
import time

WAIT, WARM, MEASURE, STOP = range(4)
_STATE, _SENT, _SLOTS = 0, 1, 8
COUNT, TIME_NS, READY, HEARD, DONE, GIL = range(6)  # of a slot
_WORDS = 8
SMALL = 4096  # up to here a payload is compared with the one that is due; above it is summed up
RING = 1024  # payloads of a small size, in turn
HELLO, END = (1 << 64) - 2, (1 << 64) - 1  # instead of a sequence
WINDOW_BYTES, WINDOW_LEAST, WINDOW_MOST = 16 << 20, 3, 32768
_MASK = (1 << 64) - 1


def window_of(size, most=WINDOW_MOST):
    """How many messages a writer may be ahead."""
    return max(WINDOW_LEAST, min(most, WINDOW_BYTES // size))


class Board:
    """The page; each process maps it by its path."""

    def __init__(self, path, slots):
        length = 8 * (_SLOTS + _WORDS * slots)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(file, length)
        self._map = mmap.mmap(file, length)
        os.close(file)
        self.words = memoryview(self._map).cast("Q")
        self.slots = slots

    @property
    def state(self):
        return self.words[_STATE]

    @state.setter
    def state(self, value):
        self.words[_STATE] = value

    @property
    def sent(self):
        return self.words[_SENT]

    @sent.setter
    def sent(self, value):
        self.words[_SENT] = value

    def get(self, slot, field):
        return self.words[_SLOTS + _WORDS * slot + field]

    def put(self, slot, field, value):
        self.words[_SLOTS + _WORDS * slot + field] = value

    def count(self, slot, count):
        """By a reader: so many it has taken by now."""
        at = _SLOTS + _WORDS * slot
        self.words[at + TIME_NS] = time.monotonic_ns()
        self.words[at + COUNT] = count

    def counted(self, slot):
        """(count, the time it was reached): read again until both are of one moment."""
        while True:
            count = self.get(slot, COUNT)
            at = self.get(slot, TIME_NS)
            if count == self.get(slot, COUNT) and at == self.get(slot, TIME_NS):
                return count, at

    def all(self, slots, field):
        return all(self.get(slot, field) for slot in slots)

    def room(self, sent, readers, window):
        """Up to which sequence a writer may go; None: it is over."""
        if self.state == STOP:
            return None
        return min(min(self.get(slot, COUNT) for slot in readers) + window, sent + RING)


class Payloads:
    """Messages of one size: each has its sequence in front, and every byte depends on it."""

    def __init__(self, size):
        if size % 8 or size < 16:
            raise ValueError("a size is a multiple of 8, 16 at least")
        self.size = size
        self.is_small = size <= SMALL
        self.ring = [self._small(i) for i in range(RING)] if self.is_small else []
        self.twice = self.ring * 2  # any RING in a row

    def _small(self, seq):
        return seq.to_bytes(8, "little") + bytes((seq + i) * 7 & 0xff for i in range(self.size - 8))

    @staticmethod
    def filler(seq):
        return (seq * 0x9e3779b97f4a7c15 + 1) & _MASK

    def fill(self, words, seq):
        """Writes every byte of an array of 64-bit words."""
        words.fill(self.filler(seq))
        words[0] = seq

    def special(self, value):
        """HELLO or END as bytes."""
        return value.to_bytes(8, "little") + bytes(self.size - 8)


class Tally:
    """What a reader has found: how much was lost, came twice or out of order, or was damaged."""

    def __init__(self, payloads, touch):
        self._payloads, self._touch = payloads, touch
        self.received = self.lost = self.disordered = self.damaged = 0
        self.due = 0  # the sequence
        self.heard = False
        self.is_over = False

    @property
    def at(self):
        """The place of the due one in the ring."""
        return self.due % RING

    def took(self, count):
        self.received += count
        self.due += count

    def odd(self, data):
        """A small payload that is not the due one."""
        seq = int.from_bytes(data[:8], "little")
        if self._special(seq):
            return
        self.received += 1
        if seq >= RING or data != self._payloads.ring[seq]:
            self.damaged += 1
            self.due += 1
            return
        ahead = (seq - self.due) % RING
        if ahead < RING // 2:
            self.lost += ahead
            self.due += ahead + 1
        else:
            self.disordered += 1

    def _special(self, seq):
        self.heard = self.heard or seq == HELLO
        self.is_over = self.is_over or seq == END
        return seq in (HELLO, END)

    def large(self, words):
        """A payload as 64-bit words: each is read, unless nothing is to be touched."""
        seq = int(words[0])
        if self._special(seq):
            return
        self.received += 1
        if seq < self.due:
            self.disordered += 1
        else:
            self.lost += seq - self.due
            self.due = seq + 1
        if self._touch:
            sum_due = (seq + (len(words) - 1) * self._payloads.filler(seq)) & _MASK
            self.damaged += int(words.sum()) != sum_due

    def small(self, taken, chunk):
        """After a loop over chunk that stopped early: `taken` is its iterator."""
        count = len(chunk) - operator.length_hint(taken) - 1
        self.took(count)

    def end(self, sent):
        """The counts, once the writer says how many there were."""
        self.lost = max(self.lost, sent - self.received)
        return {"received": self.received, "lost": self.lost, "disordered": self.disordered,
                "damaged": self.damaged}
