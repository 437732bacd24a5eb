# SPDX-License-Identifier: Apache-2.0
"""The runs of run.py, which says what they are: in the peers' interpreter, with the build's package."""
import contextlib
import fnmatch
import importlib.util
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import gauge
import systems
import table
from board import Board, COUNT, GIL, MEASURE, READY, STOP, WARM, window_of
from cells import FIELDS, SIZES, cell_of, cells, name_of

HERE = pathlib.Path(__file__).resolve().parent
ONE_WAY = ("pubsub", "handover")
READY_SECONDS, END_SECONDS = 30, 30
LOOK_SECONDS = 0.005  # between two looks at the GILs
WARM_SECONDS = 0.2
NOISE = 0.1  # the difference of `others` below which runs count alike


class Failed(Exception):
    """A run that gave no figure."""


def fits(system, cell):
    """Has the system this cell?"""
    workload, _size, readers, form, way = cell
    if workload == "face":
        return system.name == "ambroker"
    return (workload in system.workloads and form in system.forms and way in system.ways
            and (readers == 1 or system.fans))


def missing(system, options):
    """Why it cannot be run here, or None."""
    for need in system.needs:
        if importlib.util.find_spec(need) is None:
            return f"no Python package {need}"
    if system.program and not options.program(system.program):
        return f"no program {system.program}"
    return None


# ---- one run ----

