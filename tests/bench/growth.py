#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How cost grows: with subscribers, topics, clients and the size of a message.

    growth.py BUILD [--curves subs,topics,clients,size] [--rounds 3] [--seconds 0.5]
              [--svg FOLDER] [--json FILE]
    growth.py --draw FILE --svg FOLDER        what --json has written, drawn again

One broker for each point, all points of a curve in turn, medians over the rounds. Prints a table for
each curve; --svg also draws it (FOLDER/growth-NAME.svg, logarithmic both ways, by matplotlib). A knee is where a
step costs twice of what the steps before it let expect; it is named below its table, to be explained
in docs/internals/performance.md.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

KNEE = 2.0  # times the geometric continuation of the two points before


class Broker:
    """brokerd as it is by default, --dev aside, on a socket of its own."""

    def __init__(self, build):
        self.folder = tempfile.TemporaryDirectory(prefix="amb-growth-")
        self.url = f"unix://{self.folder.name}/s"
        self.log = open(f"{self.folder.name}/log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [f"{build}/broker/brokerd", "--dev", "--listen", self.url], stdout=subprocess.PIPE,
            stderr=self.log, text=True)
        if not self.process.stdout.readline().startswith("ready"):
            raise SystemExit(f"brokerd does not start: see {self.folder.name}/log")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()
        self.folder.cleanup()


def output_of(command, timeout=120):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    try:
        result = json.loads(done.stdout)
    except json.JSONDecodeError:
        result = {"status": f"failed: {done.stderr.strip()[-200:]}"}
    if result["status"] != "ok":
        print(f"{' '.join(map(str, command))}: {result['status']}", file=sys.stderr)
        return {}
    return result


def bench(options, workload, *more):
    return output_of([f"{options.build}/tools/broker-bench", workload, "--brokerd",
                      f"{options.build}/broker/brokerd", "--seconds", options.seconds, "-o", "json",
                      *more])


def run_subs(options, count):
    got = bench(options, "throughput", "--size", "1k", "--subs", str(count))
    return {"deliveries/s": got.get("msgs_per_s"),
            "broker us/delivery": got.get("broker_cpu_s_per_mmsg"),
            "broker RSS MiB": got.get("broker_peak_rss_bytes", 0) / 2**20, "lost": got.get("lost")}


def run_topics(options, count):
    row = {}
    for burst in (1, 32):
        with Broker(options.build) as broker:
            got = output_of([f"{options.build}/tests/growth-bench", "topics", broker.url,
                             str(broker.process.pid), str(count), str(burst), options.seconds])
        row[f"messages/s, {burst} a topic"] = got.get("msgs_per_s")
        row[f"broker us/message, {burst} a topic"] = got.get("broker_cpu_s_per_mmsg")
        row["broker anonymous MiB"] = got.get("broker_anon_bytes", 0) / 2**20
    return row


