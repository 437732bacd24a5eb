# SPDX-License-Identifier: Apache-2.0
"""What the tests with real processes share: a brokerd of their own, clients, hard time limits.

    with Rig(build) as rig:
        broker = rig.broker("-o", "limits.peer_timeout=2s")
        victim = rig.client("test-victim", broker.url("ring"), "a", "publish")
        victim.kill()

Every process started here ends with the test, whatever becomes of it: by Rig.__exit__, by the
alarm, and by the kernel (PR_SET_PDEATHSIG) if the test itself is killed. Nothing else is touched.
Parallel-safe: sockets and files lie in a temporary folder, TCP ports are any free ones.
"""
import contextlib
import ctypes
import errno
import json
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tty

import observer
import state
from patience import patience

SKIPPED = 77
SHARED_MEMORY = pathlib.Path("/dev/shm")
TOPIC_FIGURES = ("subscriptions", "messages", "bytes", "log_messages", "log_bytes", "last_seq", "rejected", "dropped",
                 "spilled", "spilled_bytes", "spill_failed", "spill_dropped", "spill_kept_bytes")
LINKS = ("ring", "stream", "ucx")
COUNTERS_FILE = "server.counters_file="
LOOKS_MIN = 10  # of the observers of a test that has them
_libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """The product did not do what it promises."""


