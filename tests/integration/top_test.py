# SPDX-License-Identifier: Apache-2.0
"""broker-ctl top: its screen in a pseudo terminal, read as a person does, and its blocks."""
import csv
import fcntl
import io
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import threading

import pytest
from harness import Failure, check, until

pyte = pytest.importorskip("pyte")

USAGE, DATA, UNAVAILABLE, SOFTWARE = 64, 65, 69, 70
SIGNALS_OF_AN_END = (signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV, signal.SIGABRT)
KEYS = {"down": b"\x1bOB", "up": b"\x1bOA", "page": b"\x1b[6~", "left": b"\x1bOD", "back": b"\x7f", "escape": b"\x1b"}
LEFT = b"\x1b[?1049l"  # the alternate screen has been left
TOPICS = ("\u202eright-to-left", "日本語カメラ", "e\u0301\u0301\u0301\u0301accents", "%s%n\\x", "zero\u200bwidth", "a<b")
NAME = "\x1b[2J\x1b[31mred\ttab\nline"
SECONDS = 120


class Terminal:
    """A program in a pseudo terminal of its own, and the screen that a person would see."""

    def __init__(self, rig, *arguments, columns=100, lines=24, term="screen", env=None, prefix=()):
        self.ours, its = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(its)
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.lock, self.raw = threading.Lock(), b""
        place = {**os.environ, **rig.env, "LC_ALL": "C.UTF-8", "TERM": term, **(env or {})}

        def begin():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([*prefix, rig.program("broker-ctl"), "--url", *map(str, arguments)], stdin=its, stdout=its,
                                        stderr=its, env=place, preexec_fn=begin, close_fds=True)
        self.its = its
        self.is_open = True
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while self.is_open:
            if not select.select([self.ours], [], [], 0.1)[0]:
                continue
            try:
                piece = os.read(self.ours, 65536)
            except OSError:
                return
            with self.lock:
                self.raw += piece
                self.stream.feed(piece)

    def lines(self):
        with self.lock:
            return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def row(self, word):
        """The words of the first line with that one."""
        return next((line.split() for line in self.lines() if word in line), None)

    def press(self, *keys):
        for key in keys:
            os.write(self.ours, KEYS.get(key, key.encode()))

    def resize(self, columns, lines):
        if hasattr(self, "screen"):
            with self.lock:
                self.screen.resize(lines, columns)
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def shows(self, pattern, seconds=20):
        return until(seconds, lambda: re.search(pattern, self.text(), re.M), f"{pattern!r} on\n{self.text()}")

    def gone(self, pattern, seconds=20):
        until(seconds, lambda: not re.search(pattern, self.text(), re.M), f"still {pattern!r} on\n{self.text()}")

    def ends(self, status, seconds=20):
        """With that status, and a terminal that is as it was before."""
        try:
            check(self.process.wait(seconds) == status, f"it ended with {self.process.returncode}\n{self.text()}")
        except subprocess.TimeoutExpired:
            raise Failure(f"it has not ended\n{self.text()}") from None
        until(5, lambda: LEFT in self.raw, "the screen was not left")
        tail = self.raw[self.raw.rindex(LEFT):]
        check(termios.tcgetattr(self.its) == self.before, "the modes of the terminal are others")
        return tail

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.is_open = False
        self.reader.join()
        for descriptor in (self.ours, self.its):
            if descriptor is not None:
                os.close(descriptor)


@pytest.fixture
def terminals():
    made = []
    yield made
    for terminal in made:
        terminal.close()


@pytest.fixture
def top(rig, terminals):
    def start(url, *arguments, **options):
        terminals.append(Terminal(rig, url, "top", "--interval", "200ms", *arguments, **options))
        return terminals[-1]
    return start


@pytest.fixture
def folder():
    """In memory: there a broker makes its counters file by itself."""
    with tempfile.TemporaryDirectory(prefix="amb-top-", dir="/dev/shm") as name:
        yield pathlib.Path(name)


def publish(rig, url, topic, rate=200, name="camera", size=100):
    """A publisher that never ends; it is there when this returns."""
    process = rig.client("broker-ctl", "--url", url, "--client-name", name, "pub", topic, "--count", 10**9, "--rate", rate,
                         "--size", size)
    return process


