#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of clients at random phases on every link, while others notice nothing.

    death.py BUILD [--rounds N] [--seed N] [--links ring,stream,ucx,tls] [--phases lease,hold]

Checkers publish and receive checked messages all the time and watch what the victims publish:
they must lose nothing, see no wrong byte and no long silence. After the last death everything the
broker took for the victims (descriptors, sessions, segment bytes) is back within a second.
"""
import json
import pathlib
import random
import signal
import sys
import time
from collections import Counter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import LINKS, Failure, Victims, check, main, patience, until

WORKERS = 2
PHASES = ("connect", "close", "publish", "lease", "lease", "hold", "hold")
# Seconds from fork to death: connect and handshake, first messages, full traffic.
MOMENTS = ((0.0, 0.003), (0.002, 0.02), (0.01, 0.1), (0.1, 0.4))
STILL_S = 1.0  # so long nothing has come and nothing gone: it is what stays
STOPPED = 0.15  # of the rounds: stopped for a while first, and some of them going on then
WARM_MAX = 20  # victims a link
LAST_S = 10  # for what is on its way when the publishers stop
LATE_MS = 3000  # two cores, a debug build and publishers at full rate beside it


def standing(broker):
    """What must come back: descriptors but for segments, which may stay for the next use, and the
    timer that UCX makes once a worker."""
    names = broker.descriptors()
    check(names.count("anon_inode:[timerfd]") <= WORKERS, f"too many timers: {names}")
    return [name for name in names if "segment" not in name and "timerfd" not in name]


def at_rest(broker):
    """standing(), once all have gone. A session's end is known before its last descriptor is closed."""
    seen = {"names": None, "since": 0.0}

    def is_still():
        names = standing(broker) if broker.is_left() else None
        if names is None or names != seen["names"]:
            seen.update(names=names, since=time.monotonic())
        return names is not None and time.monotonic() - seen["since"] >= patience(STILL_S)

    until(30, is_still, "all have gone, and what is left stays")
    return seen["names"]


def kill_all(victims, pids):
    for pid in pids:
        victims.kill_victim(pid)
    for pid in pids:
        victims.bury(pid)


def start_all(victims, broker, name, links):
    """Victims that hold messages, once each has published some and holds some."""
    names = [f"{name}-{i}" for i in range(len(links))]
    pids = [victims.start(broker.url(link), n, "hold") for n, link in zip(names, links)]

    def are_busy():
        rows = [row for row in broker.clients() if row["name"] in names]
        return len(rows) == len(names) and all(
            row.get("messages_in", 0) > 0 and row.get("messages_out", 0) > 0 for row in rows
        )

    until(30, are_busy, f"{name}: every victim publishes and receives")
    return pids


def warm_up(victims, broker, links):
    """A link's first use on a worker may leave something behind for good, once: here is that use.
    The broker chooses the worker, by the order of arrival, so that changes until each worker has had
    each link: with an odd number of victims a time it cannot be the same one for ever."""
    pids, met = [], set()
    for i in range(WARM_MAX):
        turned = i % len(links)
        order = [*links[turned:], *links[:turned]]
        pids += start_all(victims, broker, f"warm-{i}", order if len(order) % 2 else order + order[:1])
        met |= {(row["link"], bool(row["suite"]), row["worker"]) for row in broker.clients()}
        if len(met) == len(links) * WORKERS:
            return pids
    raise Failure(f"after {len(pids)} victims only these links and workers: {met}")


def check_returned(broker, before, seconds=1.0):
    """Everything is back; the time it took."""
    start = time.monotonic()
    state = {}

    def is_back():
        state["clients"] = broker.clients()
        state["used"] = broker.used_bytes()
        state["leased"] = sum(row["leased_bytes"] for row in broker.ask("memory"))
        state["descriptors"] = standing(broker)
        return (
            state["clients"] == []
            and state["used"] == state["leased"] == 0
            and state["descriptors"] == before
        )

    try:
        until(seconds, is_back, "descriptors, sessions and segment bytes return")
    except Failure as failure:
        now, then = Counter(state.pop("descriptors")), Counter(before)
        new, gone = list((now - then).elements()), list((then - now).elements())
        raise Failure(f"{failure}: {state}; new: {new}; gone: {gone}; TCP: {broker.sockets()}") from None
    return time.monotonic() - start


def one_round(victims, broker, number, dice, links, phases):
    """One victim, or two at once, from start to death."""
    pids = []
    for i in range(dice.choice((1, 1, 2))):
        link = links[(number + i) % len(links)]
        phase = dice.choice(phases)
        pids.append(victims.start(broker.url(link), f"{link}-{phase}-{i}", phase))
    time.sleep(dice.uniform(*dice.choice(MOMENTS)))
    if dice.random() < STOPPED:
        for pid in pids:
            victims.signal_victim(pid, signal.SIGSTOP)
        time.sleep(dice.uniform(0.01, 0.2))
        for pid in pids:
            victims.signal_victim(pid, dice.choice((signal.SIGCONT, signal.SIGSTOP)))
        time.sleep(dice.uniform(0, 0.05))
    kill_all(victims, pids)
    return len(pids)


def stop_checkers(checkers, deaths):
    for checker in checkers:
        checker.signal(signal.SIGTERM)
    for checker in checkers:
        report = checker.line(patience(LAST_S) + 60)
        status = checker.wait()
        print(f"{checker.name}: {report}")
        check(status == 0, f"{checker.name} ended with {status}: {checker.log()}")
        report = json.loads(report)
        check(report["watched"] >= deaths, "the victims hardly came to publish")
        late_ms = report["late_ms"]
        check(late_ms <= patience(LATE_MS), f"{checker.name}: a message took {late_ms} ms")


def test(rig, options):
    rounds = int(options.get("rounds", 60))
    seed = int(options.get("seed", time.time_ns() & 0xFFFFFF))
    links = options["links"].split(",") if "links" in options else LINKS
    phases = options["phases"].split(",") if "phases" in options else PHASES
    print(f"seed {seed}", flush=True)
    dice = random.Random(seed)
    broker = rig.broker("-o", f"server.workers={WORKERS}", "-o", "server.handshake_timeout=1m")

    victims = Victims(rig)

    broker.looked_at()
    with broker.unobserved():  # Sessions of others would change which worker a victim gets.
        kill_all(victims, warm_up(victims, broker, links))
        before = at_rest(broker)  # The one who asks stays connected from here on.
        check_returned(broker, before)

    pairs = [(links[i], links[(i + 1) % len(links)]) for i in range(len(links))]
    checkers = []
    for publish, subscribe in pairs:
        checkers.append(
            rig.client(
                "test-checker",
                broker.url(publish),
                broker.url(subscribe),
                f"{publish}-{subscribe}",
                *("--rate", "200", "--watch", "victim.>", "--last", f"{patience(LAST_S):.0f}"),
            )
        )
    for checker in checkers:
        checker.expect("ready")

    deaths = number = 0
    start = time.monotonic()
    while deaths < rounds:
        deaths += one_round(victims, broker, number, dice, links, phases)
        number += 1
        broker.check_alive()
        for checker in checkers:
            check(checker.is_running(), f"{checker.name}: {checker.log()}")
    print(f"{deaths} deaths in {time.monotonic() - start:.1f} s", flush=True)

    last = start_all(victims, broker, "last", tuple(links) * 2)
    stop_checkers(checkers, deaths)
    with broker.unobserved():
        kill_all(victims, last)
        seconds = check_returned(broker, before)
    print(f"all returned {seconds:.3f} s after the last death")
    broker.stop()


if __name__ == "__main__":
    main(test, 600, observers=())