class Late(Failure):
    """... in time. What the processes wait for is told with it (state.py)."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def check_time(condition, text):
    if not condition:
        raise Late(text)


def until(seconds, condition, text):
    """Waits for condition() to be true and returns it; longer where the machine is busy."""
    limit = patience(seconds)
    deadline = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        check_time(time.monotonic() < deadline, f"not within {limit:.1f} s: {text}")
        time.sleep(0.01)


def as_user(number):
    """A prefix for a command: another user, and no group but its own. Root alone may."""
    return ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups"]


def port_of(url):
    """Of a URL that ends in one; 0 of None."""
    return int(url.rsplit(":", 1)[1]) if url else 0


def _end_with_parent():
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Process:
    """A child whose standard output is read by lines and whose errors go to a file. terminal: its
    standard output is one, so that it writes each line as it comes."""

    def __init__(self, rig, arguments, env=None, prefix=(), terminal=False):
        self.rig = rig
        rig.started += 1
        self.name = f"{pathlib.Path(arguments[0]).name}-{rig.started}"
        self.log_path = rig.folder / f"{self.name}.log"
        ours, its = os.openpty() if terminal else (None, subprocess.PIPE)
        if terminal:
            tty.setraw(its)
        with open(self.log_path, "wb") as log:
            self.popen = subprocess.Popen(
                [*prefix, *arguments],
                stdin=subprocess.PIPE,
                stdout=its,
                stderr=log,
                env={**os.environ, **rig.env, **(env or {})},
                preexec_fn=_end_with_parent,
            )
        if terminal:
            os.close(its)
            self.popen.stdout = os.fdopen(ours, "rb", 0)
        self.pid = self.popen.pid
        self.rest = b""
        rig.processes.append(self)

    def _read(self):
        try:
            return os.read(self.popen.stdout.fileno(), 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # a terminal that nobody writes to any more
                raise
            return b""

    def line(self, seconds=20):
        """The next line of output; Failure if there is none in time."""
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.popen.stdout, selectors.EVENT_READ)
            while b"\n" not in self.rest:
                left = deadline - time.monotonic()
                check_time(left > 0 and selector.select(left), f"{self.name}: no line in {seconds} s")
                piece = self._read()
                if not piece:
                    raise Failure(f"{self.name}: ended with {self.wait()}\n{self.log()}")
                self.rest += piece
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode()

    def all_lines(self, seconds=20):
        """Everything up to the end of its output."""
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.popen.stdout, selectors.EVENT_READ)
            while True:
                left = deadline - time.monotonic()
                check_time(left > 0 and selector.select(left), f"{self.name}: goes on for {seconds} s")
                piece = self._read()
                if not piece:
                    return self.rest.decode(errors="replace").splitlines()
                self.rest += piece

    def expect(self, word, seconds=20):
        """The words of the next line, which begins with `word`."""
        words = self.line(seconds).split()
        check(words and words[0] == word, f"{self.name}: {words} instead of {word}")
        return words

    def wait(self, seconds=20):
        """The exit status, negative for a signal."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Late(f"{self.name} has not ended in {seconds} s") from None

    def is_running(self):
        return self.popen.poll() is None

    def signal(self, number):
        """SIGSTOP: it has stopped, or ended, when this returns. kill(2) alone waits for neither."""
        if self.is_running():
            self.popen.send_signal(number)
            if number == signal.SIGSTOP:
                os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def kill(self):
        """kill -9, and gone when this returns."""
        self.signal(signal.SIGKILL)
        self.popen.wait()
        self.popen.stdout.close()
        self.popen.stdin.close()

    def tell(self, text):
        self.popen.stdin.write(f"{text}\n".encode())
        self.popen.stdin.flush()

    def end_input(self):
        self.popen.stdin.close()

    def log(self):
        return self.log_path.read_text(errors="replace")

    def socket_inodes(self):
        """As /proc/net names them."""
        inodes = set()
        for number in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                target = os.readlink(f"/proc/{self.pid}/fd/{number}")
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        return inodes

    def sockets(self):
        """Its TCP sockets as the kernel's table has them (addresses, state), for people to read."""
        inodes = self.socket_inodes()
        rows = pathlib.Path(f"/proc/{self.pid}/net/tcp").read_text().splitlines()[1:]
        return [row for row in (line.split() for line in rows) if row[9] in inodes]

    def cpu_seconds(self, thread=None):
        """Time on a CPU of its living threads, or of those with that name, to the nanosecond (utime and stime
        are ticks)."""
        tasks = pathlib.Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks
                   if thread is None or (task / "comm").read_text().strip() == thread) / 1e9

    def waited(self):
        """Seconds that each of its threads was ready to run and had no core."""
        return {task.parent.name: int(task.read_text().split()[1]) / 1e9
                for task in pathlib.Path(f"/proc/{self.pid}/task").glob("*/schedstat")}

    def descriptors(self):
        """What its descriptors are, sorted, without what differs from one life to the next."""
        folder = f"/proc/{self.pid}/fd"
        kinds = []
        for number in os.listdir(folder):
            try:
                target = os.readlink(f"{folder}/{number}")
            except OSError:
                continue
            kinds.append(target.split(":[")[0] if target.endswith("]") and target[0] in "ps" else target)
        return sorted(kinds)


def starved(before, after):
    """How long the thread that waited longest had no core, between two answers of waited()."""
    return max(after[thread] - before.get(thread, 0) for thread in after)


class Observer(Process):
    """A program that looks at a broker in each way that there is (observer.py), until one of the two ends."""

    def __init__(self, rig, pid, socket, counters="", more=()):
        file = ("--file", counters) if counters else ()
        super().__init__(rig, [sys.executable, observer.__file__, "--ctl", rig.program("broker-ctl"), *map(str, file),
                               *more, str(socket), str(pid)])
        self.pauses = 0
        self.has_begun = False

    def begun(self):
        """It hears signals from here on; waited for only when it has to, so that no broker starts later for it."""
        if not self.has_begun:
            self.has_begun = True
            self.expect("ready", patience(60))

    def does(self, word):
        """When this returns it has done that, and does not look."""
        self.begun()
        with contextlib.suppress(BrokenPipeError):  # It has ended, and its line says why.
            self.tell(word)
        line = self.line(patience(600))
        check(line == word, f"an observer: {line} {self.log()[-4000:]}")

    @contextlib.contextmanager
    def paused(self):
        if self.pauses == 0:
            self.does("pause")
        self.pauses += 1
        yield
        self.pauses -= 1
        if self.pauses == 0 and self.is_running():
            self.does("go")

    def end(self):
        """Once, however it ended."""
        if self not in self.rig.processes:
            return
        self.begun()
        self.signal(signal.SIGTERM)
        tally = json.loads(self.line(patience(90)))
        check(self.wait(20) == 0 and "wrong" not in tally, f"an observer: {tally} {self.log()[-4000:]}")
        self.rig.looks += tally["looks"]
        self.rig.forget(self)


