#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs a loaded broker that somebody looks at it.

    observed.py BUILD [--brokerd FILE] [--ctl FILE] [--topics 10000] [--subs 10000] [--pairs 4]
                [--seconds 3] [--rate 2000] [--views topics,subs,status] [--limit-us N]

A broker with that many topics and subscriptions, of which nothing moves, beside one publisher and
one subscriber of an open loop: each message has a time at which it is due. In each pair the same
load runs twice, alone and with `broker-ctl VIEW` in a loop, in turn first. Figures are medians over
the pairs: latency in us, the longest turn of a worker in the last 10 s, the longest round of the
control thread so far, both in ms, and the time of one view in ms.

--limit-us N: exit status 1 if the longest turn grows by more than N microseconds.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import heap


class Observer:
    """Asks for each view in turn, again and again."""

    def __init__(self, ctl, url, views):
        self.ctl, self.url, self.views = ctl, url, views
        self.took, self.rows, self.is_over = [], {}, False
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        while not self.is_over:
            for view in self.views:
                since = time.monotonic()
                answer = ask(self.ctl, self.url, view)
                self.took.append((time.monotonic() - since) * 1e3)
                self.rows[view] = len(answer.get(view, []))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()


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


def load(options, url):
    done = subprocess.run([f"{options.build}/tools/broker-bench", "latency", "--url", url, "--rate",
                           str(options.rate), "--seconds", str(options.seconds), "-o", "json"],
                          capture_output=True, text=True, timeout=120, check=False)
    result = json.loads(done.stdout)
    if result["status"] != "ok":
        raise SystemExit(f"broker-bench: {result['status']}")
    return result


def measure(options, ctl, url, watched):
    time.sleep(11)  # longer than the turns that are remembered
    if not watched:
        result, took, rows = load(options, url), [], {}
    else:
        with Observer(ctl, url, options.views.split(",")) as observer:
            result = load(options, url)
        took, rows = observer.took, observer.rows
    turn, control = longest(ctl, url)
    return {"p50": result["p50_us"], "p999": result["p999_us"], "max": result["max_us"],
            "turn": turn, "round": control, "view": statistics.median(took) if took else 0,
            "rows": rows}


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
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--views", default="topics,subs,status")
    parser.add_argument("--limit-us", type=float)
    options = parser.parse_args()
    ctl = options.ctl or f"{options.build}/tools/broker-ctl"
    with tempfile.TemporaryDirectory(prefix="amb-observed-") as folder:
        broker, port = start(options, folder)
        others = None
        try:
            others = heap.Load(options.build, port)
            others.tell(f"topics {options.topics} t")
            others.tell(f"subscribe {options.subs} nobody.publishes")
            points = {False: [], True: []}
            for pair in range(options.pairs):
                for watched in (False, True) if pair % 2 == 0 else (True, False):
                    points[watched].append(measure(options, ctl, f"unix://{folder}/s", watched))
        finally:
            if others is not None:
                others.process.kill()
            broker.terminate()
            broker.wait(60)
    print("| | p50, us | p999, us | longest, us | turn, ms | round, ms | view, ms | rows |")
    print("|---|---|---|---|---|---|---|---|")
    turns = []
    for watched, name in ((False, "alone"), (True, "watched")):
        middle = {key: statistics.median(point[key] for point in points[watched])
                  for key in ("p50", "p999", "max", "turn", "round", "view")}
        turns.append(middle["turn"])
        rows = " ".join(f"{view}:{count}" for view, count in points[watched][-1]["rows"].items())
        print(f"| {name} | {middle['p50']:.0f} | {middle['p999']:.0f} | {middle['max']:.0f} | "
              f"{middle['turn']:.2f} | {middle['round']:.1f} | {middle['view']:.0f} | {rows} |")
    if options.limit_us is not None and (turns[1] - turns[0]) * 1e3 > options.limit_us:
        print(f"the longest turn grew by {(turns[1] - turns[0]) * 1e3:.0f} us", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
