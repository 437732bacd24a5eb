#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The workloads of the systems that Ambroker's features come from, beside these systems.

    seeds.py BUILD [--json FILE] [--rounds 5] [--sizes 64,65536,1048576,10000000] [--links NAME,...]
             [--memory host,cuda] [--parts sendrecv,shuffle,near] [--perftest PATH]
             [--python PATH] [--quick] [--fake]

  sendrecv  two parties, a message there and one back: broker-bench sendrecv on each link beside
            ucx_perftest and ucxx.benchmarks.send_recv (by its core, and by asyncio). Each of ours
            has the broker between the parties, theirs are connected to each other.
  shuffle   workers that exchange partitions, each with all others: broker-bench shuffle. Their
            program needs cuDF, and GPUs.
  near      a group of two members on rings and two that are remote by their link, topics.prefer =
            "credit" and "near": who gets the messages, and what that costs the broker.

In a round all systems take their turn at a size before the next size begins; the tables have
medians of the rounds. A system that is not here has a row, too: "not run" and why. --perftest: else
the one of the build's UCX, else the one in PATH. --python: an interpreter that has ucxx, as of a virtual
environment in which `pip install ucxx-cu12 numpy` has run. --memory cuda needs a GPU; with --fake it runs on the fake driver, whose figures say nothing. --quick: one
round, few iterations, to try this script. Exit status 1: one of ours failed; a peer that is here and
fails has a row that says so.
"""
import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import Failure, Rig, check, until
from rates import free_ports
from target import OTHERS_MAX, machine, number

LINKS = ("ring", "stream", "ucx")
PARTS = ("sendrecv", "shuffle", "near")
SIZES = "64,65536,1048576,10000000"
WORKERS = 4
# How a message reaches its party: where libamb has it, or memory of the party's own, as theirs do.
PLACES = {"in place": [], "own memory": ["--reuse-alloc"]}
# ucx_perftest's and ucxx's transports, as UCX_TLS has them. ucxx needs TCP to connect, and UCX has no
# shared memory for endpoints that handle errors.
TRANSPORTS = {"shm": "sm,self", "tcp": "tcp,self"}
UCXX_TRANSPORTS = {"shm": ("sm,tcp,self", ["--no-error-handling"]), "tcp": ("tcp,self", [])}
# Its fastest way, and the one that a program gets that says nothing, which does without shared memory.
UCXX = {"ucxx-core": ["--backend", "ucxx-core", "--progress-mode", "polling"],
        "ucxx-async": ["--backend", "ucxx-async"]}
TOTAL_BYTES = 2e9  # of one sendrecv, at most
GPU = ("memory.cuda.size=1G",)
FAKE_GPU = ("memory.cuda.size=64M", "memory.cuda.devices=0")
# near: messages of this size, at that rate, and as fast as they go
NEAR = ((1024, 5000), (1024, None), (65536, 1000), (65536, None))
NEAR_SECONDS = 2
CREDIT = 800
LATENCY, MB, ROUND = "latency_us", "mb_per_s", "round_ms"
SHOWN = {"sendrecv": (LATENCY, MB), "shuffle": (ROUND, MB),
         "near": ("near_share", "msgs_per_s", "broker_us")}
KEYS = ("part", "system", "link", "memory", "place", "size", "rate")


class NotHere(Exception):
    """The system cannot be run on this machine."""


# ---- results of others ----

def read_perftest(text):
    """Microseconds of one way, the median: the second column of -f -v's last line. Columns: iterations,
    percentile (-R), average, overall latency; then bandwidths and rates."""
    lines = [line for line in text.splitlines() if re.match(r"\s*\d+,", line)]
    check(lines, f"ucx_perftest says nothing: {text[-300:]}")
    return float(lines[-1].split(",")[1])


SCALES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
          "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9}
UNITS_US = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}


def read_ucxx(text):
    """The medians of ucxx.benchmarks.send_recv: microseconds of one way, MB/s."""
    latency = re.search(r"Latency \(median\)\s*\|\s*([\d.]+) ?(ns|us|ms|s)\b", text)
    rate = re.search(r"Bandwidth \(median\)\s*\|\s*([\d.]+) ?([KkMGT]?i?B)/s", text)
    check(latency and rate, f"ucxx says no medians: {text[-300:]}")
    return {LATENCY: float(latency[1]) * UNITS_US[latency[2]],
            MB: float(rate[1]) * SCALES[rate[2]] / 1e6}


# ---- systems ----

def iterations(size, options):
    """Enough for a median, and not more bytes than a run should move."""
    return 5 if options.quick else max(10, min(20000, int(TOTAL_BYTES / 2 / size)))


def run(command, env=None, seconds=60):
    """Its output. It ends in time, and so do processes of its own."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True, env={**os.environ, **(env or {})}) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)  # It has not been waited for: the group is its.
            raise Failure(f"{' '.join(command)}: has not ended in {seconds} s") from error
    check(process.returncode == 0, f"{' '.join(command)}: {process.returncode}: {(err or out)[-500:]}")
    return out


