#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at a broker in each way that there is, one after the other, while a test runs.

    observer.py --ctl BROKER_CTL [--file COUNTERS] [--but KIND,...] [--least N] [--refused] [--seed N] SOCKET PID

A way to look is of one of these kinds; --but leaves some out:

    view    broker-ctl asks the broker            top     broker-ctl top, twice
    file    broker-ctl reads the counters file    events  broker-ctl events, for a moment
    http    metrics, figures of each object,      trace   broker-ctl trace, for one batch
            views, probes, a stream of events

Each answer must be well-formed, and no total may run backwards. After each look the program waits twice as long as
that look took. It writes `ready` first, and hears SIGTERM from then on.

    standard input    what it does                           standard output
    all               looks in each way once                 all
    pause             looks no more                          pause
    go                goes on                                go
    SIGTERM           ends, and so it does with the broker   JSON: how many looks of each kind

No look is under way when it has written a word. Exit status 1: an answer was wrong, or there were fewer looks than
--least; the JSON says which. --refused: the broker may have no memory or no place, so that a refusal with a sentence
is an answer, too.
"""
import argparse
import collections
import contextlib
import ctypes
import json
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import scrape
from patience import patience

NAME = "observer"           # of its clients: harness.Broker leaves them out
EVENTS = "*.>"              # below $SYS, which no test reads by this pattern
READS = f"$SYS.{EVENTS}"
VIEWS = ("status", "topics", "subs", "queues", "clients", "clients --closed", "workers", "metrics", "memory", "transports",
         "paths", "quotas", "doctor", "topo", "errors", "loss", "blocked", "topics --sort bytes --top 5", "subs --match a.>")
OF_FILE = ("status", "topics", "subs", "queues", "clients", "clients --closed", "workers", "metrics", "errors", "loss")
PAGES = ("status", "workers", "metrics", "topics", "subs", "queues", "clients", "closed", "errors", "loss", "transports",
         "paths?name=a")
OBJECTS = ("topics", "subs", "queues", "clients")
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
FINDINGS = (0, 1, 2)        # how doctor may exit
LATE, REFUSED = 75, (69, 70, 75)
LOOK_S = 60                 # the longest look
STREAM_S = 0.3
ASK_S = 50                  # of broker-ctl for one question, less than that
PATIENT = 'client = { connect_timeout = "%ds"; timeout = "%ds"; };'
SHORTEST_S, LONGEST_S = 0.02, 0.5  # the wait between two looks
GONE_S = 20                 # for a broker that is being killed: its end is known later than its sockets are closed


class Wrong(Exception):
    """An answer, or that there was none."""


def check(condition, text):
    if not condition:
        raise Wrong(text)


def _end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Observer:
    def __init__(self, options):
        self.options = options
        self.looks, self.refused = collections.Counter(), 0
        self.totals = {}
        config = os.memfd_create("client.conf")
        os.write(config, (PATIENT % (2 * (patience(ASK_S),))).encode())
        self.env = {**os.environ, "AMB_CONFIG": f"/proc/{os.getpid()}/fd/{config}"}
        self.ways = [(name, way) for name, way in self._ways() if name.split()[0] not in options.but.split(",")]

    def _ways(self):
        for words in VIEWS:
            yield f"view {words}", lambda words=words: self.view(words.split())
        if self.options.file:
            for words in OF_FILE:
                yield f"file {words}", lambda words=words: self.view(words.split(), ("--file", self.options.file))
        yield "top", self.top
        yield "events", self.events
        yield "trace", self.trace
        self.http = f"{self.options.socket}.http"
        if os.path.exists(self.http):  # not where it was built without
            for accept in ("", OPEN_METRICS):
                yield f"http /metrics {accept}".strip(), lambda accept=accept: self.metrics(accept)
            for kind in OBJECTS:
                yield f"http {kind}", lambda kind=kind: self.objects(kind)
            for page in PAGES:
                yield f"http /v1/{page}", lambda page=page: self.page(page)
            for probe in ("/healthz", "/readyz"):
                yield f"http {probe}", lambda probe=probe: self.probe(probe)
            yield "http /v1/events", self.stream

    # Ways to look: each raises Wrong, or another error that look() knows.

    def ctl(self, *words, ends=(0,), at=None):
        """What broker-ctl prints; None: it was refused, as it may be. at: another place than the broker's socket."""
        at = at or ("--url", f"unix://{self.options.socket}", "--client-name", NAME)
        done = subprocess.run([self.options.ctl, *at, *words], capture_output=True, text=True, timeout=patience(LOOK_S),
                              stdin=subprocess.DEVNULL, check=False, env=self.env, preexec_fn=_end_with_parent)
        if self.options.refused and done.returncode in REFUSED and done.stderr.strip():
            self.refused += 1
            return None
        check(done.returncode in ends, f"{' '.join(words)}: {done.returncode}: {done.stderr[-3000:]}")
        return done.stdout

    def view(self, words, at=None):
        text = self.ctl(*words, "-o", "json", *([] if at else ["--timeout", f"{patience(ASK_S):.0f}s"]),
                        ends=FINDINGS if words[0] == "doctor" else (0,), at=at)
        if text is None:
            return
        answer = json.loads(text)
        check(isinstance(answer, dict), text[:200])
        if words[0] == "status":
            check(answer["uptime_s"] >= 0, text[:200])
            return
        rows = answer["closed" if "--closed" in words else words[0]]
        check(all(isinstance(row, dict) and row for row in rows), text[:200])
        check("--top" not in words or len(rows) <= 5, f"{len(rows)} rows of 5")
        if words[0] == "metrics":
            self.forward("file" if at else "view", {(row["metric"], row.get("worker")): row["value"] for row in rows})

    def forward(self, source, figures):
        """No total is less than it was."""
        before = self.totals.get(source, {})
        now = {key: value for key, value in figures.items() if key[0].endswith("_total")}
        check(now, f"{source}: no totals")
        for key, value in before.items():
            check(now[key] >= value, f"{source}: {key} was {value}, and is {now[key]}")
        self.totals[source] = now

    def top(self):
        text = self.ctl("top", "--batch", "-n", "2", "--interval", "200ms")
        check(text is None or text.count("\nmemory ") == 2, f"two blocks: {text}")

    def events(self):
        # It has to connect in that time, too.
        text = self.ctl("events", EVENTS, "-o", "jsonl", "--timeout", f"{patience(0.5):.1f}s")
        for line in (text or "").splitlines():
            check(json.loads(line)["event"], line)

    def trace(self):
        text = self.ctl("trace", ">", "--count", "1", "--timeout", "300ms", "-o", "json", ends=(0, LATE))
        if text is not None:
            answer = json.loads(text)
            check(answer["batches"] <= answer["of"] == 1, text[:200])
            check(all(row["stage"] for row in answer["trace"]), text[:200])

    def metrics(self, accept):
        text = self.get("/metrics", accept)
        check(not accept or text.endswith("# EOF\n"), f"it is cut: {text[-100:]}")
        samples = self.samples(text)
        self.forward(f"scrape {accept}", samples)

    def get(self, target, accept=""):
        return scrape.get(self.http, target, accept, patience(LOOK_S))

    @staticmethod
    def samples(text):
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        found = scrape.samples(text)
        twice = [name for name, count in collections.Counter(line.rsplit(" ", 1)[0] for line in lines).items() if count > 1]
        check(len(found) == len(lines), f"{len(lines)} lines are {len(found)} samples; twice: {twice[:3]}")
        return found

    def objects(self, kind):
        self.samples(self.get(f"/metrics/per-object?kind={kind}"))

    def page(self, name):
        answer = json.loads(self.get(f"/v1/{name}"))
        check(isinstance(answer, dict) and answer, str(answer)[:200])

    def probe(self, path):
        """That a broker is not ready is an answer, and that it hangs is none."""
        try:
            self.get(path)
        except scrape.Refused as refused:
            check(path == "/readyz" and str(refused).startswith("HTTP/1.1 503 "), f"{path}: {refused}")

    def stream(self):
        data, deadline = b"", time.monotonic() + STREAM_S
        with scrape.opened(self.http, "/v1/events?view=status", seconds=patience(LOOK_S)) as conn:
            with contextlib.suppress(TimeoutError):
                while b"\ndata:" not in data or time.monotonic() < deadline:
                    conn.settimeout(max(0.01, deadline - time.monotonic()) if b"\ndata:" in data else patience(LOOK_S))
                    piece = conn.recv(65536)
                    check(piece, "the stream has ended")
                    data += piece
        check(data.startswith(b"HTTP/1.1 200 "), data[:200])

    # One after the other.

    def look(self, name, way):
        """Looks in one way; returns how long that took."""
        begin = time.monotonic()
        try:
            way()
        except (scrape.Refused, OSError) as error:
            if not self.options.refused:
                raise Wrong(f"{name}: {error}") from error
            self.refused += 1
        except (Wrong, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            raise Wrong(f"{name}: {type(error).__name__}: {error}") from error
        self.looks[name.split()[0]] += 1
        return time.monotonic() - begin

    def look_all(self):
        for name, way in self.ways:
            self.look(name, way)

    def summary(self):
        return {"looks": sum(self.looks.values()), "refused": self.refused, **self.looks}


class Commands:
    """What standard input and SIGTERM tell the program, which hears it while it waits."""

    def __init__(self, observer):
        self.observer, self.rest = observer, b""
        self.is_over = self.is_paused = False
        self.has_input = True
        ours, theirs = os.pipe()
        os.set_blocking(theirs, False)
        signal.set_wakeup_fd(theirs)
        signal.signal(signal.SIGTERM, self._end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        self.bell = ours

    def _end(self, *_):
        self.is_over = True

    def _do(self, word):
        if word == "all":
            self.observer.look_all()
        elif word in ("pause", "go"):
            self.is_paused = word == "pause"
        print(word, flush=True)

    def wait(self, seconds):
        """Waits so long, or for as long as it is paused, and does what it is told meanwhile."""
        deadline = time.monotonic() + seconds
        while not self.is_over:
            left = None if self.is_paused else max(0, deadline - time.monotonic())
            ready, _, _ = select.select([self.bell] + [0] * self.has_input, [], [], left)
            if 0 in ready:
                piece = os.read(0, 4096)
                self.has_input = bool(piece)
                *words, self.rest = (self.rest + piece).split(b"\n")
                for word in words:
                    self._do(word.decode())
            elif not ready:
                return


def watch(observer, dice):
    commands = Commands(observer)
    print("ready", flush=True)
    commands.wait(0)
    while not commands.is_over:
        ways = list(observer.ways)
        dice.shuffle(ways)
        for name, way in ways:
            took = observer.look(name, way)
            commands.wait(min(max(SHORTEST_S, 2 * took), LONGEST_S))
            if commands.is_over:
                return


def has_ended(pidfd, seconds):
    return pidfd is None or bool(select.select([pidfd], [], [], seconds)[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ctl", required=True)
    parser.add_argument("--file", default="")
    parser.add_argument("--but", default="")
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFFFF)
    parser.add_argument("--refused", action="store_true")
    parser.add_argument("socket")
    parser.add_argument("pid", type=int)
    options = parser.parse_args()
    try:
        pidfd = os.pidfd_open(options.pid)
    except ProcessLookupError:
        pidfd = None
    observer, wrong = Observer(options), None
    try:
        watch(observer, random.Random(options.seed))
    except Wrong as error:
        if not has_ended(pidfd, GONE_S):
            wrong = str(error)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # Python's own end would not know what to do with it.
    said = observer.summary()
    if wrong is None and said["looks"] < options.least:
        wrong = f"fewer than {options.least} looks"
    print(json.dumps(said | ({"wrong": wrong, "seed": options.seed} if wrong else {})), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
