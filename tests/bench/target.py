#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The target table: Ambroker beside its peers, cell by cell, on one machine in one run.

    target.py PEERBENCH [--build BUILD] [--rounds 3] [--seconds 0.6] [--cells PATTERN,...]
              [--all] [--nice N] [--beside also|only] [--json FILE] [--list]

PEERBENCH is the OUT/peerbench that tests/bench/peerbench/build.sh makes. In each round the cells
take their runs in turn, peers and ours beside each other; a run that several cells need is made
once. The first round runs every peer, the later ones only those within half of the best of their
cell so far, unless --all. A run during which other programs took more than 15 % of the machine is
repeated once at the end of its round, and left out as long as a cleaner one of its kind remains;
`*` marks figures that stand on such runs only. Compared are medians.

With --build the cells that bytes decide have the machine's own limit beside them, run in the same
rounds by the tests' limits-bench: the same bytes written, moved and checked with no broker to speak
of. A cell that misses its target but comes within a tenth of that limit is marked so: more would
be a matter of the machine. limits-bench's third process is simple; ours can be above it.

--beside measures the cells beside one busy process a core, too, or only so: users' cores are busy.
All but the idle cell have a target there, at least "not behind the best peer". What others take of
the machine says nothing then, so no run counts as noisy.

--cells takes shell patterns of the names --list shows ("1to1*"). --build (with the tests' programs)
also adds the idle cells by tests/bench/idle.py and idle_clients.py. All cells take about nine
minutes with three rounds. Each cell is printed on stderr as soon as it is measured, and FILE is
written anew, so that a run which is cut short keeps what it has.
"""
import argparse
import contextlib
import fnmatch
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

OTHERS_MAX = 0.15
TCP = ["nats", "redis", "mosquitto", "zmq", "nng"]
PEERS = TCP + ["redis-unix", "mosquitto-unix", "zmq-ipc", "nng-ipc"]
IOX = ["iceoryx"]
LIMIT = "limit"  # of the machine: limits-bench
KEPT = ("msgs_per_s", "mb_per_s", "p50_us", "p99_us", "broker_cpu_s_per_mmsg",
        "broker_cpu_s_per_gb", "broker_peak_rss_mib", "others")
SPREAD_SIZES = ("64k", "1m", "16m", "64m")
NEAR = 0.9  # of the limit: at it
PACKED = 1000  # messages of 64 B that cross at once
CONTENDER = 0.5  # of the best so far; slower ones leave after the first round
# Ratios beside work, where more is wanted than to be no worse than the best peer. Of latency, p99
# has the same target as the median.
BESIDE = {"1to1.64": 4, "1to1.1k": 1.5, "touch.1m": 5, "touch.64k.tcp": 1.2, "touch.1m.tcp": 1.5,
          "handover.64k": 2, "latency.64": 0.9, "latency.64.tcp": 0.9, "latency.1m": 0.9,
          "latency.1m.lease": 0.9}


class Cell:
    """One line of the table: ours against the best of `peers` in the same run."""

    def __init__(self, name, ours, peers, run, key, op, target, env=None, limit=None, packed=1,
                 was=None):
        self.limit = None if limit is None else (LIMIT, tuple(limit.split()), ())
        self.packed = packed  # of our messages in one of the limit's
        self.name = name
        self.ours = ours
        self.peers = peers
        self.run = tuple(run.split())  # workload and options
        self.key = key
        self.op = op  # ">=": more is better
        self.target = target
        self.was = was  # the target before it was moved
        self.env = env or {}  # of ours only

    def runs(self):
        """What has to be run: (who, arguments, environment)."""
        ours = (self.ours, self.run, tuple(sorted(self.env.items())))
        return [ours] + [(peer, self.run, ()) for peer in self.peers]

    def all_runs(self, has_limits):
        return self.runs() + ([self.limit] if has_limits and self.limit is not None else [])

    def better(self, values):
        return max(values) if self.op == ">=" else min(values)

    def met(self, ratio, target):
        return ratio >= target if self.op == ">=" else ratio <= target


def cells():
    rate, mb, p50 = "msgs_per_s", "mb_per_s", "p50_us"
    out = [
        Cell("1to1.64", "ambroker", PEERS, "throughput --size 64", rate, ">=", 15),
        Cell("1to1.64.tcp", "ambroker-tcp", TCP, "throughput --size 64", rate, ">=", 8,
             limit=f"tcp --size {64 * PACKED} --window {32768 // PACKED}", packed=PACKED),
        Cell("1to1.1k", "ambroker", PEERS, "throughput --size 1k", rate, ">=", 8),
    ]
    # The last two: with leases, as it is and as it was. There iceoryx and we touch every byte twice
    # and do little else, and a bare pair of writer and checker has 0.9 to 1.5 of iceoryx.
    for size, local, tcp, lease, was in (("64k", 3, 1.4, 1, 1.5), ("1m", 5, 1.6, 0.85, 1.1),
                                         ("64m", 8, 2.5, 0.9, 1)):
        long = " --seconds 4" if size == "64m" else ""  # 0.6 s are a dozen messages
        run = f"throughput --size {size} --touch{long}"
        out += [
            Cell(f"touch.{size}", "ambroker", PEERS, run, mb, ">=", local,
                 limit=f"copy --size {size}{long}"),
            Cell(f"touch.{size}.tcp", "ambroker-tcp", TCP, run, mb, ">=", tcp,
                 limit=f"tcp --size {size}{long}"),
            Cell(f"touch.{size}.lease", "ambroker-lease", IOX, run, mb, ">=", lease,
                 limit=f"lease --size {size}{long}", was=was),
        ]
    run = "throughput --size 64m --touch"  # with the first touch of all memory
    out.append(Cell("touch.64m.start", "ambroker", PEERS, run, mb, ">=", None))
    run = "throughput --size 1m --touch --window 3"
    out.append(Cell("touch.1m.tcp.window3", "ambroker-tcp", TCP, run, mb, ">=", 1.3,
                    limit="tcp --size 1m --window 3"))
    for size in ("64", "1k", "64k", "1m", "16m", "64m"):
        run = f"throughput --size {size}"
        # Of 1 MiB the harness lets 16 be under way, and whoever has sent them naps: see the text.
        out.append(Cell(f"handover.{size}", "ambroker-lease", IOX, run, rate, ">=",
                        1.25 if size == "1m" else 2, was=2 if size == "1m" else None))
    for size in SPREAD_SIZES:  # the same number under way whatever the size
        run = f"throughput --size {size} --window 2"
        out.append(Cell(f"handover2.{size}", "ambroker-lease", IOX, run, rate, ">=", None))
    no_spin = {"AMBROKER_SERVER_SPIN": "0"}
    small, large = "latency --size 64", "latency --size 1m"
    out += [
        Cell("latency.64", "ambroker", PEERS, small, p50, "<=", 0.15),
        Cell("latency.64.tcp", "ambroker-tcp", TCP, small, p50, "<=", None),
        Cell("latency.64.iceoryx", "ambroker", IOX, small, p50, "<=", 0.25),
        Cell("latency.64.nospin", "ambroker", PEERS, small, p50, "<=", 0.8, no_spin),
        Cell("latency.1m", "ambroker", PEERS, large, p50, "<=", 0.1),
        Cell("latency.1m.lease", "ambroker-lease", IOX, large, p50, "<=", 0.25),
        Cell("fanout16.1k", "ambroker", PEERS, "fanout --subs 16 --size 1k", rate, ">=", 20),
        Cell("fanout16.1m.lease", "ambroker-lease", IOX, "fanout --subs 16 --size 1m", rate, ">=",
             3),
        Cell("fanout16.1m.tcp", "ambroker-tcp", TCP, "fanout --subs 16 --size 1m", mb, ">=", 1,
             limit="fanout --subs 16 --size 1m"),
        Cell("4to1.1k", "ambroker", PEERS, "manypub --size 1k", rate, ">=", 15),
        Cell("cpu.64", "ambroker", PEERS, "throughput --size 64", "broker_cpu_s_per_mmsg", "<=",
             0.05),
        Cell("cpu.1m.tcp", "ambroker-tcp", TCP, "throughput --size 1m", "broker_cpu_s_per_gb",
             "<=", 0.8, limit="raw --size 1m"),
        Cell("cpu.1m.lease", "ambroker-lease", PEERS, "throughput --size 1m",
             "broker_cpu_s_per_gb", "<=", 0.02),
    ]
    return out


SPREAD = [f"handover2.{size}" for size in SPREAD_SIZES]  # within 2x of each other


class Runs:
    """All results, by what was run."""

    def __init__(self, options, is_beside):
        self.options = options
        self.is_beside = is_beside
        self.results = {}

    def make(self, what):
        who, run, env = what
        seconds = [] if "--seconds" in run else ["--seconds", str(self.options.seconds)]
        if who == LIMIT:
            command = [f"{self.options.build}/tests/limits-bench", *run, *seconds]
        else:
            command = [self.options.peerbench, who, *run, *seconds, "--json"]
        if self.options.nice:
            command = ["nice", "-n", str(self.options.nice), *command]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=90,
                                  check=False, env={**os.environ, **dict(env)})
            result = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
            result = {"status": f"failed: {type(error).__name__}"}
        if result["status"] not in ("ok", "cannot"):
            print(f"{who} {' '.join(run)}: {result['status']}", file=sys.stderr)
        self.results.setdefault(what, []).append(result)
        return result

    def good(self, what):
        """The results to take: clean ones, or those there are. Second: are they clean?"""
        done = [r for r in self.results.get(what, []) if r["status"] == "ok"]
        clean = [r for r in done if self.is_beside or r.get("others", 0) <= OTHERS_MAX]
        return (clean, True) if clean else (done, False)

    def value(self, what, key):
        runs, _ = self.good(what)
        values = [r[key] for r in runs if key in r]
        return statistics.median(values) if values else None

    def is_noisy(self, what):
        runs, clean = self.good(what)
        return bool(runs) and not clean

    def wrong(self, what):
        keys = ("lost", "gaps", "disorder", "corrupt", "unanswered")
        return sum(r.get(key, 0) for r in self.results.get(what, []) for key in keys)


def best_peer(cell, runs):
    """(name, median) of the best peer of a cell, or None."""
    found = [(runs.value((peer, cell.run, ()), cell.key), peer) for peer in cell.peers]
    found = [(value, peer) for value, peer in found if value]
    if not found:
        return None
    value = cell.better([v for v, _ in found])
    return next((peer, v) for v, peer in found if v == value)


def contenders(chosen, runs):
    """What later rounds repeat: ours, and the peers near the best of any of their cells."""
    keep = {}
    for cell in chosen:
        if cell.limit is not None:
            keep[cell.limit] = True
        best = best_peer(cell, runs)
        for what in cell.runs():
            value = runs.value(what, cell.key)
            is_near = value is not None and best is not None and (
                value >= best[1] * CONTENDER if cell.op == ">=" else value <= best[1] / CONTENDER)
            if what == cell.runs()[0] or is_near:
                keep[what] = True
    return list(keep)


@contextlib.contextmanager
def busy_cores(count):
    """So many processes that do nothing but compute."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def measure(chosen, options, runs, report):
    """Makes all runs. `report` gets each cell when a round has made its last run."""
    is_beside = runs.is_beside
    has_limits = options.build is not None
    plan = list(dict.fromkeys(what for cell in chosen for what in cell.all_runs(has_limits)))
    for turn in range(options.rounds):
        start = time.monotonic()
        noisy = []
        open_cells = {cell.name: cell for cell in chosen}
        for place, what in enumerate(plan):
            result = runs.make(what)
            if (not is_beside and result["status"] != "cannot" and
                    result.get("others", 1) > OTHERS_MAX):
                noisy.append(what)
            rest = set(plan[place + 1:])
            for cell in list(open_cells.values()):
                if not rest.intersection(cell.all_runs(has_limits)):
                    report(open_cells.pop(cell.name))
        for what in noisy if options.repeat else []:
            if not runs.good(what)[1]:
                runs.make(what)
        print(f"round {turn + 1} of {options.rounds}: {len(plan)} runs, {len(noisy)} beside other "
              f"work, {time.monotonic() - start:.0f} s", file=sys.stderr)
        if not options.all:
            plan = [what for what in contenders(chosen, runs) if what in plan]
            plan = [what for what in plan if runs.results[what][0]["status"] != "cannot"]


def row_of(cell, runs):
    ours = runs.value(cell.runs()[0], cell.key)
    best = best_peer(cell, runs)
    row = {"cell": cell.name, "run": " ".join(cell.run), "key": cell.key, "who": cell.ours,
           "ours": ours, "op": cell.op, "target": cell.target}
    if cell.was is not None:
        row["was"] = cell.was
    if cell.env:
        row["env"] = cell.env
    results = runs.results.get(cell.runs()[0], [])
    row["runs"] = len(runs.good(cell.runs()[0])[0])
    row["wrong"] = runs.wrong(cell.runs()[0])
    row["noisy"] = runs.is_noisy(cell.runs()[0])
    if best is not None:
        row["best_peer"], row["best"] = best
        row["noisy"] = row["noisy"] or runs.is_noisy((best[0], cell.run, ()))
    if ours and best is not None:
        row["ratio"] = ours / best[1]
        if cell.target is not None:
            row["met"] = cell.met(row["ratio"], cell.target) and row["wrong"] == 0
    elif results:
        row["status"] = results[-1]["status"]
    limit = None if cell.limit is None else runs.value(cell.limit, cell.key)
    if limit and ours:
        limit *= cell.packed if cell.key == "msgs_per_s" else 1
        row["limit"], row["of_limit"] = limit, ours / limit
        row["at_limit"] = (row["of_limit"] >= NEAR if cell.op == ">=" else
                           row["of_limit"] <= 1 / NEAR)
        row["wrong"] += runs.wrong(cell.limit)
    if cell.key == "p50_us":
        row["p99_us"] = runs.value(cell.runs()[0], "p99_us")
    return row


def beside_of(cell, runs):
    """The part of a row that was measured beside work."""
    ours = cell.runs()[0]
    best = best_peer(cell, runs)
    part = {"ours": runs.value(ours, cell.key), "target": BESIDE.get(cell.name, 1),
            "runs": len(runs.good(ours)[0]), "wrong": runs.wrong(ours)}
    if not part["ours"] or best is None:
        return part
    part["best_peer"], part["best"] = best
    part["ratio"] = part["ours"] / best[1]
    part["met"] = cell.met(part["ratio"], part["target"]) and part["wrong"] == 0
    if cell.key == "p50_us":
        part["p99_us"] = runs.value(ours, "p99_us")
        theirs = [runs.value((peer, cell.run, ()), "p99_us") for peer in cell.peers]
        part["best_p99_us"] = min((value for value in theirs if value), default=None)
        part["met"] = part["met"] and (part["best_p99_us"] is None or cell.met(
            part["p99_us"] / part["best_p99_us"], part["target"]))
    return part


def spread_row(rows):
    """Hand-overs must not depend on size: the fastest over the slowest."""
    values = [row["ours"] for row in rows if row["cell"] in SPREAD and row["ours"]]
    if len(values) < len(SPREAD):
        return []
    ratio = max(values) / min(values)
    return [{"cell": "handover.spread", "who": "ambroker-lease", "key": "msgs_per_s",
             "ours": max(values), "best_peer": "its slowest size", "best": min(values),
             "ratio": ratio, "op": "<=", "target": 2, "met": ratio <= 2, "wrong": 0,
             "noisy": False}]


# Of an idle subscriber among 1,000, by idle_clients.py: the broker's KiB, ms of a connect.
IDLE_CLIENTS = 1000
IDLE_TARGETS = (("ring", "broker", 128), ("ring", "used", 128), ("tcp", "broker", 32),
                ("tcp", "used", 32), ("ring", "connect_ms", 0.5), ("tcp", "connect_ms", 1))


def idle_client_rows(build):
    script = pathlib.Path(__file__).resolve().parent / "idle_clients.py"
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run([sys.executable, script, build, "--systems", "ring,tcp", "--clients",
                               str(IDLE_CLIENTS), "--json", out.name],
                              check=False, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            return [{"cell": "idle.clients", "status": "failed", "target": 128, "op": "<="}]
        found = {row["system"]: row for row in json.load(open(out.name, encoding="utf-8"))}
    rows = []
    for system, key, target in IDLE_TARGETS:
        row = found[system]
        value = row["used"]["broker"] if key == "used" else row.get(key)
        name = {"broker": "kib", "used": "kib.used", "connect_ms": "connect_ms"}[key]
        rows.append({"cell": f"idle.{system}.{name}", "who": "brokerd", "key": name, "ours": value,
                     "op": "<=", "target": target, "met": value is not None and value <= target,
                     "wrong": 0, "noisy": False})
    return rows


def idle_rows(build):
    script = pathlib.Path(__file__).resolve().parent / "idle.py"
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run([sys.executable, script, build, "--limit", "100", "--json", out.name],
                              check=False, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            return [{"cell": "idle", "status": "failed", "target": 0.1, "op": "<="}]
        found = json.load(open(out.name, encoding="utf-8"))
    rows = []
    for name, key, target in (("idle.cpu", "broker_cpu_percent", 0.1),
                              ("idle.rss", "broker_anon_mib", 15)):
        value = found[key]
        rows.append({"cell": name, "who": "brokerd", "key": key, "ours": value, "op": "<=",
                     "target": target, "met": value <= target, "wrong": 0, "noisy": False})
    return rows


def medians(what, runs):
    """One line for whoever wants the figures behind the cells."""
    who, run, env = what
    row = {"who": who, "run": " ".join(run), "runs": len(runs.good(what)[0])}
    if env:
        row["env"] = dict(env)
    for key in KEPT:
        value = runs.value(what, key)
        if value is not None:
            row[key] = value
    return row


def number(value):
    if value is None:
        return "-"
    for limit, unit in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def table_line(row):
    best = f"{row['best_peer']} {number(row['best'])}" if "best" in row else "-"
    ours = f"{number(row.get('ours'))} {row.get('key', '')}"
    if row.get("p99_us"):
        ours += f" (p99 {number(row['p99_us'])})"
    ratio = f"{row['ratio']:.3g}" if "ratio" in row else row.get("status", "-")
    met = "yes" if row.get("met") else "no" if "met" in row else "-"
    if met == "no" and row.get("at_limit"):
        met = "no: at the limit"
    if row.get("wrong"):
        met += f", {row['wrong']} wrong"
    goal = "-" if row["target"] is None else f"{row['op']} {row['target']}"
    if "was" in row:
        goal += f" (was {row['was']})"
    return (f"| {row['cell']} | {best} | {ours}{' *' if row.get('noisy') else ''} | {ratio} | "
            f"{goal} | {met} | {number(row.get('limit'))} | {number(row.get('of_limit'))} |")


def print_table(rows):
    print("| cell | best peer | ours | ratio | target | met | limit | of it |\n"
          "|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(table_line(row))


def beside_line(row):
    part = row["beside"]
    best = f"{part['best_peer']} {number(part['best'])}" if "best" in part else "-"
    ours = f"{number(part['ours'])} {row['key']}"
    if part.get("p99_us"):
        ours += f" (p99 {number(part['p99_us'])}, best {number(part['best_p99_us'])})"
    met = "yes" if part.get("met") else "no" if "met" in part else "-"
    if part["wrong"]:
        met += f", {part['wrong']} wrong"
    return (f"| {row['cell']} | {best} | {ours} | {number(part.get('ratio'))} | "
            f"{row['op']} {part['target']} | {met} |")


def print_beside(rows):
    print("\nBeside one busy process a core:\n\n"
          "| cell | best peer | ours | ratio | target | met |\n|---|---|---|---|---|---|")
    for row in rows:
        if "beside" in row:
            print(beside_line(row))


def machine():
    model = ""
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {"cpu": model, "cores": os.cpu_count(), "linux": platform.release().split("-")[0]}


class Table:
    """The rows so far. Each cell is printed and written when it has been measured: a run that is
    cut short keeps what it has."""

    def __init__(self, chosen, options):
        self.options = options
        self.runs = Runs(options, is_beside=False)
        self.beside = Runs(options, is_beside=True)
        self.rows = [{"cell": cell.name, "run": " ".join(cell.run), "key": cell.key,
                      "who": cell.ours, "op": cell.op, "target": None} for cell in chosen]
        self.places = {cell.name: place for place, cell in enumerate(chosen)}

    def report(self, cell):
        row = self.rows[self.places[cell.name]] = row_of(cell, self.runs)
        print(table_line(row), file=sys.stderr, flush=True)
        self.write()

    def report_beside(self, cell):
        row = self.rows[self.places[cell.name]]
        row["beside"] = beside_of(cell, self.beside)
        print(f"beside {beside_line(row)}", file=sys.stderr, flush=True)
        self.write()

    def write(self):
        """The whole file or none of it."""
        if not self.options.json:
            return
        result = {"machine": machine(), "rounds": self.options.rounds,
                  "seconds": self.options.seconds, "cells": self.rows,
                  "medians": [medians(what, self.runs) for what in self.runs.results],
                  "medians_beside": [medians(what, self.beside) for what in self.beside.results]}
        path = pathlib.Path(self.options.json)
        part = path.with_name(path.name + ".part")
        with open(part, "w", encoding="utf-8") as out:
            json.dump(result, out, indent=1)
            out.write("\n")
        part.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peerbench", nargs="?")
    parser.add_argument("--build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--cells", default="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--no-repeat", dest="repeat", action="store_false")
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--beside", choices=("also", "only"))
    parser.add_argument("--json")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    patterns = options.cells.split(",")
    chosen = [cell for cell in cells() if any(fnmatch.fnmatch(cell.name, p) for p in patterns)]
    if options.list:
        for cell in chosen:
            print(f"{cell.name:22} {cell.ours:15} {' '.join(cell.run)}  {cell.key} {cell.op} "
                  f"{cell.target} x {'iceoryx' if cell.peers is IOX else 'the best'}")
        return 0
    if not options.peerbench or not chosen:
        parser.error("PEERBENCH and at least one cell are needed")
    table = Table(chosen, options)
    if options.beside != "only":
        measure(chosen, options, table.runs, table.report)
        table.rows = [row_of(cell, table.runs) for cell in chosen]  # noisy runs were repeated
        table.rows += spread_row(table.rows)
        if options.build and any(fnmatch.fnmatch("idle", p) for p in patterns):
            table.rows += idle_rows(options.build) + idle_client_rows(options.build)
        print_table(table.rows)
    if options.beside:
        with busy_cores(os.cpu_count()):
            measure(chosen, options, table.beside, table.report_beside)
        print_beside(table.rows)
    table.write()
    rows = table.rows
    is_met = all(row.get("met", row["target"] is None) for row in rows)
    is_met_beside = all(row["beside"].get("met", False) for row in rows if "beside" in row)
    return 0 if is_met and is_met_beside else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)  # what was measured is printed and written
