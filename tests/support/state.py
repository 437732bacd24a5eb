# SPDX-License-Identifier: Apache-2.0
"""What a test that fails can tell of itself: was the machine at a halt, what its processes wait for, and
what its brokers say of their clients.

    pause = Pause()                            # watches from here on
    for name, text in states(rig): ...         # while the processes still run
"""
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

STEP_S = 0.1        # between two looks of the watcher
WAIT_S = 0.5        # for programs that tell their state on SIGUSR1
TOOL_S = 10         # a debugger's, or broker-ctl's
BUDGET_S = 40       # for stacks and answers of all processes
TELLS = ("test-returner",)  # write a line to their log on SIGUSR1
ASKED = ("status", "clients", "topics", "subs", "memory")
TEXT_MAX = 20000    # characters of one text


class Pause:
    """The longest time for which a thread that sleeps in short steps was kept from running."""

    def __init__(self):
        self.longest_s = self.at = 0.0
        self.is_over = threading.Event()
        self.began = time.monotonic()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        before = time.monotonic()
        while not self.is_over.wait(STEP_S):
            now = time.monotonic()
            if now - before - STEP_S > self.longest_s:
                self.longest_s, self.at = now - before - STEP_S, now
            before = now

    def end(self):
        self.is_over.set()
        self.thread.join()

    def text(self):
        ago = time.monotonic() - self.at
        return f"{self.longest_s:.2f} s, {ago:.1f} s ago" if self.at else "none"


def _read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace").strip()
    except OSError as error:
        return f"({error.strerror})"


def _run(arguments):
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, errors="replace", check=False,
                              stdin=subprocess.DEVNULL, timeout=TOOL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"({error})"
    return (done.stdout + done.stderr)[-TEXT_MAX:]


def machine(pause):
    """Load, stalls of the machine, and the test's own longest pause."""
    lines = [f"the test's own longest pause: {pause.text()}", f"load {_read('/proc/loadavg')}"]
    lines += [f"{kind}: {_read(f'/proc/pressure/{kind}')}" for kind in ("cpu", "memory", "io")]
    return "\n".join(lines)


def threads(pid):
    """A line for each thread: state, place in the kernel, time on a core and in wait for one."""
    lines = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*"), key=lambda path: int(path.name)):
        state = _read(task / "stat").rpartition(")")[2].split()[:1]
        times = [f"{int(word) / 1e9:.2f}" for word in _read(task / "schedstat").split()[:2] if word.isdigit()]
        lines.append(f"{task.name} {_read(task / 'comm')} {' '.join(state)} in {_read(task / 'wchan')}, "
                     f"ran and waited {' and '.join(times)} s, call {_read(task / 'syscall')}")
    return "\n".join(lines)


def stacks(pid):
    """Of all threads, where there is a debugger that may look."""
    if shutil.which("gdb") is None:
        return "(no gdb)"
    return _run(["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace 12"])


def _listens_at(process):
    """The Unix socket of a brokerd, or None."""
    words = [str(word) for word in process.popen.args]
    is_broker = any(pathlib.Path(word).name == "brokerd" for word in words)
    sockets = [word.split("?")[0] for word in words if word.startswith("unix://")]
    return sockets[0] if is_broker and sockets else None


def broker(rig, socket):
    """What it answers; a broker that hangs is waited for once."""
    told = []
    for what in ASKED:
        answer = _run([rig.program("broker-ctl"), "--url", socket, "-o", "json", what])
        told.append(f"{what}: {answer}")
        if "TimeoutExpired" in answer or "timed out" in answer:
            break
    return "\n".join(told)


def states(rig):
    """Texts with a name each. Programs that tell their state on a signal have it in their logs after this."""
    told = [("the machine", machine(rig.pause))]
    running = [process for process in rig.processes if process.is_running()]
    tellers = [process for process in running if pathlib.Path(str(process.popen.args[0])).name in TELLS]
    for process in tellers:
        os.kill(process.pid, signal.SIGUSR1)
    time.sleep(WAIT_S if tellers else 0)
    deadline = time.monotonic() + BUDGET_S
    for process in running:
        text = [threads(process.pid)]
        socket = _listens_at(process)
        if time.monotonic() < deadline:
            text.append(stacks(process.pid))
        if socket is not None and time.monotonic() < deadline:
            text.append(broker(rig, socket))
        told.append((process.name, "\n".join(text)))
    return told