def cuda_env(options):
    if not options.fake:
        return {}
    return {"AMB_CUDA_LIBRARY": str(options.build / "tests/fakecuda/libfakecuda.so"),
            "FAKECUDA_MEMORY": "1G", "FAKECUDA_MACHINE": str(options.folder / "machine")}


def need_gpu(options):
    """Once: whether broker-bench can use one."""
    if options.gpu is None:
        done = subprocess.run([bench_of(options), "copies", "--memory", "cuda", "--size", "64k",
                               "--seconds", "0.01"], capture_output=True, text=True, check=False,
                              timeout=120, env={**os.environ, **cuda_env(options)})
        options.gpu = "" if done.returncode == 0 else done.stderr.strip() or "no GPU"
    if options.gpu:
        raise NotHere(options.gpu.removeprefix("broker-bench: "))


def bench_of(options):
    return str(options.build / "tools/broker-bench")


def ours(options, cell, *arguments):
    """A result of broker-bench on a broker of its own."""
    command = [bench_of(options), cell["part"], "--link", cell["link"], "--n-bytes",
               str(cell["size"]), "--brokerd", str(options.build / "broker/brokerd"), "-o", "json",
               *arguments]
    env = {}
    if cell["memory"] == "cuda":
        need_gpu(options)
        env = cuda_env(options)
        command += ["--memory", "cuda"]
        for setting in FAKE_GPU if options.fake else GPU:
            command += ["--broker-option", setting]
    result = json.loads(run(command, env))
    check(result["status"] == "ok" and result["corrupt"] == 0, f"{' '.join(command)}: {result}")
    return result