def subscribe(rig, url, pattern, name="viewer", *options):
    return rig.client("broker-ctl", "--url", url, "--client-name", name, "sub", pattern, "--stats", *options)


def batch(rig, *arguments, code=0, **options):
    done = subprocess.run([rig.program("broker-ctl"), "top", "--interval", "200ms", *map(str, arguments)], capture_output=True,
                          text=True, timeout=60, check=False, stdin=subprocess.DEVNULL, **options)
    check(done.returncode == code, f"{arguments}: {done}")
    return done


# ---- the screen ----

def test_rates_views_order_filter(rig, top):
    broker = rig.broker()
    publish(rig, broker.url(), "hall.fast", 400)
    publish(rig, broker.url(), "hall.slow", 20, name="lidar")
    subscribe(rig, broker.url(), "hall.>")
    screen = top(broker.url())
    screen.shows(r"^hall\.fast +[1-9]\d\d ")
    screen.shows(r"^in [1-9]\d\d msg/s .* out [1-9]\d\d msg/s .* lost 0 msg/s, 0 so far$")
    fast, slow = (next(i for i, line in enumerate(screen.lines()) if line.startswith(f"hall.{name} ")) for name in ("fast", "slow"))
    check(fast < slow, screen.text())
    screen.press("r")
    screen.shows(r"by MSG/S, reversed")
    screen.shows(r"^hall\.slow .*\nhall\.fast ")
    screen.press("3")
    screen.shows(r"\[3 clients\]")
    screen.shows(r"^camera +\d+ +[1-9]\d\d ")
    screen.press("/", "V", "I", "E")
    screen.shows(r"1 with /VIE_$")
    screen.shows(r"^viewer ")
    screen.gone(r"^camera ")
    screen.press("\r", "escape")
    screen.shows(r"^camera ")
    screen.press("\t")
    screen.shows(r"\[4 workers\]")
    screen.shows(r"^0 +[1-9]\d\d ")
    screen.press("2")
    screen.shows(r"^hall\.> +[1-9]\d\d ")
    screen.press("5")
    screen.shows(r"^no queue$")
    screen.press("q")
    screen.ends(0)


def test_pause_and_help(rig, top):
    broker = rig.broker()
    publish(rig, broker.url(), "hall")
    screen = top(broker.url())
    screen.shows(r"^hall +\d")
    screen.press("p")
    screen.shows("^paused$")
    held = screen.lines()[:8]
    broker.ask("topics")
    clients = len(broker.clients())
    publish(rig, broker.url(), "more")
    until(20, lambda: len(broker.clients()) > clients, "no second publisher")
    screen.press("h")
    screen.shows("^q +end$")
    screen.shows("^MSG/S +messages that it takes$")
    screen.press("h")
    screen.gone("^q +end$")
    check(screen.lines()[:8] == held, f"{screen.text()}\ninstead of\n{held}")
    screen.press(" ")
    screen.shows("^more +")
    screen.press("q")
    screen.ends(0)


def test_sizes(rig, top):
    """Resized again and again: the lines fit, and all rows can be reached."""
    broker = rig.broker()
    for number in range(30):
        broker_topic(rig, broker, f"row.{number:02}")
    screen = top(broker.url(), "--sort", "topic", lines=20, columns=90)
    screen.shows(r"^row\.00 ")
    for columns, lines in ((40, 10), (140, 40), (20, 8), (7, 3), (1, 1), (200, 12), (90, 20)):
        screen.resize(columns, lines)
        until(20, lambda: screen.process.poll() is None and (columns < 20 or "ow.00" in screen.text() or "row" in screen.text()),
              f"{columns}x{lines}:\n{screen.text()}")
    screen.shows(r"^row\.00 ")
    screen.shows(r"q end")
    screen.press("page", "page", "page")
    screen.shows(r"^row\.29 ")
    screen.press("up")
    screen.shows(r"^row\.28 ")
    screen.resize(90, 45)
    screen.shows(r"^row\.00 (?s:.*)^row\.29 ")
    screen.press("q")
    screen.ends(0)


