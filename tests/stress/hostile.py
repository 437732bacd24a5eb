#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client that logs in like any other and breaks every rule, beside others that notice nothing.

    hostile.py BUILD [--rounds N] [--seed N] [--only ATTACK,...] [--beside N] [--rate N]

tests/support/hostile/hostile.c does the harm and judges what the broker does about it, attack by attack.
Here: brokerd lives, checkers on ring and stream lose nothing, see no wrong byte and no long
silence, and everything the broker took for the offenders is back when the last of them is gone.
`hostile.py BUILD --rounds 1 --seed N` does the round again that a failure names.
"""
import json
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from death import LATE_MS, at_rest, check_returned
from harness import check, main, patience

PAIRS = (("ring", "ring"), ("stream", "ring"))


def start_checkers(rig, broker, rate):
    checkers = [
        rig.client(
            "test-checker",
            broker.url(publish),
            broker.url(subscribe),
            f"{publish}-{subscribe}",
            *("--rate", str(rate), "--max", "300000"),
        )
        for publish, subscribe in PAIRS
    ]
    for checker in checkers:
        checker.expect("ready")
    return checkers


def stop_checkers(checkers):
    for checker in checkers:
        checker.signal(signal.SIGTERM)
    for checker in checkers:
        report = checker.line(60)
        status = checker.wait()
        print(f"{checker.name}: {report}")
        check(status == 0, f"{checker.name} ended with {status}: {checker.log()}")
        late_ms = json.loads(report)["late_ms"]
        check(late_ms <= patience(LATE_MS), f"{checker.name}: a message took {late_ms} ms")


def attack(rig, broker, options, honest=()):
    """All rounds, as long as nobody else comes to harm; what was done."""
    port = broker.tcp_url.rsplit(":", 1)[1].split("?")[0]
    hostile = rig.client("test-hostile", broker.socket, port, *options)
    while hostile.is_running():
        broker.check_alive()
        for process in honest:
            check(process.is_running(), f"{process.name} has ended: {process.log()}")
        time.sleep(0.05)
    status = hostile.wait()
    check(status == 0, f"test-hostile: {status}: {hostile.log()}")
    return json.loads(hostile.line())


def test(rig, options):
    rounds = int(options.get("rounds", 300))
    seed = int(options.get("seed", time.time_ns() & 0xFFFFFF))
    print(f"seed {seed}", flush=True)
    broker = rig.broker(
        *("-o", "server.workers=2", "-o", "limits.max_mapped_per_session=64M"),
        *("-o", "memory.host.size=256M", "-o", "server.max_message=auto", "-o", "memory.host.segment=16M", "-o", "log.level=error"),
    )
    arguments = ["--beside", options.get("beside", "2")]
    if "only" in options:
        arguments += ["--only", options["only"]]
    # Each link's first use may leave something behind for good, once.
    attack(rig, broker, ["--rounds", "10", "--seed", str(seed - 10), *arguments])
    broker.looked_at()
    with broker.unobserved():
        before = at_rest(broker)  # The one who asks stays connected from here on.
        check_returned(broker, before)

    checkers = start_checkers(rig, broker, int(options.get("rate", 200)))
    # Somebody honest also reads what the offenders publish, whatever that is.
    program = rig.program("broker-ctl")
    reader = rig.start(
        ["sh", "-c", f"exec {program} --url {broker.url('ring')} sub 'hostile.>' > /dev/null"]
    )
    start = time.monotonic()
    arguments += ["--rounds", str(rounds), "--seed", str(seed)]
    done = attack(rig, broker, arguments, [*checkers, reader])
    print(f"{rounds} rounds in {time.monotonic() - start:.1f} s", flush=True)
    ended = done.pop("ended")
    for name, (times, ends, told, text) in sorted(done.items()):
        print(f"  {name:16s} {times:5d} times, {ends:5d} ended, {told:5d} told: {text}")
    reader.kill()
    stop_checkers(checkers)
    with broker.unobserved():
        seconds = check_returned(broker, before, 5)
    print(f"all returned {seconds:.3f} s after the last; {ended} sessions ended for what they did")
    rows = broker.ask("memory")
    left = sum(row["leased_bytes"] + row["quarantined_bytes"] for row in rows)
    check(left == 0, f"leases or quarantined bytes are left: {rows}")
    violations = broker.ask("status")["violations"]
    check(violations > 0 or rounds < 50 or "only" in options, "nothing was counted as a violation")
    broker.stop()


if __name__ == "__main__":
    main(test, 1200, observers=())
