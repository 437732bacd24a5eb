#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A broker that aborts, also inside UCX, is begun again, and its clients go on by themselves.

    aborts.py BUILD [--rounds 4] [--links ring,stream,ucx,tls]

Every other time the signal comes from outside. The other times ucp_worker_progress ends with abort(), as when an
assertion of UCX fails (tests/support/programs/torture_ucp.c). The test stands in for a supervisor: it starts brokerd
again at once, at the same addresses. Then each reader is back, and has the next message, by each link.
"""
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import LINKS, SKIPPED, check, main, until
from ucp import FailingUcp

BACK_S = 10  # on a busy machine; a quiet one has it within a second


def publish(rig, url, text):
    writer = rig.client("broker-ctl", "--url", url, "pub", "abort.a")
    writer.tell(text)
    writer.end_input()
    status = writer.wait(30)
    log = writer.log()
    rig.forget(writer)
    return status, log


def end(rig, broker, ucp):
    """By a signal, or inside of UCX; returns when it was over."""
    if ucp is None:
        broker.signal(signal.SIGABRT)
    else:
        ucp.abort()
        publish(rig, broker.url("ucx"), "lost")  # so that it looks for what has come
    check(broker.wait(20) == -signal.SIGABRT, f"brokerd ended with {broker.popen.returncode}\n{broker.log()[-2000:]}")
    return time.monotonic()


def all_have(rig, broker, readers, text):
    status, log = publish(rig, broker.unix_url, text)
    check(status == 0, log)
    for link, reader in readers.items():
        line = reader.line(20)
        while line in ("lost", ""):  # It had come before the end; line feeds are part of a message.
            line = reader.line(20)
        check(line == text, f"{link}: {line}")


def test(rig, options):
    links = options["links"].split(",") if "links" in options else LINKS
    rounds = int(options.get("rounds", 4))
    try:
        ucp = FailingUcp(rig) if "ucx" in links else None
    except Exception as error:
        print(f"no UCX that aborts: {error}")
        sys.exit(SKIPPED)

    def begin(at=None):
        return rig.broker("-o", "server.workers=2", at=at, env=ucp and ucp.env, prefix=("prlimit", "--core=0"))

    broker = begin()
    readers = {link: rig.client("broker-ctl", "--url", broker.url(link), "sub", "abort.>", "--reconnect")
               for link in links}
    until(30, lambda: len(broker.ask("subs")) == len(readers), "all readers are there")
    all_have(rig, broker, readers, "begin")  # A call to subscribe that is under way would end with the broker.
    slowest_start = slowest_back = inside = 0
    for number in range(rounds):
        until(30, lambda: len(broker.ask("subs")) == len(readers), "all readers are there")
        is_inside = number % 2 == 1 and ucp is not None
        inside += is_inside
        ended = end(rig, broker, ucp if is_inside else None)
        former, broker = broker, begin(at=broker)
        started = time.monotonic()
        until(BACK_S, lambda: len(broker.ask("subs")) == len(readers), "they are back")
        back = time.monotonic()
        all_have(rig, broker, readers, f"round {number}")
        slowest_start, slowest_back = max(slowest_start, started - ended), max(slowest_back, back - started)
        if former.asker is not None:
            rig.forget(former.asker)
        rig.forget(former)
    print(f"{rounds} aborts, {inside} of them inside of UCX; brokerd was ready within {slowest_start:.2f} s, "
          f"{len(readers)} readers were back within another {slowest_back:.2f} s, and had the next message")
    for reader in readers.values():
        check(reader.is_running(), reader.log())
        reader.kill()
    broker.stop()


if __name__ == "__main__":
    main(test, 1800, observers=())