def broker_topic(rig, broker, topic):
    done = subprocess.run([rig.program("broker-ctl"), "--url", broker.url(), "pub", topic, "x"], check=False, timeout=30,
                          capture_output=True)
    check(done.returncode == 0, f"{done}")


def test_names_of_strangers_are_text(rig, top):
    broker = rig.broker()
    for topic in TOPICS:
        publish(rig, broker.url(), topic, 10, name=NAME)
    screen = top(broker.url(), "--sort", "messages", lines=30, columns=110)
    for shown in (r"\\u202eright-to-left", "日 ?本 ?語", r"accents", r"%s%n\\\\x", r"zero\\u200bwidth", "a<b"):
        screen.shows(shown)  # pyte leaves the second place of a wide character empty
    until(20, lambda: sum(" 0 B " in line and not line.startswith("memory ") for line in screen.text().splitlines()) ==
          len(TOPICS), "figures of each")
    # Whatever a name is, its figures stand in their columns.
    with screen.lock:
        rows = [[screen.screen.buffer[line][column].data for column in range(110)] for line in range(30)]
    head = next(row for row in rows if "".join(row).startswith("TOPIC "))
    end = "".join(head).index(" HELD") + 5
    found = [row for row in rows if "".join(row[end - 2:end]) == " B"]
    check(len(found) == len(TOPICS), screen.text())
    screen.press("3")
    screen.shows("31mred")
    with screen.lock:
        raw = screen.raw
    for bad in (b"\x1b[2J\x1b[31mred", "\u202e".encode(), "\u200b".encode(), b"\t"):
        check(bad not in raw, f"{bad} went to the terminal")
    screen.press("q")
    screen.ends(0)


def test_a_locale_without_utf8(rig, top):
    broker = rig.broker()
    publish(rig, broker.url(), "日本", 10)
    screen = top(broker.url(), env={"LC_ALL": "C"})
    screen.shows(r"^\\u65e5\\u672c ")
    check(all(byte < 0x80 for byte in screen.raw), screen.raw)
    screen.press("q")
    screen.ends(0)


def test_no_colour(rig, top):
    broker = rig.broker()
    screen = top(broker.url(), env={"NO_COLOR": "1"})
    screen.shows("q end")
    check(not re.search(rb"\x1b\[[0-9;]*3[0-7]m", screen.raw), screen.raw)
    screen.press("q")
    screen.ends(0)


# ---- ends ----

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(rig, top, number):
    broker = rig.broker()
    screen = top(broker.url())
    screen.shows("q end")
    screen.process.send_signal(number)
    screen.ends(0)


def test_ctrl_c(rig, top):
    broker = rig.broker()
    screen = top(broker.url())
    screen.shows("q end")
    screen.press("\x03")
    screen.ends(0)


@pytest.mark.parametrize("number", SIGNALS_OF_AN_END)
def test_a_crash_leaves_the_terminal_as_it_was(rig, top, number):
    broker = rig.broker()
    screen = top(broker.url())
    screen.shows("q end")
    screen.process.send_signal(number)
    screen.ends(-number)


def test_a_signal_that_is_ignored(rig, top):
    """As nohup has it."""
    broker = rig.broker()
    screen = top(broker.url(), prefix=("sh", "-c", 'trap "" HUP; exec "$@"', "sh"))
    screen.shows("q end")
    screen.process.send_signal(signal.SIGHUP)
    screen.press("3")
    screen.shows(r"\[3 clients\]")
    screen.press("q")
    screen.ends(0)


def test_a_second_signal_ends_it_at_once(rig, top):
    """Where the first one is not heard: the broker hangs, and so does the process that asks it."""
    broker = rig.broker()
    screen = top(broker.url())
    screen.shows("q end")
    screen.process.send_signal(signal.SIGSTOP)
    screen.process.send_signal(signal.SIGTERM)
    screen.process.send_signal(signal.SIGCONT)
    screen.process.send_signal(signal.SIGTERM)
    try:
        screen.ends(0)
    except Failure:
        check(screen.process.returncode == -signal.SIGTERM, f"{screen.process.returncode}")
        screen.ends(-signal.SIGTERM)