# A test that is not about silent clients must not lose one to a machine that is busy with others.
PATIENT = ("-o", "limits.peer_timeout=60s")


class Broker(Process):
    """at: a former one, whose addresses it takes over. Where the rig is observed it has an observer."""

    def __init__(self, rig, arguments, socket_query="", tcp=True, env=None, dev=True, at=None, prefix=()):
        self.observer = None
        counters = next((str(word).split("=", 1)[1] for word in arguments if str(word).startswith(COUNTERS_FILE)), None)
        if rig.is_observed and counters is None:
            counters = rig.shared() / f"{rig.started}.counters"
            arguments = [*arguments, "-o", f"{COUNTERS_FILE}{counters}"]
        self.socket = at.socket if at is not None else rig.folder / f"broker-{rig.started}.sock"
        listen = ["--listen", f"unix://{self.socket}{socket_query}"]
        if tcp:
            listen += ["--listen", f"tcp://127.0.0.1:{port_of(at and at.tcp_url)}"]
        if tcp and rig.tls_options:
            listen += ["--listen", f"tls://127.0.0.1:{port_of(at and at.tls_url)}",
                       *rig.tls_options]
        patient = () if any("peer_timeout" in str(word) for word in arguments) else PATIENT
        dev_option = ("--dev",) if dev else ()
        super().__init__(
            rig, [rig.program("brokerd"), *dev_option, *patient, *listen, *arguments], env, prefix
        )
        self.asker = None
        words = self.expect("ready", 60)
        self.unix_url = next(word for word in words if word.startswith("unix:"))
        self.tcp_url = next((word for word in words if word.startswith("tcp:")), None)
        self.tls_url = next((word for word in words if word.startswith("tls:")), None)
        if rig.is_observed:
            self.observer = Observer(rig, self.pid, self.socket, counters, rig.observers_options)

    def url(self, link="ring"):
        return {
            "ring": self.unix_url,
            "stream": f"{self.tcp_url}?link=stream",
            "ucx": f"{self.tcp_url}?link=ucx",
            "tls": f"{self.tls_url}?link=stream",
        }[link]

    def ask(self, what):
        """The broker's answer: a list of rows, or the status as a dictionary."""
        if self.asker is None:
            self.asker = self.rig.client("test-asker", self.unix_url)
        self.asker.tell(what)
        answer = json.loads(self.asker.line(patience(20)))
        rows = answer.get(what, answer)
        if what == "topics":  # One that was made a moment ago has no figures yet.
            rows = [dict.fromkeys(TOPIC_FIGURES, 0) | row for row in rows]
        if what == "subs":
            rows = [row for row in rows if row["pattern"] != observer.READS]
        return rows

    def clients(self):
        """Everybody but those who ask."""
        return [row for row in self.ask("clients") if row["name"] not in ("asker", observer.NAME)]

    def unobserved(self):
        """Nobody looks meanwhile: for descriptors, memory and figures that are compared."""
        return self.observer.paused() if self.observer is not None else contextlib.nullcontext()

    def is_left(self):
        """Nobody is there but the one who asks: no client, nor an observer's, and nobody at its HTTP."""
        http = [row["value"] for row in self.ask("metrics") if row["metric"] == "ambroker_http_connections"]
        return not any(http) and all(row["name"] == "asker" for row in self.ask("clients"))

    def looked_at(self):
        """It has been looked at in each way once, so that what a first look leaves behind is there."""
        if self.observer is not None:
            self.observer.does("all")

    def used_bytes(self):
        return sum(row["used_bytes"] for row in self.ask("memory"))

    def kill(self):
        super().kill()
        if self.observer is not None:
            self.observer.end()

    def stop(self, seconds=30):
        if self.observer is not None:
            if self.rig.looks < LOOKS_MIN:  # on a busy machine it has not come to that
                self.looked_at()
            self.observer.end()
        if self.asker is not None:
            self.asker.end_input()
            self.asker.wait()
        self.signal(signal.SIGTERM)
        status = self.wait(seconds)
        check(status == 0, f"brokerd ended with {status}\n{self.log()[-4000:]}")

    def check_alive(self):
        check(self.is_running(), f"brokerd ended: {self.popen.poll()}\n{self.log()[-4000:]}")