class Party:
    """A measured process."""

    def __init__(self, module, spec, folder):
        self.name, self.slot = spec["role"] + str(spec["slot"]), spec["slot"]
        self.spec = {**spec, "answer": str(folder / f"{self.name}.json")}
        self.log = folder / f"{self.name}.log"
        self._process = None
        if hasattr(module, "launch"):
            import party  # pylint: disable=import-outside-toplevel
            self._process = module.launch(party.main, self.spec)
            self._wait, self._ended = self._process.join, lambda: self._process.exitcode
        else:
            with open(self.log, "wb") as log:
                self._process = subprocess.Popen([sys.executable, str(HERE / "party.py"), json.dumps(self.spec)],
                                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self._wait, self._ended = self._wait_popen, self._process.poll
        self.pid = self._process.pid

    def _wait_popen(self, seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def check(self):
        """Failed where it has ended with an error."""
        if self._ended() not in (None, 0):
            raise Failed(f"{self.name}: {self.last_words()}")

    def last_words(self):
        with contextlib.suppress(OSError):
            lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            if lines:
                return lines[-1]
        return f"status {self._ended()}"

    def answer(self, deadline):
        """Its answer. How it ends behind that is not judged."""
        path = pathlib.Path(self.spec["answer"])
        while not path.exists():
            if self._ended() is not None and not path.exists():
                self.check()
                raise Failed(f"{self.name} has ended without an answer")
            if time.monotonic() > deadline:
                raise Failed(f"{self.name} has not ended: messages were lost, or it waits for ever")
            time.sleep(0.005)
        return json.loads(path.read_text(encoding="utf-8"))

    def end(self):
        self._wait(1)
        if self._ended() is None:
            self._process.kill()
        self._wait(5)


def roles(cell):
    """[role] of its processes; the readers come first, and their slots are 0 and on."""
    return ["sub"] * cell[2] + ["pub"] if cell[0] in ONE_WAY else ["echo", "ping"]


def specs(system, cell, board_path, address):
    workload, size, readers, form, way = cell
    names = roles(cell)
    for slot, role in enumerate(names):
        heard_by = [len(names) - 1] if role == "echo" else list(range(readers))
        yield {"system": system.name, "role": role, "form": form, "way": way, "workload": workload,
               "size": SIZES[size], "window": window_of(SIZES[size], system.window_most), "slot": slot,
               "readers": heard_by, "slots": len(names), "board": str(board_path), "address": address}


def wait_for(condition, parties, seconds, text):
    deadline = time.monotonic() + seconds
    while not condition():
        for party in parties:
            party.check()
        if time.monotonic() > deadline:
            raise Failed(f"not within {seconds} s: {text}")
        time.sleep(0.002)


def run_cell(options, system, cell, folder):
    """The figures of one run."""
    module = systems.module(system.name)
    with contextlib.ExitStack() as stack:
        address, servers = stack.enter_context(module.server(system, folder, options))
        path = folder / "board"
        board = Board(path, len(roles(cell)))
        parties = []
        stack.callback(lambda: [party.end() for party in parties])
        for spec in specs(system, cell, path, address):
            parties.append(Party(module, spec, folder))
        slots = range(len(parties))
        wait_for(lambda: board.all(slots, READY), parties, READY_SECONDS, "ready")
        board.state = WARM
        counted = [slots[-1]] if cell[0] not in ONE_WAY else list(range(cell[2]))
        least = 2 if cell[1] == "64m" else 4
        wait_for(lambda: min(board.get(slot, COUNT) for slot in counted) >= least, parties, READY_SECONDS,
                 "messages")
        time.sleep(WARM_SECONDS)
        board.state = MEASURE
        row = measure(options, board, parties, servers, counted, SIZES[cell[1]])
        board.state = STOP
        deadline = time.monotonic() + END_SECONDS
        answers = {party.name: party.answer(deadline) for party in parties}
    return finish(cell, row, answers)


def measure(options, board, parties, servers, counted, size):
    """Rates from the readers' counters, and what each process took meanwhile."""
    gils = {party.name: gauge.Gil(party.pid, board.get(party.slot, GIL)) for party in parties}
    pids = {**{party.name: party.pid for party in parties},
            **{f"server{i}" if i else "server": pid for i, pid in enumerate(servers)}}
    begin = time.monotonic()
    cpu = {name: gauge.cpu_seconds(pid) for name, pid in pids.items()}
    own, machine = sum(os.times()[:4]), gauge.machine_seconds()
    counts = {slot: board.counted(slot) for slot in counted}
    seconds = options.seconds * (3 if size > 16 << 20 else 1)

    def is_over():
        """A machine that is very busy may not run them at all meanwhile. Two: one was begun before."""
        passed = time.monotonic() - begin
        return passed > seconds + READY_SECONDS or (
            passed >= seconds and all(board.counted(slot)[0] >= counts[slot][0] + 2 for slot in counted))
    while not is_over():
        time.sleep(LOOK_SECONDS)
        for gil in gils.values():
            gil.look()
    rates, messages = [], 0
    for slot, (count, at) in counts.items():
        now, then = board.counted(slot)
        messages += now - count
        rates.append((now - count) / ((then - at) / 1e9) if then > at else 0)
    wall = time.monotonic() - begin
    cpu = {name: round(gauge.cpu_seconds(pids[name]) - before, 3) for name, before in cpu.items()}
    machine = gauge.machine_seconds() - machine
    own = sum(os.times()[:4]) - own
    others = max(0.0, machine - own - sum(cpu.values())) / wall / os.cpu_count()
    for gil in gils.values():
        gil.close()
    rss = {name: gauge.peak_mib(pid) for name, pid in pids.items()}
    return {"msgs_per_s": sum(rates), "mb_per_s": sum(rates) * size / 1e6, "messages": messages,
            "wall_s": round(wall, 3), "cpu_s": cpu, "rss_mib": rss,
            "gil": {name: gil.share() for name, gil in gils.items()}, "others": round(others, 3)}


def finish(cell, row, answers):
    """With the parties' own counts."""
    for field in ("lost", "disordered", "damaged"):
        row[field] = sum(answer.get(field, 0) for answer in answers.values())
    if cell[0] not in ONE_WAY:
        ping = next(answer for name, answer in answers.items() if name.startswith("ping"))
        if not ping["turns"]:
            raise Failed("no round trip was measured")
        row.update({key: ping[key] for key in ("p50_us", "p99_us", "p999_us", "turns")})
        for key in ("msgs_per_s", "mb_per_s"):
            row[key] *= 2  # there and back
    row["cpu_s_per_mmsg"] = round(sum(row["cpu_s"].values()) / row["messages"] * 1e6, 3) if row["messages"] else None
    return row


def run_face(options, cell, folder):
    """The same cell in C, by broker-bench."""
    command = [options.program("broker-bench"), "throughput", "--size", str(SIZES[cell[1]]), "--seconds",
               str(options.seconds * (3 if cell[1] == "64m" else 1)), "--brokerd", options.program("brokerd"),
               "-o", "json", *(["--touch"] if SIZES[cell[1]] > 4096 else []),
               *(["--lease"] if cell[4] == "lease" else [])]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60, check=False)
    if done.returncode != 0:
        raise Failed((done.stderr.strip() or "broker-bench fails").splitlines()[-1])
    said = json.loads(done.stdout)
    return {"msgs_per_s": float(said["msgs_per_s"]), "mb_per_s": float(said["mb_per_s"]), "lost": said["lost"],
            "disordered": said["disorder"], "damaged": said["corrupt"], "others": float(said["others"])}


# ---- rounds ----

def run(options, system, cell):
    """A row: its figures, or `not run` and why."""
    row = dict(zip(FIELDS, cell)) | {"system": system.name}
    why = missing(system, options)
    if why:
        return row | {"not run": why}
    if options.keep:
        folder = pathlib.Path(options.keep) / f"{name_of(cell)}.{system.name}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        place = contextlib.nullcontext(folder)
    else:
        place = tempfile.TemporaryDirectory(prefix="amb-pybench-")
    with place as folder:
        try:
            if cell[0] == "face":
                return row | run_face(options, cell, pathlib.Path(folder))
            return row | run_cell(options, system, cell, pathlib.Path(folder))
        except (Failed, ImportError, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            return row | {"not run": f"{type(error).__name__}: {error}"}


def merged(rows):
    """The row of all rounds: medians of the figures of those with the least work of others beside them, the worst of
    counts, the rest of the first."""
    ran = [row for row in rows if "not run" not in row]
    if not ran:
        return rows[0]
    whole = [row for row in ran if table.noise(row) <= min(map(table.noise, ran)) + NOISE]
    out = dict(whole[0])
    for key, value in out.items():
        values = [row[key] for row in whole if isinstance(row.get(key), (int, float))]
        if key in ("lost", "disordered", "damaged"):
            out[key] = max(row[key] for row in ran)
        elif isinstance(value, float) and values:
            out[key] = statistics.median(values)
    out["rounds"] = len(whole)
    failed = next((row["not run"] for row in rows if "not run" in row), None)
    return out | ({"failed": failed} if failed else {})


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                  if line.startswith("model name")), platform.machine())
    return {"processor": model, "cores": os.cpu_count(), "system": platform.platform(),
            "python": platform.python_version(), "date": time.strftime("%Y-%m-%d")}


