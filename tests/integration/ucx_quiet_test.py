# SPDX-License-Identifier: Apache-2.0
"""UCX is not seen where nobody has asked for it: no port of it before an authenticated client has
asked for the ucx link, and no line of it on anybody's standard output.

    ucx_quiet_test.py"""
import os
import socket
import subprocess

import pytest

from harness import check, port_of

LISTENING = "0A"


def ports(broker):
    """TCP ports that the process listens on."""
    return sorted(int(row[1].rsplit(":", 1)[1], 16) for row in broker.sockets()
                  if row[3] == LISTENING)


def ctl(rig, url, *arguments, **env):
    return subprocess.run([rig.program("broker-ctl"), "--url", url, *arguments], text=True,
                          capture_output=True, timeout=60, stdin=subprocess.DEVNULL,
                          env={**os.environ, "AMB_TRUSTED": "lo", **env})


def publish(rig, url, **env):
    return ctl(rig, url, "pub", "quiet", "--count", "1", **env)


def expect(done, code, text=""):
    """No line on standard output; on the other our own words only."""
    check(done.returncode == code, f"exit {done.returncode}: {done.stdout}{done.stderr}")
    check(done.stdout == "", f"on standard output: {done.stdout}")
    check(text in done.stderr, f"nothing of '{text}': {done.stderr}")
    for line in done.stderr.splitlines():
        check(line.startswith("broker-ctl: "), f"not a line of ours: {line}")


def test_the_port_waits_for_its_first_client(rig):
    token = rig.folder / "token"
    token.write_text("a token of the test's\n")
    for options in ([], ["-o", "transports.tcp=on"]):
        broker = rig.broker("-o", "server.workers=2", "-o", "auth.token=a token of the test's",
                            *options)
        door = [port_of(broker.tcp_url)]
        check(ports(broker) == door, f"at the start: {ports(broker)}, not {door}")
        expect(publish(rig, broker.unix_url), 0)
        expect(publish(rig, broker.url("stream"), AMB_CREDENTIALS=str(token)), 0)
        expect(publish(rig, broker.url("ucx")), 77)  # Nobody knows it.
        check(ports(broker) == door, f"before a client may have it: {ports(broker)}")
        for _ in range(3):
            expect(publish(rig, broker.url("ucx"), AMB_CREDENTIALS=str(token)), 0)
        check(len(ports(broker)) in (2, 3), f"ports with ucx links: {ports(broker)}")
        if options:  # It is preferred, then.
            expect(publish(rig, broker.tcp_url, AMB_CREDENTIALS=str(token)), 0)
            check(": ucx from" in broker.log(), broker.log())
        broker.stop()
        check(broker.all_lines() == [], "more than one line on standard output")


def test_what_ucx_says_is_logged(rig):
    """It has plenty to say where all of its ports are taken."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        broker = rig.broker("-o", f"transports.port_range={port}-{port}",
                            "-o", "transports.tcp=on")
        expect(publish(rig, broker.url("ucx")), 70, "UCX can open no port")
        check(".c:" in broker.log(), f"nothing of UCX's own: {broker.log()}")
        # A client that does not insist has a stream instead; one that does is told why.
        expect(publish(rig, broker.tcp_url), 0)
        expect(publish(rig, broker.url("ucx")), 64, "could not open a port")
        broker.stop()
        check(broker.all_lines() == [], "more than one line on standard output")
        # libamb in the same trouble, and where UCX has more to say.
        broker = rig.broker()
        expect(publish(rig, broker.url("ucx"), UCX_TCP_PORT_RANGE=f"{port}-{port}"), 70,
               "UCX can open no port")
        expect(publish(rig, broker.url("ucx"), UCX_LOG_LEVEL="info"), 0)
        broker.stop()
    # What is asked for by UCX's own variables leaves brokerd's one line alone.
    broker = rig.broker(env={"UCX_LOG_LEVEL": "debug"})
    expect(publish(rig, broker.url("ucx")), 0)
    broker.stop()
    check(broker.all_lines() == [], "more than one line on standard output")


@pytest.fixture(autouse=True)
def needs_ucx(links):
    if "ucx" not in links:
        pytest.skip("no UCX here")
