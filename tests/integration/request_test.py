# SPDX-License-Identifier: Apache-2.0
"""Requests and replies between two connections on every pair of links and two workers; the same
from the shell. An inbox's name is shown to nobody, and lies in no memory that others map.

    request_test.py [--links ring,stream,ucx]
"""
import pathlib
import subprocess
import time

import pytest

from harness import check, until

RULES = ["one by one", "many", "no responders", "time-out", "compare and set", "rights", "closed", "done"]


def test_shell(rig, broker):
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


def mapped(pid):
    """What the broker has given this process to read, as bytes: (name, content)."""
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split()
            if words[1] == "r--s" and "memfd:" in line:
                first, end = (int(n, 16) for n in words[0].split("-"))
                memory.seek(first)
                left = end - first
                content = bytearray()
                while left > 0:
                    part = memory.read(min(left, 1 << 24))
                    content += part
                    left -= len(part)
                yield line, bytes(content)


def test_secrets(rig):
    """Another reader on this host has segments of the broker mapped, and of the two that ask and
    answer the slots: there is no reply in them, and no request's address."""
    broker = rig.broker(tcp=False)
    reader = rig.start([rig.program("broker-ctl"), "--url", broker.url(), "-o", "json", "sub",
                        "public.>"])
    until(20, lambda: broker.ask("subs"), "a reader")
    both = rig.client("test-secrets", broker.url())
    check(both.line(60) == "done", both.log())
    for _ in range(120):
        reader.line(20)
    looked = 0
    for name, content in mapped(reader.pid):
        looked += content.count(b"anybody may read")
        for secret in (b"secret reply", b"$INBOX.", b"$reply"):
            check(secret not in content, f"{secret} lies in {name}")
    check(looked > 100, f"the reader maps little: {looked}")
    check(broker.ask("memory")[0]["private_bytes"] > 0, "private memory is shown")
    both.kill()
    reader.kill()
    broker.stop()


@pytest.fixture
def broker(rig):
    broker = rig.broker("-o", "server.workers=2")
    yield broker
    broker.check_alive()
    broker.stop()


def test_every_rule_on_every_pair_of_links(rig, broker, links):
    for service in links:
        for client in links:
            both = rig.client("test-requester", broker.url(service), broker.url(client), "300")
            for rule in RULES:
                line = both.line(30)
                check(line == rule, f"{line} instead of {rule}")
            check(both.wait() == 0, f"{both.log()}")
            rig.forget(both)