def test_it_goes_to_the_background_and_comes_back(rig, top):
    """Ctrl-Z under a shell with job control, which brings it back at once."""
    broker = rig.broker()
    publish(rig, broker.url(), "hall")
    screen = top(broker.url(), prefix=("bash", "-c", 'set -m; "$@"; echo; echo stopped; read -r; fg >/dev/null', "bash"))
    screen.shows(r"^hall +\d")
    screen.press("\x1a")
    until(20, lambda: b"stopped" in screen.raw, "it has not stopped")
    check(LEFT in screen.raw, "the screen was not left")
    with screen.lock:
        screen.screen.reset()
    screen.press("\r")
    screen.shows(r"^hall +\d")
    screen.press("q")
    screen.ends(0)


def test_a_terminal_that_goes(rig, top):
    broker = rig.broker()
    screen = top(broker.url())
    screen.shows("q end")
    screen.is_open = False
    screen.reader.join()
    for descriptor in (screen.its, screen.ours):
        os.close(descriptor)
    screen.its = screen.ours = None
    check(screen.process.wait(20) in (0, -signal.SIGHUP), screen.process.returncode)


def test_a_terminal_of_no_known_kind(rig, terminals):
    broker = rig.broker()
    terminals.append(Terminal(rig, broker.url(), "top", term="no-such-terminal"))
    screen = terminals[-1]
    check(screen.process.wait(20) == SOFTWARE, screen.process.returncode)
    screen.shows("no such terminal is known: 'no-such-terminal'")
    screen.shows("--batch needs none")


def test_the_time_of_the_command(rig, top):
    broker = rig.broker()
    screen = top(broker.url(), "--timeout", "1s")
    screen.shows("q end")
    screen.ends(0)


# ---- brokers that come and go ----

def test_a_broker_that_restarts(rig, top):
    broker = rig.broker(tcp=False)
    publish(rig, broker.url(), "before")
    screen = top(broker.url())
    screen.shows(r"^before +\d")
    broker.kill()
    screen.shows(r"^no answer for \d+ s: ")
    check(re.search(r"^before ", screen.text(), re.M), "the last figures are gone")
    other = rig.broker(tcp=False, at=broker)
    publish(rig, other.url(), "after")
    screen.shows(r"another broker answers since \d+ s: it has restarted")
    screen.shows(r"^after +\d")
    screen.press("q")
    screen.ends(0)


@pytest.mark.parametrize("ended", ["q", "\x03", signal.SIGTERM])
def test_a_broker_that_hangs_holds_nobody(rig, top, ended):
    broker = rig.broker()
    screen = top(broker.url())
    screen.shows("q end")
    broker.signal(signal.SIGSTOP)
    screen.shows(r"^an answer is awaited for \d s")
    if isinstance(ended, str):
        screen.press(ended)
    else:
        screen.process.send_signal(ended)
    screen.ends(0, 3)


def test_a_broker_that_hangs_is_seen_by_its_file(rig, top, folder):
    broker = rig.start([rig.program("brokerd"), "--dev", "--listen", f"unix://{folder}/s"])
    broker.expect("ready")
    url = f"unix://{folder}/s"
    publish(rig, url, "hall")
    screen = top(url)
    screen.shows(r"^hall +\d")
    broker.signal(signal.SIGSTOP)
    screen.shows(r"^an answer is awaited for \d s")
    screen.press("h")  # keys are heard meanwhile
    screen.shows("^q +end$", 3)
    screen.press("h")
    screen.shows(r"^of the counters file: broker '.*', process \d+, is there; last active \d")
    screen.press("3")
    screen.shows(r"\[3 clients\]")
    broker.signal(signal.SIGCONT)
    screen.gone(r"^of the counters file")
    screen.press("q")
    screen.ends(0)
    file = f"{folder}/s.counters"
    block = batch(rig, "--file", file, "-n", 1).stdout
    check("of the counters file: broker" in block and re.search(r"^hall +\d", block, re.M), block)
    broker.kill()
    screen = top(url)
    screen.shows(r"is gone; last active \d")
    screen.press("q")
    screen.ends(0)
    block = batch(rig, "--file", file, "-n", 1).stdout
    check("is gone; last active" in block and "\nhall " in block, block)