class Victims(Process):
    """tests/support/programs/victim.c: a process that forks clients which are to be killed."""

    def __init__(self, rig):
        super().__init__(rig, [rig.program("test-victim")])
        self.pidfds = {}  # a number may be somebody else's by the time its end is read
        self.ended = {}

    def _number_of(self, word):
        while True:
            words = self.line()
            kind, number, *status = words.split()
            if kind == "ended":
                self.ended[int(number)] = int(status[0])
            if kind == word:
                return int(number)

    def start(self, url, name, phase):
        """The victim's process id."""
        self.tell(f"{url} {name} {phase}")
        pid = self._number_of("pid")
        try:
            self.pidfds[pid] = os.pidfd_open(pid)
        except ProcessLookupError:
            pass  # has ended already: bury() says how
        return pid

    def signal_victim(self, pid, number):
        try:
            signal.pidfd_send_signal(self.pidfds[pid], number)
        except (KeyError, ProcessLookupError):
            pass

    def kill_victim(self, pid):
        self.signal_victim(pid, signal.SIGKILL)

    def bury(self, pid, expected=-signal.SIGKILL):
        """Waits for its end, which must have come so: by kill alone."""
        while pid not in self.ended:
            self._number_of("ended")
        if pid in self.pidfds:
            os.close(self.pidfds.pop(pid))
        status = self.ended.pop(pid)
        check(
            status == expected and self.log() == "",
            f"victim {pid} ended by itself with {status}: {self.log()}",
        )


