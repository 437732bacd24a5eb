# SPDX-License-Identifier: Apache-2.0
"""No effect waits for the next heartbeat: tests/integration/promptness.c against real brokers.

    promptness_test.py [--rounds N] [--tries N] [--cases NAME,NAME]
"""

from harness import check

CASES = ("delivered", "named", "post", "beside-named", "beside-nowait", "beside-send", "beside-flush",
         "drain", "poll-send", "poll-flush", "poll-open", "poll-request", "burst", "crowd")
ALONE = ("crowd",)  # all of its sessions on one worker
SECONDS = 280


def run(rig, workers, cases, arguments):
    broker = rig.broker("-o", f"server.workers={workers}")
    program = rig.client("test-promptness", broker.url("ring"), broker.url("stream"), *arguments, *cases)
    while True:
        line = program.line(SECONDS)
        if line == "end":
            break
        print(line, flush=True)
    is_good = program.wait() == 0
    broker.check_alive()
    broker.stop()
    return is_good


def test_nothing_comes_late(rig, options):
    chosen = options.get("cases", ",".join(CASES)).split(",")
    check(set(chosen) <= set(CASES), f"cases are {', '.join(CASES)}")
    arguments = []
    for name in ("rounds", "tries"):
        if name in options:
            arguments += [f"--{name}", options[name]]
    is_good = True
    for workers, cases in ((2, [name for name in chosen if name not in ALONE]),
                           (1, [name for name in chosen if name in ALONE])):
        if cases:
            is_good = run(rig, workers, cases, arguments) and is_good
    check(is_good, "something came late")
