# SPDX-License-Identifier: Apache-2.0
"""No effect waits for the next heartbeat: tests/integration/promptness.c against real brokers, alone and
beside one busy process a core.

    promptness_test.py [--rounds N] [--tries N] [--late MS] [--cases NAME,NAME]
"""
import os
import pathlib
import re
import sys

from harness import check

CASES = ("delivered", "named", "post", "beside-named", "beside-nowait", "beside-send", "beside-flush",
         "drain", "lease", "poll-send", "poll-flush", "poll-open", "poll-request", "burst", "crowd")
ALONE = ("crowd",)  # all of its sessions on one worker
SECONDS = 280
LATE_BESIDE_MS = 25  # and two slices: of the one that runs, and of the other one that is ahead


def run(rig, workers, cases, arguments):
    broker = rig.broker("-o", f"server.workers={workers}")
    program = rig.client("test-promptness", broker.url("ring"), broker.url("stream"), "--broker",
                         broker.pid, *arguments, *cases)
    while True:
        line = program.line(SECONDS)
        if line == "end":
            break
        print(line, flush=True)
    is_good = program.wait() == 0
    broker.check_alive()
    broker.stop()
    return is_good


def run_all(rig, options):
    chosen = options.get("cases", ",".join(CASES)).split(",")
    check(set(chosen) <= set(CASES), f"cases are {', '.join(CASES)}")
    arguments = []
    for name in ("rounds", "tries", "late"):
        if name in options:
            arguments += [f"--{name}", options[name]]
    is_good = True
    for workers, cases in ((2, [name for name in chosen if name not in ALONE]),
                           (1, [name for name in chosen if name in ALONE])):
        if cases:
            is_good = run(rig, workers, cases, arguments) and is_good
    check(is_good, "something came late")


def slice_ms():
    """Of the scheduler: Linux says it since 6.6. 3 ms were measured before."""
    try:
        text = pathlib.Path("/proc/self/sched").read_text(encoding="utf-8")
    except OSError:
        return 3
    found = re.search(r"^se\.slice\s*:\s*(\d+)", text, re.M)
    return int(found.group(1)) / 1e6 if found else 3


def test_nothing_comes_late(rig, options):
    run_all(rig, options)


def test_nothing_comes_late_beside_busy_cores(rig, options):
    busy = [rig.start([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    run_all(rig, {"late": LATE_BESIDE_MS + 2 * slice_ms(), **options})
    check(all(process.is_running() for process in busy), "nothing kept the cores busy")
