#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs a loaded broker that somebody looks at it.

    observed.py BUILD [--brokerd FILE] [--ctl FILE] [--topics 10000] [--subs 10000] [--pairs 8]
                [--seconds 3] [--rate 2000] [--views topics] [--limit-us N] [--limit-rate R] [--limit-ms N]

A broker with that many topics and subscriptions, of which nothing moves, beside one publisher and
one subscriber. In each pair the same load runs twice, alone and watched, in turn first: an open loop
whose messages have times at which they are due, then 64 B as fast as they go. Watched is
`broker-ctl VIEW` in a loop, `broker-ctl top`, the page's stream of events, and once a second a scrape
per object of topics and of subscriptions, and one of /metrics. What this build does not have is left out,
and said.

Figures are medians over the pairs: latency in us, messages/s, the longest turn of a worker in the last 10 s,
the longest round of the control thread so far, both in ms, and the times of a view and of a scrape per object in ms.
The ratio of rates is the median of the pairs' ratios.

Exit status 1: the longest turn grew by more than --limit-us microseconds, the ratio of rates is below --limit-rate, or
a scrape of 1,000 rows took more than --limit-ms milliseconds (median).
"""
import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import heap


SCRAPES = ("/metrics/per-object?kind=topics", "/metrics/per-object?kind=subs", "/metrics")


def http(path, target):
    """The socket, whose first bytes are the answer's."""
    conn = socket.socket(socket.AF_UNIX)
    conn.settimeout(30)
    conn.connect(path)
    conn.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return conn


