# SPDX-License-Identifier: Apache-2.0
"""broker-bench sendrecv and shuffle: whole messages on each link, from host memory and from that of a
GPU (the fake driver), and wrong ones are seen.

    exchange_test.py [--links ring,stream,ucx]"""
import json
import pathlib
import subprocess
import sys

import pytest

from harness import Failure, check, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import seeds  # noqa: E402

SMALL = {"host": "64", "cuda": "4"}
MIDDLE = "100k"
GPU = ("memory.cuda.size=64M", "memory.cuda.devices=0", "memory.host.size=256M", "server.max_message=64M")
WAYS = ([], ["--copy"], ["--reuse-alloc"], ["--lease"], ["--post", "--reuse-alloc"])


def begin(rig, build, link, memory):
    """A broker, and the words that all runs on it have."""
    words = []
    if memory == "cuda":
        library = build / "tests/fakecuda/libfakecuda.so"
        if not library.exists():
            pytest.skip("built without CUDA")
        rig.env |= {"AMB_CUDA_LIBRARY": str(library), "FAKECUDA_MEMORY": "1G",
                    "FAKECUDA_MACHINE": str(rig.folder / "machine")}
        words = ["--memory", "cuda"]
    broker = rig.broker(*(word for key in (GPU if words else ()) for word in ("-o", key)))
    return broker, ["--url", broker.url(link), "--link", link, "--detailed-report", "-o", "json", *words]


def bench(rig, *arguments):
    """Its result; it ends well."""
    run = rig.client("broker-bench", *arguments)
    lines = run.all_lines(120)
    check(run.wait() == 0 and len(lines) == 1, f"{arguments}: {lines} {run.log()}")
    return json.loads(lines[0])


def check_figures(result, rounds, key):
    check(result["status"] == "ok" and result["corrupt"] == 0 and result["path"], f"{result}")
    check(result["iterations"] == rounds == len(result["iteration"]), f"{result}")
    times = sorted(row["us"] for row in result["iteration"])
    check(0 < times[0] and abs(sum(times) / 1e6 - result["total_s"]) < 1e-3 * result["total_s"],
          f"the iterations are not the total: {result}")
    check(times[0] <= result[key + "_median"] * (2 if key == "latency_us" else 1000) * 1.001 and
          result["mb_per_s"] > 0 and result["mb_per_s_median"] > 0, f"{result}")


def ways(link, memory, chosen):
    """GPU memory is leased on a ring alone."""
    return [way for way in chosen if "--lease" not in way or memory == "host" or link == "ring"]


@pytest.mark.parametrize("memory", ("host", "cuda"))
def test_sendrecv_brings_whole_messages(rig, build, link, memory):
    broker, words = begin(rig, build, link, memory)
    place = {"--copy": "own, fresh", "--reuse-alloc": "own, reused"}
    for size, way in [(SMALL[memory], []), ("3m", []), *((MIDDLE, way) for way in ways(link, memory, WAYS))]:
        result = bench(rig, "sendrecv", "--n-bytes", size, "--n-iter", 6, "--n-warmup-iter", 1, "--touch",
                       *way, *words)
        check_figures(result, 6, "latency_us")
        check(result["receive"] == place.get(way[-1] if way else "", "in place"), f"{result}")
    broker.stop()


@pytest.mark.parametrize("memory", ("host", "cuda"))
def test_shuffle_brings_every_partition(rig, build, link, memory):
    broker, words = begin(rig, build, link, memory)
    both = ways(link, memory, ([], ["--lease"]))
    for size, way in [(SMALL[memory], []), ("3m", []), *((MIDDLE, way) for way in both)]:
        result = bench(rig, "shuffle", "--workers", 3, "--n-bytes", size, "--n-iter", 4,
                       "--n-warmup-iter", 1, *way, *words)
        check_figures(result, 4, "round_ms")
    broker.stop()


def test_shuffle_sees_a_message_that_is_no_partition(rig):
    broker = rig.broker()
    run = rig.client("broker-bench", "shuffle", "--url", broker.url(), "--workers", 2, "--n-bytes",
                     "64", "--n-iter", 10000, "-o", "json")
    until(20, lambda: any(row["pattern"] == "bench.0.*" for row in broker.ask("subs")),
          "worker 0 listens")
    stray = rig.client("broker-ctl", "--url", broker.url(), "pub", "bench.0.1", "--size", "64")
    check(stray.wait() == 0, stray.log())
    result = json.loads(run.all_lines(120)[0])
    check(result["status"] == "wrong bytes" and result["corrupt"] > 0, f"{result}")
    broker.stop()


def test_wrong_arguments_are_refused(rig):
    for words in (("sendrecv", "--n-iter", "0"), ("sendrecv", "--n-iter", "-1"),
                  ("sendrecv", "--n-bytes", "8"), ("shuffle", "--workers", "1"),
                  ("shuffle", "--workers", "17"), ("shuffle", "--n-warmup-iter", "x"),
                  ("shuffle", "--reuse-alloc"), ("throughput", "--reuse-alloc"),
                  ("shuffle", "--memory", "cuda", "--n-bytes", "6")):
        run = rig.client("broker-bench", *words)
        check(run.wait() == 64 and run.log().startswith("broker-bench: "), f"{words}: {run.log()}")


PERFTEST = """iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
100,4.000,9.1,9.1,0.31,0.09,5006,1440
1000,3.946,199.774,694.289,0.31,0.09,5006,1440
"""
UCXX = """Bandwidth (average)       | 8.94 MiB/s
Bandwidth (median)        | 2.00 GiB/s
Latency (average)         | 6830 ns
Latency (median)          | 6414 ns
"""


def test_a_table_of_no_runs_is_refused(build):
    for words in (("--rounds", "0"), ("--sizes", ""), ("--sizes", "64k"), ("--parts", "all"), ("--links", "")):
        done = subprocess.run([sys.executable, seeds.__file__, str(build), "--quick", "--parts", "near", *words],
                              capture_output=True, text=True, check=False, timeout=60)
        check(done.returncode == 2 and words[0] in done.stderr.splitlines()[-1], f"{words}: {done}")


def test_medians_of_peers_are_read():
    """Of tests/bench/seeds.py, from words of UCX 1.22 and UCXX 0.52."""
    check(seeds.read_perftest(PERFTEST) == 3.946, "the median of the last line")
    read = seeds.read_ucxx(UCXX)
    check(abs(read["latency_us"] - 6.414) < 1e-9 and abs(read["mb_per_s"] - 2147.483648) < 1e-6, f"{read}")
    for text in ("", "iterations,50.0_percentile_lat\n", "Latency (median)  | 3 ns\n"):
        for reader in (seeds.read_perftest, seeds.read_ucxx):
            with pytest.raises(Failure):
                reader(text)