def sendrecv_ours(options, cell):
    count = iterations(cell["size"], options)
    result = ours(options, cell, "--n-iter", str(count), "--n-warmup-iter",
                  str(max(2, count // 10)), *PLACES[cell["place"]])
    return {LATENCY: result["latency_us_median"], MB: result["mb_per_s_median"],
            "path": result["path"], "others": result["others"]}


def listens(port):
    """Whether somebody on this machine waits for connections there; none is made."""
    rows = [line.split() for name in ("tcp", "tcp6")
            for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def perftest_of(options):
    beside = [folder / "deps/ucx/bin/ucx_perftest"
              for folder in (options.build, *options.build.parents)]
    found = options.perftest or next((str(path) for path in beside if path.exists()), None)
    found = found or shutil.which("ucx_perftest")
    if found is None:
        raise NotHere("no ucx_perftest (Debian: ucx-utils)")
    return found


def library_of(program):
    """The libucp beside a ucx_perftest that is not the system's."""
    path = pathlib.Path(program).resolve().parents[1] / "lib/libucp.so.0"
    return path if path.exists() else None


def sendrecv_perftest(options, cell):
    """A ping-pong of active messages, as ours are."""
    program = perftest_of(options)
    if cell["memory"] == "cuda" and (options.fake or need_gpu(options)):
        raise NotHere("UCX knows no fake driver")
    count = iterations(cell["size"], options)
    port = str(free_ports(1)[0])
    library = library_of(program)
    env = {"UCX_TLS": TRANSPORTS[cell["link"]], "UCX_NET_DEVICES": "lo",
           "UCX_WARN_UNUSED_ENV_VARS": "n"}
    if library is not None:
        env["LD_LIBRARY_PATH"] = str(library.parent)
    if cell["memory"] == "cuda":
        env["UCX_TLS"] += ",cuda"
    command = [program, "-t", "ucp_am_lat", "-s", str(cell["size"]), "-n", str(count), "-w",
               str(max(2, count // 10)), "-m", cell["memory"], "-R", "50", "-f", "-v", "-p", port]
    with Rig(options.build, 150) as rig:
        server = rig.start(command, env=env)
        until(20, lambda: listens(int(port)) or not server.is_running(), "ucx_perftest listens")
        text = run([*command[:1], "127.0.0.1", *command[1:]], env)
    latency = read_perftest(text)
    return {LATENCY: latency, MB: cell["size"] / latency}


def python_of(options):
    return options.python or sys.executable


def need_ucxx(options):
    if options.ucxx is None:
        done = subprocess.run([python_of(options), "-c", "import ucxx.benchmarks.send_recv as _, ucxx;"
                               "print(ucxx.__version__)"],
                              capture_output=True, text=True, check=False, timeout=60)
        lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
        options.ucxx = (done.returncode == 0, lines[-1] if lines else python_of(options))
    if not options.ucxx[0]:
        raise NotHere(f"no ucxx: {options.ucxx[1]}")
    return options.ucxx[1]


def sendrecv_ucxx(options, cell):
    need_ucxx(options)
    kind = "numpy"
    if cell["memory"] == "cuda":
        if options.fake:
            raise NotHere("ucxx knows no fake driver")
        need_gpu(options)
        kind = "cupy"
    count = iterations(cell["size"], options)
    tls, handling = UCXX_TRANSPORTS[cell["link"]]
    tls += ",cuda" if cell["memory"] == "cuda" else ""
    return read_ucxx(run(
        [python_of(options), "-m", "ucxx.benchmarks.send_recv", *UCXX[cell["system"]], *handling,
         "--object_type", kind, "--reuse-alloc", "--no-detailed-report", "--n-bytes", str(cell["size"]), "--n-iter",
         str(count), "--n-warmup-iter", str(max(2, count // 10)), "--server-address", "127.0.0.1"],
        {"UCX_TLS": tls, "UCX_WARN_UNUSED_ENV_VARS": "n"}))


def shuffle_ours(options, cell):
    rounds = 3 if options.quick else max(5, min(200, int(TOTAL_BYTES / 12 / cell["size"])))
    result = ours(options, cell, "--workers", str(WORKERS), "--n-iter", str(rounds),
                  "--n-warmup-iter", str(max(1, rounds // 10)))
    return {ROUND: result["round_ms_median"], MB: result["mb_per_s_median"], "path": result["path"],
            "others": result["others"]}


def shuffle_dask(options, cell):
    raise NotHere("dask_cuda.benchmarks.local_cudf_merge needs cuDF, dask-cuda and a GPU a worker")


# ---- near ----

def near(options, cell):
    """A group's messages by its preference, cell["system"]."""
    count = int((cell["rate"] or 5e4 * 1024 / cell["size"]) * NEAR_SECONDS)
    count = 200 if options.quick else count
    with Rig(options.build, 150) as rig:
        config = rig.folder / "broker.conf"
        config.write_text(f'topics = ( {{ match = "group"; prefer = "{cell["system"]}"; }} );\n')
        broker = rig.broker("--config", str(config), "-o", "server.workers=2")
        # Remote by their link, and of the same user as those on rings.
        remote = f"{broker.url()}?link=ucx"
        members = [rig.client("test-member", url, "group", "g", CREDIT)
                   for url in (broker.url(), broker.url(), remote, remote)]
        for member in members:
            member.expect("ready")

        def row():
            return next(q for q in broker.ask("queues") if q["pattern"] == "group")

        rate = ["--rate", str(cell["rate"])] if cell["rate"] else []
        cpu, start = broker.cpu_seconds(), time.monotonic()
        publisher = rig.start([rig.program("broker-ctl"), "--url", broker.url(), "pub", "group",
                               "--count", str(count), "--size", str(cell["size"]), *rate])
        check(publisher.wait(100) == 0, publisher.log())
        until(100, lambda: row()["delivered"] == count and row()["pending"] == 0, "all is delivered")
        seconds, cpu = time.monotonic() - start, broker.cpu_seconds() - cpu
        share = 1 - row()["delivered_remote"] / count
        for member in members:
            member.end_input()
            check(member.wait() == 0, member.log())
        broker.stop()
    return {"near_share": share, "msgs_per_s": count / seconds, "broker_us": cpu * 1e6 / count}


RUN = {"ambroker": {"sendrecv": sendrecv_ours, "shuffle": shuffle_ours},
       "ucx_perftest": {"sendrecv": sendrecv_perftest}, "ucxx-core": {"sendrecv": sendrecv_ucxx},
       "ucxx-async": {"sendrecv": sendrecv_ucxx},
       "dask-cuda": {"shuffle": shuffle_dask}, "credit": {"near": near}, "near": {"near": near}}


OURS = ("ambroker", "credit", "near")


# ---- the run ----

def cells_of(options):
    """All cells, a size at a time: within it each system once."""
    for part in options.parts:
        if part == "near":
            for size, rate in NEAR:
                for system in ("credit", "near"):
                    yield {"part": part, "system": system, "size": size, "rate": rate,
                           "link": "ring+ucx"}
            continue
        for memory in options.memory:
            for size in options.sizes:
                yield from exchange_cells(options, part, memory, size)


def exchange_cells(options, part, memory, size):
    places = PLACES if part == "sendrecv" else ["in place"]
    for link in options.links:
        for place in places:
            yield {"part": part, "system": "ambroker", "link": link, "memory": memory,
                   "place": place, "size": size}
    for system, parts in RUN.items():
        if system != "ambroker" and part in parts:
            links = ["-"] if part != "sendrecv" else ["tcp"] if system == "ucxx-async" else TRANSPORTS
            for link in links:
                yield {"part": part, "system": system, "link": link, "memory": memory,
                       "place": "own memory", "size": size}


def has_link(options, link):
    version = run([str(options.build / "broker/brokerd"), "--version"])
    return link != "ucx" or "without UCX" not in version


class Cell:
    """Its rounds so far."""

    def __init__(self, what):
        self.what, self.runs, self.not_run, self.failed = what, [], None, None

    def measure(self, options):
        if self.not_run is not None:
            return
        part = RUN[self.what["system"]][self.what["part"]]
        try:
            if "ucx" in self.what["link"] and not has_link(options, "ucx"):
                raise NotHere("built without UCX")
            self.runs.append(part(options, self.what))
        except NotHere as error:
            self.not_run = str(error)
        except (Failure, json.JSONDecodeError) as error:
            self.failed = str(error)[-500:]
            print(f"{self.what}: {error}", file=sys.stderr)

    def row(self):
        row = {key: self.what[key] for key in KEYS if self.what.get(key) is not None}
        row["runs"] = len(self.runs)
        for key in SHOWN[self.what["part"]]:
            values = [run[key] for run in self.runs]
            if values:
                row[key] = float(f"{statistics.median(values):.4g}")
        for run_ in self.runs[-1:]:
            row.update({"path": run_["path"]} if "path" in run_ else {})
        row["noisy"] = any(run.get("others", 0) > OTHERS_MAX for run in self.runs)
        row["status"] = ("failed" if self.failed else "not run" if self.not_run else "ok")
        if self.failed or self.not_run:
            row["why"] = self.failed or self.not_run
        return row


def print_tables(rows):
    for part in PARTS:
        chosen = [row for row in rows if row["part"] == part]
        if not chosen:
            continue
        shown = SHOWN[part]
        head = ("system", "link", "memory", "place", "size", "rate")
        head = [key for key in head if any(key in row for row in chosen)]
        print(f"\n{part}\n\n| {' | '.join((*head, *shown))} | |\n|{'---|' * (len(head) + len(shown) + 1)}")
        for row in chosen:
            words = [str(row.get(key, "-")) for key in head]
            words += [number(row.get(key)) for key in shown]
            note = f"{row['status']}: {row['why'][:80]}" if "why" in row else (
                "beside other work" if row["noisy"] else "")
            print(f"| {' | '.join(words)} | {note} |")


def release_of(library):
    """Of a UCX, as its library tells it; None: it cannot be loaded."""
    try:
        version = ctypes.CDLL(str(library)).ucp_get_version_string
    except OSError:
        return None
    version.restype = ctypes.c_char_p
    return version().decode()


def ucx_of_perftest(options):
    with contextlib.suppress(NotHere):
        return release_of(library_of(perftest_of(options)) or "libucp.so.0")
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--links", default=",".join(LINKS))
    parser.add_argument("--memory", default="host,cuda")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--perftest")
    parser.add_argument("--python")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--fake", action="store_true")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.rounds < 1:  # Rows of no run would say that all is well.
        parser.error("--rounds: 1 or more")
    try:
        options.sizes = [int(size) for size in options.sizes.split(",")]
    except ValueError:
        parser.error("--sizes: bytes, as 64,65536")
    options.gpu = options.ucxx = None
    for name, known in (("links", LINKS), ("memory", ("host", "cuda")), ("parts", PARTS)):
        chosen = getattr(options, name).split(",")
        if not set(chosen) <= set(known):
            parser.error(f"--{name}: some of {','.join(known)}")
        setattr(options, name, chosen)
    with tempfile.TemporaryDirectory() as folder:
        options.folder = pathlib.Path(folder)
        cells = [Cell(what) for what in cells_of(options)]
        for turn in range(1 if options.quick else options.rounds):
            start = time.monotonic()
            for cell in cells:
                cell.measure(options)
            print(f"round {turn + 1}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    rows = [cell.row() for cell in cells]
    print_tables(rows)
    if options.json:
        result = {"machine": machine(), "rounds": options.rounds, "fake": options.fake,
                  "ucx_of_perftest": ucx_of_perftest(options),
                  "ucxx": options.ucxx[1] if options.ucxx and options.ucxx[0] else None,
                  "rows": rows}
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(result, out, indent=1)
            out.write("\n")
    return 1 if any(row["status"] == "failed" and row["system"] in OURS for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
