#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests and replies between two connections on every pair of links and two workers; the same
from the shell. An inbox's name is shown to nobody.

    request_test.py BUILD [--links ring,stream,ucx]
"""
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import LINKS, check, main

RULES = ["one by one", "many", "no responders", "time-out", "compare and set", "rights", "closed", "done"]


def shell(rig, broker):
    def ctl(*words, **options):
        return subprocess.run([rig.program("broker-ctl"), "--url", broker.url(), *words],
                              capture_output=True, timeout=30, check=False, **options)

    start = time.monotonic()
    none = ctl("request", "shell.q", "--text", "x", "--timeout", "20")
    check(none.returncode == 69 and b"nobody answers" in none.stderr, f"no responders: {none}")
    check(time.monotonic() - start < 10, "no responders are told at once")
    service = rig.start([rig.program("broker-ctl"), "--url", broker.url(), "reply", "shell.>",
                         "--count", "2", "--timeout", "30"])
    while "ready" not in service.log():
        time.sleep(0.02)
    one = ctl("request", "shell.q", "--text", "hello")
    check(one.returncode == 0 and one.stdout == b"hello", f"request: {one}")
    shown = ctl("topics").stdout + ctl("subs").stdout
    check(b"$INBOX." in shown and shown.count(b"$INBOX.") == shown.count("$INBOX.…".encode()),
          f"an inbox is shown: {shown}")
    two = ctl("request", "shell.r", input=b"\0binary\n")
    check(two.returncode == 0 and two.stdout == b"\0binary\n", f"request: {two}")
    check(service.wait() == 0, f"reply: {service.log()}")


def test(rig, options):
    links = options.get("links", ",".join(LINKS)).split(",")
    broker = rig.broker("-o", "server.workers=2")
    if "ucx" in links and broker.ask("status")["ucx"] == "off":
        links.remove("ucx")
    for service in links:
        for client in links:
            both = rig.client("test-requester", broker.url(service), broker.url(client), "300")
            for rule in RULES:
                line = both.line(30)
                check(line == rule, f"{line} instead of {rule}")
            check(both.wait() == 0, f"{both.log()}")
            rig.forget(both)
    shell(rig, broker)
    broker.check_alive()
    broker.stop()


if __name__ == "__main__":
    main(test, 120)
