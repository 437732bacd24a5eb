# SPDX-License-Identifier: Apache-2.0
"""CPU time, memory, and how much of the time the GIL of a process is held.

The last is read from outside: the interpreter keeps a word `locked` beside the switch interval. A process
looks for the interval in its own runtime, proves that the word behind it follows the GIL, and tells the
address. The driver then reads that word a few hundred times a second. Nobody has to take the GIL for that.
"""
import ctypes
import os
import sys

_SCAN_BYTES = 1 << 20
_TICK = os.sysconf("SC_CLK_TCK")
_LOCKED = 16  # bytes from the interval: the last holder is between them


def _room_at(address):
    """Bytes that are mapped from there on."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            if first <= address < last:
                return min(last - address, _SCAN_BYTES)
    return 0


def gil_address():
    """Where this interpreter says that the GIL is held; 0: it was not found."""
    try:
        base = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    except ValueError:
        return 0
    before = sys.getswitchinterval()
    found = None
    try:
        for interval in (4321, 5437):
            sys.setswitchinterval(interval * 1e-6)
            image = ctypes.string_at(base, _room_at(base))
            value = interval.to_bytes(8, sys.byteorder)
            here = {at for at in range(0, len(image) - _LOCKED, 8) if image[at:at + 8] == value}
            found = here if found is None else found & here
    finally:
        sys.setswitchinterval(before)
    addresses = [base + at + _LOCKED for at in found or () if _follows_gil(base + at + _LOCKED)]
    return addresses[0] if len(addresses) == 1 else 0


def _follows_gil(address):
    """Is the word 1 while the GIL is held and 0 while it is given up? For programs with one thread."""
    word = ctypes.c_int(-1)
    ctypes.PyDLL(None).memcpy(ctypes.byref(word), ctypes.c_void_p(address), 4)  # keeps the GIL
    held = word.value
    ctypes.CDLL(None).memcpy(ctypes.byref(word), ctypes.c_void_p(address), 4)  # gives it up
    return (held, word.value) == (1, 0)


class Gil:
    """Samples the GIL of another process of the same user."""

    def __init__(self, pid, address):
        self._address = address
        self._file = None
        self.looks = self.held = 0
        if address:
            try:
                self._file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
            except OSError:
                pass

    def look(self):
        if self._file is None:
            return
        try:
            word = os.pread(self._file, 4, self._address)
        except OSError:
            return
        if word:  # else it has ended
            self.looks += 1
            self.held += word[0] & 1

    def share(self):
        return round(self.held / self.looks, 3) if self.looks else None

    def close(self):
        if self._file is not None:
            os.close(self._file)
            self._file = None


def cpu_seconds(pid):
    """User and system time of a process; 0 where it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK


def peak_mib(pid):
    """The most memory it ever had at a time, pages that it shares included."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return round(int(line.split()[1]) / 1024, 1)
    except OSError:
        pass
    return None


def machine_seconds():
    """Seconds in which any process of this machine ran, all cores together."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / _TICK