def run_clients(options, count):
    """count - 2 clients that are there and silent, and two that measure."""
    with Broker(options.build) as broker:
        holder = subprocess.Popen([f"{options.build}/tests/growth-bench", "hold", broker.url,
                                   str(count - 2)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if not holder.stdout.readline().startswith(b"holding"):
            raise SystemExit("growth-bench hold failed")
        to = ["--url", broker.url, "--broker-pid", str(broker.process.pid), "--size", "64"]
        rate = bench(options, "throughput", *to)
        late = bench(options, "latency", *to)
        holder.stdin.close()
        holder.wait(60)
    return {"messages/s": rate.get("msgs_per_s"), "p50 us": late.get("p50_us"),
            "broker us/message": rate.get("broker_cpu_s_per_mmsg"),
            "broker us/ping": late.get("broker_cpu_s_per_mmsg"),
            "broker anonymous MiB": late.get("broker_anon_bytes", 0) / 2**20}


def run_size(options, size):
    row = {}
    for name, more in (("copied", []), ("leased", ["--lease"])):
        # Making segments of that size belongs to the start.
        warm = "3s" if size >= 16 << 20 else "1s" if size >= 1 << 20 else "150ms"
        got = bench(options, "throughput", "--size", str(size), "--warm", warm, *more)
        row[f"messages/s, {name}"] = got.get("msgs_per_s")
        row[f"broker us/message, {name}"] = got.get("broker_cpu_s_per_mmsg")
    row["MB/s, copied"] = (row["messages/s, copied"] or 0) * size / 1e6
    return row


# name: (what grows, points, function, figure in which knees are looked for)
CURVES = {
    "subs": ("subscribers, 1 KiB", [1, 2, 4, 8, 16, 32, 64], run_subs, "broker us/delivery"),
    "topics": ("topics, 64 B", [1, 10, 100, 1000, 10000], run_topics,
               "broker us/message, 32 a topic"),
    "clients": ("clients, 64 B, all but two silent", [2, 10, 50, 100, 200], run_clients,
                "broker us/message"),
    "size": ("bytes of a message", [64 << (2 * i) for i in range(11)], run_size,
             "broker us/message, copied"),
}


def median_row(rows):
    out = {}
    for key in rows[0]:
        values = [row[key] for row in rows if row.get(key) is not None]
        out[key] = statistics.median(values) if values else None
    return out


def knees(points, values):
    """Points at which a figure is KNEE times what the steepest step before lets expect."""
    found = []
    for i in range(2, len(points)):
        a, b, c = values[i - 2 : i + 1]
        if not a or not b or not c:
            continue
        slope = max(math.log(b / a) / math.log(points[i - 1] / points[i - 2]), 0)
        expected = b * (points[i] / points[i - 1]) ** min(slope, 1)
        if c > KNEE * expected:
            found.append((points[i], c / expected))
    return found


def number(value):
    if value is None:
        return "-"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.3g} k"
    return f"{value:.3g}"


def size_name(points, point):
    if points[0] != 64:
        return f"{point:,}"
    for unit, name in ((20, "MiB"), (10, "KiB")):
        if point >= 1 << unit:
            return f"{point >> unit} {name}"
    return f"{point} B"


def print_table(name, points, rows):
    title, _, _, key = CURVES[name]
    keys = list(rows[0])
    print(f"\n| {title} | " + " | ".join(keys) + " |\n|---" + "|---" * len(keys) + "|")
    for point, row in zip(points, rows):
        print(f"| {size_name(points, point)} | " + " | ".join(number(row[k]) for k in keys) + " |")
    for point, factor in knees(points, [row[key] for row in rows]):
        print(f"\nknee: {key} at {size_name(points, point)}: {factor:.1f}x of what to expect")


def draw(name, points, rows, path):
    """A line for each figure: logarithms, each figure over its value at the left."""
    import matplotlib  # python3-matplotlib; nothing else needs it
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 9})
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(7, 5))
    for key in rows[0]:
        pairs = [(p, row[key]) for p, row in zip(points, rows) if row[key]]
        if len(pairs) > 1 and key != "lost":
            first = pairs[0][1]
            axes.plot([p for p, _ in pairs], [v / first for _, v in pairs], marker=".",
                      label=f"{key} (1 = {number(first)})")
    axes.set(xscale="log", yscale="log", title=f"times the value at the left, over {CURVES[name][0]}")
    axes.set_xticks(points, [size_name(points, point) for point in points])
    axes.minorticks_off()
    axes.grid(True, color="#ddd")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2, frameon=False)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)


def measure(options, name):
    _, points, run, _ = CURVES[name]
    rounds = [[run(options, point) for point in points] for _ in range(options.rounds)]
    return [{"at": point, **median_row([one[i] for one in rounds])}
            for i, point in enumerate(points)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?")
    parser.add_argument("--curves", default=",".join(CURVES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", default="0.5")
    parser.add_argument("--svg")
    parser.add_argument("--json")
    parser.add_argument("--draw")
    options = parser.parse_args()
    if not options.build and not options.draw:
        parser.error("a BUILD to measure, or --draw FILE")
    found = json.loads(pathlib.Path(options.draw).read_text("utf-8")) if options.draw else {}
    for name in options.curves.split(","):
        if not options.draw:
            found[name] = measure(options, name)
        points = [row["at"] for row in found[name]]
        rows = [{key: row[key] for key in row if key != "at"} for row in found[name]]
        print_table(name, points, rows)
        sys.stdout.flush()
        if options.svg:
            draw(name, points, rows, pathlib.Path(options.svg) / f"growth-{name}.svg")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(found, out, indent=1)
            out.write("\n")


if __name__ == "__main__":
    main()