# ---- blocks ----

def test_blocks(rig):
    broker = rig.broker()
    publish(rig, broker.url(), "hall.a", 100)
    publish(rig, broker.url(), "hall.b", 10)
    until(20, lambda: len(broker.ask("topics")) == 2, "no topics")
    text = batch(rig, "--url", broker.url(), "-b", "-n", 3).stdout
    blocks = text.split("\n\n")
    check(len(blocks) == 3, text)
    for block in blocks:
        check(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  .*, process \d+, up ", block), block)
        check(re.search(r"^hall\.a +[\d.]+ .*\nhall\.b +[\d.]+ ", block, re.M), block)
        check("\x1b" not in block and max(map(len, block.splitlines())) <= 100, block)
    # Without a terminal there is no need to ask for them.
    check(batch(rig, "--url", broker.url(), "workers", "-n", 1).stdout.count("\n0 ") == 1, "a block")
    one = batch(rig, "--url", broker.url(), "-n", 1, "--top", 1, "--wide").stdout
    check("\nhall.a " in one and "hall.b" not in one and "TENANT" in one, one)
    none = batch(rig, "--url", broker.url(), "-n", 1, "--match", "x.>").stdout
    check("\nno topic\n" in none, none)


def test_blocks_for_programs(rig):
    broker = rig.broker()
    publish(rig, broker.url(), "hall", 100)
    until(20, lambda: broker.ask("topics"), "no topics")
    rows = [json.loads(line) for line in batch(rig, "--url", broker.url(), "-n", 2, "-o", "jsonl").stdout.splitlines()]
    check(len(rows) == 2 and all(10 < row["msg_per_s"] < 1000 for row in rows), rows)
    check(rows[0]["time_ns"] + 10**8 < rows[1]["time_ns"], rows)
    whole = json.loads(batch(rig, "--url", broker.url(), "-n", 1, "-o", "json").stdout)
    check(whole["topics"][0]["topic"] == "hall", whole)
    table = list(csv.DictReader(io.StringIO(batch(rig, "--url", broker.url(), "-n", 2, "-o", "csv").stdout)))
    check([row["topic"] for row in table] == ["hall", "hall"], table)


def test_readers_of_blocks_that_go(rig):
    broker = rig.broker()
    line = f"{rig.program('broker-ctl')} top --url {broker.url()} --interval 100ms 2>&1 | head -1"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=30, check=False)
    check(done.returncode == 0 and done.stdout.count("\n") == 1, done)
    process = rig.client("broker-ctl", "--url", broker.url(), "top", "--interval", "100ms")
    process.line()
    process.signal(signal.SIGTERM)
    process.all_lines()
    check(process.wait() == 0, process.log())


def test_blocks_of_a_broker_that_restarts(rig):
    broker = rig.broker(tcp=False)
    process = rig.client("broker-ctl", "--url", broker.url(), "top", "--interval", "100ms")
    while not process.line().startswith("no topic"):
        pass
    broker.kill()
    while not process.line().startswith("no answer for"):
        pass
    rig.broker(tcp=False, at=broker)
    while "it has restarted" not in process.line():
        pass


def test_lines_that_are_wrong(rig, folder):
    broker = rig.broker()
    url = ("--url", broker.url())
    check("only TOPIC, MSG/S" in batch(rig, *url, "--sort", "nope", "-n", 1, code=USAGE).stderr, "its columns")
    check("did you mean" in batch(rig, *url, "topic", code=USAGE).stderr, "near it")
    batch(rig, *url, "-n", "0", code=USAGE)
    batch(rig, *url, "--interval", "1ms", code=USAGE)
    batch(rig, "--url", f"unix://{folder}/none", "-n", 1, code=UNAVAILABLE)
    (folder / "empty").touch()
    (folder / "random").write_bytes(os.urandom(100000))
    for name in ("empty", "random"):
        done = batch(rig, "--file", folder / name, "-n", 1, code=DATA)
        check(done.stdout == "" and done.stderr.count("\n") == 1, done)
    check(batch(rig, "--file", folder, "-n", 1, code=DATA).stdout == "", "a folder")
