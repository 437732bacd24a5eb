# SPDX-License-Identifier: Apache-2.0
"""One thread of a process stands still, by ptrace, and the others go on: a hang without hooks in our code."""
import contextlib
import ctypes
import os
import pathlib

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_ulong, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000  # waitpid: threads, too


def thread(pid, name):
    """The number of its thread of that name."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            return int(task.name)
    raise LookupError(f"{pid} has no thread {name}")


def _ptrace(request, tid):
    if _libc.ptrace(request, tid, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace({request:#x}, {tid})")


@contextlib.contextmanager
def halted(pid, name):
    """The process is a child of ours, or ptrace is allowed. If it dies meanwhile, its parent knows of that once
    its thread is reaped here (`has_died`)."""
    tid = thread(pid, name)
    _ptrace(SEIZE, tid)
    _ptrace(INTERRUPT, tid)
    os.waitpid(tid, WALL)
    try:
        yield tid
    finally:
        try:
            _ptrace(DETACH, tid)
        except ProcessLookupError:  # It has died, and its process ends once it is reaped.
            has_died(tid)


def has_died(tid):
    """Whether the thread that is halted here has come to its end."""
    try:
        number, status = os.waitpid(tid, WALL | os.WNOHANG)
    except ChildProcessError:
        return True
    return number == tid and not os.WIFSTOPPED(status)