class Rig:
    """A temporary folder, the programs of one build, and every process started for a test."""

    def __init__(self, build, seconds=300):
        self.build = pathlib.Path(build).resolve()
        self.seconds = seconds
        self.processes = []
        self.started = 0
        self.env = {"AMB_TRUSTED": "lo", "LC_ALL": "C"}
        self.folder = None
        self.has_failed = False
        self.pause = None  # the longest of the test's own, see state.py
        self.tls_options = ()  # of each brokerd with a TCP port: it has an encrypted one, too
        self.is_observed = False  # each brokerd that starts
        self.observers_options = ()
        self.looks = 0
        self.shared_folder = None

    def begin(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="amb-test-"))
        os.chmod(self.folder, 0o755)
        self.pause = state.Pause()
        signal.signal(signal.SIGALRM, self._alarm)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        signal.alarm(self.seconds)
        return self

    def observe(self, *options):
        """From here on each broker has an observer, with these options."""
        self.is_observed, self.observers_options = True, options

    @contextlib.contextmanager
    def unobserved(self):
        """Brokers that start meanwhile have none: for figures that an observer would change."""
        was, self.is_observed = self.is_observed, False
        yield
        self.is_observed = was

    def shared(self):
        """A folder in memory, where there is one: counters files do not belong on a disk."""
        if self.shared_folder is None:
            place = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else self.folder
            self.shared_folder = pathlib.Path(tempfile.mkdtemp(prefix="amb-test-", dir=place))
        return self.shared_folder

    def use_tls(self):
        """From here on each broker has a tls:// listener, and each process what it needs for that."""
        folder, token = self.folder / "certificates", self.folder / "token"
        folder.mkdir()
        subprocess.run([self.program("broker-ctl"), "tls", "init", "--dir", folder, "--name",
                        "127.0.0.1"], check=True, capture_output=True, timeout=30)
        token.write_text("of-a-test\n")
        token.chmod(0o600)
        self.env.update(AMB_CA=str(folder / "ca.pem"), AMB_CREDENTIALS=str(token))
        self.tls_options = ("-o", f"tls.certificate={folder / 'server.pem'}",
                            "-o", f"tls.key={folder / 'server.key'}", "-o", f"auth.token_file={token}")

    def _alarm(self, *_):
        raise Late(f"the test has not ended in {self.seconds} s")

    def end(self):
        """Ends what still runs; the folder stays, and so do the logs."""
        signal.alarm(0)
        self.pause.end()
        for process in self.processes:
            if process.is_running():
                process.signal(signal.SIGCONT)
                Process.kill(process)

    def is_kept(self):
        return self.has_failed and bool(os.environ.get("AMB_TEST_KEEP"))

    def clear(self):
        """Removes the folder, once, or says where it is kept."""
        folder, self.folder = self.folder, None
        if folder is None:
            return
        if self.shared_folder is not None:
            shutil.rmtree(self.shared_folder, ignore_errors=True)
        if self.is_kept():
            print(f"left {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self):
        return self.begin()

    def __exit__(self, kind, value, trace):
        told = self.states(value)
        self.end()
        self.has_failed = value is not None
        if isinstance(value, Failure) and not self.is_kept():
            for name, text in [*told, *self.logs()]:
                print(f"---- {name}\n{text}", file=sys.stderr)
        self.clear()

    def states(self, failure):
        """Of everything that runs, where something came too late. Before end()."""
        signal.alarm(0)
        return state.states(self) if isinstance(failure, Late) else []

    def logs(self):
        """Of each process that has said something: its name and status, and its last lines."""
        return [(f"{process.name} ({process.popen.poll()})", "\n".join(text.splitlines()[-40:]))
                for process in self.processes if (text := process.log())]

    def program(self, name):
        for place in ("", "bin", "broker", "tools", "tests"):
            path = self.build / place / name
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
        raise Failure(f"no {name} in {self.build}")

    def is_sanitized(self):
        """With the sanitizer of addresses or of threads."""
        done = subprocess.run(["ldd", self.program("brokerd")], capture_output=True, check=True)
        return b"libasan" in done.stdout or b"libtsan" in done.stdout

    def forget(self, process):
        """It has ended, and nobody needs to hear of it any more."""
        process.kill()
        self.processes.remove(process)
        process.log_path.unlink()

    def broker(self, *arguments, **options):
        return Broker(self, arguments, **options)

    def client(self, program, *arguments, **options):
        return self.start([self.program(program), *map(str, arguments)], **options)

    def start(self, arguments, **options):
        return Process(self, arguments, **options)


def main(test, seconds, observers=None):
    """For scripts that are one run with many options (tests in files *_test.py have conftest.py):
    runs test(rig, options) with `BUILD [--name value]...` from the command line. With tls among --links
    each broker has such a listener. observers: options of observer.py, which looks at each broker; None, or
    `--observers 0` on the command line: nobody looks."""
    build, *rest = sys.argv[1:]
    options = {name.lstrip("-"): value for name, value in zip(rest[::2], rest[1::2])}
    limit = int(options.get("seconds", seconds))
    try:
        with Rig(build, limit) as rig:
            if "tls" in options.get("links", "").split(","):
                rig.use_tls()
            if observers is not None and options.get("observers", "1") != "0":
                rig.observe(*observers)
            test(rig, options)
            check(not rig.is_observed or rig.looks >= LOOKS_MIN, f"observers have looked {rig.looks} times")
            if rig.is_observed:
                print(f"observers: {rig.looks} looks")
    except Failure as failure:
        print(f"FAIL: {failure}", file=sys.stderr)
        sys.exit(1)
    print("passed")
