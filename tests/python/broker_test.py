# SPDX-License-Identifier: Apache-2.0
"""A brokerd of the program's own, options by keyword, events, and the ends of calls that wait."""
import logging
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

from prompt import PROMPT, interrupted

WAIT = 10


@pytest.fixture
def programs(build, monkeypatch):
    monkeypatch.setenv("AMBROKER_BIN", str(build / "broker"))


@pytest.mark.usefixtures("programs")
def test_a_broker_lives_with_its_object(ambroker):
    with ambroker.Broker(memory={"host": {"size": "64M"}}) as broker:
        pid, folder = broker.pid, broker.folder
        with ambroker.connect(broker.url) as conn:
            sub = conn.subscribe("a")
            conn.publish("a", b"one")
            assert bytes(sub.next(WAIT)) == b"one"
            assert conn.admin("status")
    assert not pathlib.Path(f"/proc/{pid}").exists() and not folder.exists()
    with pytest.raises(ambroker.Error, match="no_such_key") as caught:
        ambroker.Broker(no_such_key=1)
    assert "no_such_key" in caught.value.text and caught.value.scope == "call"
    with pytest.raises(ambroker.Closed) as caught:
        assert broker.pid
    assert caught.value.status == ambroker.Closed.status


@pytest.mark.usefixtures("programs")
def test_a_forked_child_does_not_hold_a_broker_up(ambroker):
    """It used to have brokerd's standard input, so that a close of the parent's killed brokerd, after five seconds."""
    broker = ambroker.Broker()
    process = broker._process  # pylint: disable=protected-access
    until, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        os.read(until, 1)
        os._exit(0)
    try:
        broker.close()
        assert process.returncode == 0
    finally:
        os.close(end)
        os.close(until)
        os.waitpid(child, 0)


@pytest.mark.usefixtures("programs")
def test_a_broker_listens_where_else_it_is_told(ambroker, tmp_path):
    with ambroker.Broker(listen=f"unix://{tmp_path}/other.sock") as broker:
        for url in (broker.url, f"unix://{tmp_path}/other.sock"):
            ambroker.connect(url).close()


@pytest.mark.usefixtures("programs")
def test_a_broker_ends_with_its_program(package):
    program = f"""
import sys; sys.path.insert(0, {str(package)!r})
import ambroker
broker = ambroker.Broker()
print(broker.pid, broker.folder, flush=True)
sys.stdin.read()
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    pid, folder = child.stdout.readline().split()
    child.kill()
    child.wait()
    end = time.monotonic() + WAIT
    while pathlib.Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    subprocess.run(["rm", "-r", folder], check=True)
    child.stdin.close()
    child.stdout.close()


def test_options_are_keywords_and_wrong_ones_are_named(ambroker, broker):
    url = broker.url()
    conn = ambroker.connect(url, name="n", send_memory_max="64M", memory_max=1 << 28, spin=0,
                            reconnect_attempts=0, heartbeat=0.5, progress="thread")
    sub = conn.subscribe("a.>", ack="explicit", group="g", ack_wait=3, backoff=[0.1, 1],
                         credit_msgs=16, policy="block", max_deliver=5, start="first")
    conn.publish("a.b", b"x")
    msg = sub.next(WAIT)
    msg.in_progress()
    msg.nak(0)
    msg = sub.next(WAIT)
    assert msg.deliveries == 2
    msg.ack()
    for call, error in ((lambda: conn.subscribe("a", policy="no"), ValueError),
                        (lambda: conn.subscribe("a", colour="red"), TypeError),
                        (lambda: conn.subscribe("a", credit_msgs="64X"), ValueError),
                        (lambda: conn.subscribe("a", backoff=[1] * 17), ValueError),
                        (lambda: conn.subscribe("a", mem="tape"), ValueError),
                        (lambda: conn.subscribe("a", mem="cuda:2147483648"), ValueError),
                        (lambda: conn.subscribe("a", max_deliver="4G"), ValueError),
                        (lambda: conn.subscribe("a", ack_wait=-1), ValueError),
                        (lambda: conn.subscribe("a", group="g\0"), ValueError),
                        (lambda: conn.subscribe("a", group=7), TypeError),
                        (lambda: conn.publisher("a", confirm="durable"), ambroker.NotSupported),
                        (lambda: conn.publisher("a", linger=float("nan")), ValueError)):
        with pytest.raises(error):
            call()
    conn.close()


def test_a_position_goes_on_where_another_one_was(conn):
    sub = conn.subscribe("a")
    conn.publish("a", b"read")
    assert bytes(sub.next(WAIT)) == b"read"
    other = conn.subscribe("a", start=sub.position())
    conn.publish("a", b"next")
    assert bytes(other.next(WAIT)) == b"next"
    with pytest.raises(ValueError, match="position"):
        conn.subscribe("a", start=b"nonsense")


def test_a_lazy_message_is_fetched_and_read(conn):
    sub = conn.subscribe("a", lazy="pin")
    data = bytes(range(256)) * 400
    conn.publish("a", data)
    msg = sub.next(WAIT)
    assert len(msg) == len(data)
    with pytest.raises(BufferError, match="lazy"):
        memoryview(msg)
    assert msg.read(256, 10, timeout=WAIT) == bytes(range(10))
    into = bytearray(len(data))
    assert msg.read(into=into, timeout=WAIT) == len(data) and into == data
    for wrong in ({"offset": len(data) + 1}, {"size": len(data) + 1}, {"into": bytearray(3)}):
        with pytest.raises(ValueError):
            msg.read(**wrong)
    msg.fetch(WAIT)
    assert msg.tobytes() == data


def test_what_happens_is_told_or_logged(ambroker, rig, caplog):
    broker = rig.broker()
    events = []
    conn = ambroker.connect(broker.url(), on_event=events.append, reconnect_attempts=0)
    quiet = ambroker.connect(broker.url(), reconnect_attempts=0)
    with caplog.at_level(logging.INFO, logger="ambroker"):
        os.kill(broker.pid, signal.SIGKILL)
        for one in (conn, quiet):
            with pytest.raises(ambroker.Lost):
                while True:
                    one.poll(WAIT)
            one._tell(one._conn.news())  # pylint: disable=protected-access
    assert [event.type for event in events if event.type in ("lost", "closed")]
    conn.close(0)
    quiet.close(0)


def test_a_signal_ends_a_connect(ambroker, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "mute.sock"))
        listener.listen()
        url = f"unix://{tmp_path}/mute.sock"
        assert interrupted(lambda: ambroker.connect(url, connect_timeout=60)) < PROMPT


def test_a_signal_ends_what_waits_for_a_stopped_broker(ambroker, rig):
    broker = rig.broker()
    conn = ambroker.connect(broker.url(), timeout=60)
    sub, pub = conn.subscribe("a"), conn.publisher("a")
    pub.flush(WAIT)
    broker.signal(signal.SIGSTOP)
    try:
        for call in (lambda: conn.subscribe("b"), lambda: conn.publisher("b"), sub.next,
                     lambda: conn.admin("status", 60), conn.poll, lambda: sub.next_many(3),
                     lambda: conn.publish("c", b"x"), lambda: pub.wait_subscribers(9)):
            assert interrupted(call) < PROMPT
    finally:
        broker.signal(signal.SIGCONT)
    pub.send(b"next")
    assert bytes(sub.next(WAIT)) == b"next"
    conn.close()