def versions(options):
    """Of what is measured."""
    from importlib import metadata  # pylint: disable=import-outside-toplevel
    out = {}
    for name in ("pyzmq", "redis", "hiredis", "nats-py", "pynng", "eclipse-zenoh", "iceoryx2", "ucxx-cu12",
                 "libucx-cu12", "distributed", "numpy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            out[name] = metadata.version(name)
    for name in ("nats-server", "redis-server"):
        program = options.program(name)
        if program:
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
            out[name] = " ".join(said.split()[:3])
    return out


def line_of(row):
    """A row for somebody who watches."""
    head = f"{name_of(cell_of(row))} {row['system']}"
    if "not run" in row:
        return f"{head}: not run: {row['not run']}"
    rate = f"{row['p50_us']} us" if "p50_us" in row else f"{row['msgs_per_s']:.4g}/s, {row['mb_per_s']:.4g} MB/s"
    bad = "".join(f", {row[key]} {key}" for key in ("lost", "disordered", "damaged") if row[key])
    return f"{head}: {rate}, CPU {row.get('cpu_s')}, GIL {row.get('gil')}, others {row['others']}{bad}"


class Options:
    """The command line, and where programs are."""

    def __init__(self, args):
        self.build, self.seconds, self.keep = args.build.resolve(), args.seconds, args.keep
        os.environ["AMBROKER_BIN"] = str(self.build / "broker")

    def program(self, name):
        """Its path, or None."""
        for folder in ("broker", "tools"):
            if (self.build / folder / name).exists():
                return str(self.build / folder / name)
        return shutil.which(name)


def key_of(row):
    return *cell_of(row), row["system"]


def measure_all(args, options):
    """Yields the rows as they are after each run."""
    chosen = [cell for cell in cells() if any(fnmatch.fnmatch(name_of(cell), one) for one in args.cells.split(","))]
    names = [system for system in systems.every().values()
             if any(fnmatch.fnmatch(system.name, one) for one in args.systems.split(","))]
    runs = {}
    for _ in range(args.rounds):
        for cell in chosen:
            for system in names:
                if fits(system, cell):
                    row = run(options, system, cell)
                    print(line_of(row), file=sys.stderr, flush=True)
                    runs.setdefault((cell, system.name), []).append(row)
                    yield [merged(rows) for rows in runs.values()]


def added(before, rows):
    """The rows of a file with new ones. An older row stays where it was the cleaner one, or where the new one has not
    run; what was lost or damaged in either is kept."""
    old = {key_of(row): row for row in before}
    for row in rows:
        key = key_of(row)
        other = old.get(key)
        if other is None or "not run" in other:
            old[key] = row
        elif "not run" not in row:
            old[key] = merged([other, row]) | {"rounds": other.get("rounds", 1) + row.get("rounds", 1)}
    return list(old.values())


def measure_and_show(args):
    """The exit status."""
    options = Options(args)
    said = {"machine": machine(), "versions": versions(options), "rows": []}
    before = []
    if args.add and args.json and args.json.exists():
        before = json.loads(args.json.read_text(encoding="utf-8"))["rows"]
    rows = []
    for rows in measure_all(args, options):
        said["rows"] = added(before, rows)
        if args.json:
            args.json.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    print(table.text(said["rows"]))
    return int(any(table.is_bad(row) for row in rows))