def get(path, target):
    """(status, bytes of the body)"""
    with http(path, target) as conn:
        answer = b"".join(iter(lambda: conn.recv(1 << 20), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


class Observer:
    """Looks in each way that there is, until it is left."""

    def __init__(self, ctl, folder, views, ways):
        self.ctl, self.url, self.http, self.views = ctl, f"unix://{folder}/s", f"{folder}/s.http", views
        self.took, self.scraped, self.rows, self.is_over = [], [], {}, threading.Event()
        self.events = 0
        self.top = None
        self.has_top = "top" in ways
        loops = [self._look, self._scrape] + ([self._stream] if "events" in ways else [])
        self.threads = [threading.Thread(target=loop) for loop in loops]

    def _look(self):
        while not self.is_over.is_set():
            for view in self.views:
                since = time.monotonic()
                answer = ask(self.ctl, self.url, view)
                self.took.append((time.monotonic() - since) * 1e3)
                self.rows[view] = len(answer.get(view, []))

    def _scrape(self):
        while not self.is_over.is_set():
            for target in SCRAPES:
                since = time.monotonic()
                status, body = get(self.http, target)
                took = (time.monotonic() - since) * 1e3
                if status != 200:
                    raise SystemExit(f"{target}: {status}")
                if "kind" in target:
                    self.scraped.append(took)
                    kind = target.rsplit("=", 1)[1]
                    self.rows[f"scrape.{kind}"] = body.count(b"\nambroker_topic_bytes_total{") or \
                        body.count(b"\nambroker_subscription_bytes_total{")
            self.is_over.wait(1)

    def _stream(self):
        with http(self.http, "/v1/events") as conn:
            conn.settimeout(0.2)
            while not self.is_over.is_set():
                try:
                    self.events += len(conn.recv(1 << 20))
                except TimeoutError:
                    pass

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        if self.has_top:
            self.top = subprocess.Popen([self.ctl, "top", "--batch", "-n", "1000", "--url", self.url],
                                        stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.is_over.set()
        if self.top is not None:
            self.top.kill()
            self.top.wait()
        for thread in self.threads:
            thread.join()


def ways_of(ctl, folder):
    """Of top and events, those that this build has."""
    ways = []
    if subprocess.run([ctl, "top", "--help"], capture_output=True, check=False).returncode == 0:
        ways.append("top")
    with http(f"{folder}/s.http", "/v1/events") as conn:
        if conn.recv(100).startswith(b"HTTP/1.1 200"):
            ways.append("events")
    return ways


def ask(ctl, url, view):
    done = subprocess.run([ctl, view, "-o", "json", "--timeout", "30s", "--url", url],
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{view}: {done.stderr}")
    return json.loads(done.stdout)


def longest(ctl, url):
    """(turn of the last 10 s, or ever where the broker does not say; round ever), ms"""
    rows = ask(ctl, url, "workers")["workers"]
    turns = [row.get("longest_turn_10s_ns", row["longest_turn_ns"]) for row in rows]
    return max(turns) / 1e6, ask(ctl, url, "status").get("longest_round_ns", 0) / 1e6


def bench(options, url, *arguments):
    done = subprocess.run([f"{options.build}/tools/broker-bench", *arguments, "--url", url,
                           "--seconds", str(options.seconds), "-o", "json"],
                          capture_output=True, text=True, timeout=120, check=False)
    if not done.stdout:
        raise SystemExit(f"broker-bench: {done.stderr}")
    result = json.loads(done.stdout)
    if result["status"] != "ok":
        raise SystemExit(f"broker-bench: {result['status']}")
    return result


def load(options, url):
    late = bench(options, url, "latency", "--rate", str(options.rate))
    return late, bench(options, url, "throughput", "--size", "64")["msgs_per_s"]


def measure(options, ctl, folder, ways):
    """ways: of an observer; None: nobody looks."""
    url = f"unix://{folder}/s"
    time.sleep(11)  # longer than the turns that are remembered
    observer = None
    if ways is None:
        late, rate = load(options, url)
    else:
        with Observer(ctl, folder, options.views.split(","), ways) as observer:
            late, rate = load(options, url)
    turn, control = longest(ctl, url)
    return {"p50": late["p50_us"], "p999": late["p999_us"], "max": late["max_us"], "rate": rate,
            "turn": turn, "round": control, "view": statistics.median(observer.took) if observer else 0,
            "scrape": statistics.median(observer.scraped) if observer else 0,
            "rows": observer.rows if observer else {}}


def start(options, folder):
    # All clients are one user, which leaves a tenth to others (limits.user_share).
    return heap.start(options.brokerd or f"{options.build}/broker/brokerd", folder, [
        "limits.peer_timeout=1h", "limits.heartbeat=10m", "server.workers=1",
        f"limits.max_topics={options.topics * 5 // 4 + 1000}",
        f"limits.max_subscriptions={options.subs * 5 // 4 + 1000}",
        f"server.max_connections={options.subs // 8 + options.topics // 800 + 50}"])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--brokerd")
    parser.add_argument("--ctl")
    parser.add_argument("--topics", type=int, default=10000)
    parser.add_argument("--subs", type=int, default=10000)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--views", default="topics")
    parser.add_argument("--limit-us", type=float)
    parser.add_argument("--limit-rate", type=float)
    parser.add_argument("--limit-ms", type=float)
    options = parser.parse_args()
    ctl = options.ctl or f"{options.build}/tools/broker-ctl"
    with tempfile.TemporaryDirectory(prefix="amb-observed-") as folder:
        broker, port = start(options, folder)
        others = None
        try:
            others = heap.Load(options.build, port)
            others.tell(f"topics {options.topics} t")
            others.tell(f"subscribe {options.subs} nobody.publishes")
            ways = ways_of(ctl, folder)
            print(f"watched by views, scrapes{''.join(f', {way}' for way in ways)}")
            points = {False: [], True: []}
            for pair in range(options.pairs):
                for watched in (False, True) if pair % 2 == 0 else (True, False):
                    points[watched].append(measure(options, ctl, folder, ways if watched else None))
        finally:
            if others is not None:
                others.process.kill()
            broker.terminate()
            broker.wait(60)
    return tell(options, points)


KEYS = ("p50", "p999", "max", "rate", "turn", "round", "view", "scrape")


def tell(options, points):
    print("| | p50, us | p999, us | longest, us | 64 B, messages/s | turn, ms | round, ms | view, ms | scrape, ms | rows |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    middles = []
    for watched, name in ((False, "alone"), (True, "watched")):
        middle = {key: statistics.median(point[key] for point in points[watched]) for key in KEYS}
        middles.append(middle)
        rows = " ".join(f"{view}:{count}" for view, count in points[watched][-1]["rows"].items())
        print(f"| {name} | {middle['p50']:.0f} | {middle['p999']:.0f} | {middle['max']:.0f} | {middle['rate']:.0f} | "
              f"{middle['turn']:.2f} | {middle['round']:.1f} | {middle['view']:.0f} | {middle['scrape']:.1f} | {rows} |")
    grown = (middles[1]["turn"] - middles[0]["turn"]) * 1e3
    ratio = statistics.median(with_["rate"] / without["rate"] for without, with_ in zip(points[False], points[True]))
    print(f"the longest turn grew by {grown:.0f} us; ratio of rates {ratio:.3f}")
    found = []
    if options.limit_us is not None and grown > options.limit_us:
        found.append(f"the longest turn grew by more than {options.limit_us:.0f} us")
    if options.limit_rate is not None and ratio < options.limit_rate:
        found.append(f"the ratio of rates is below {options.limit_rate}")
    if options.limit_ms is not None and middles[1]["scrape"] > options.limit_ms:
        found.append(f"a scrape takes more than {options.limit_ms:.0f} ms")
    for text in found:
        print(text, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
