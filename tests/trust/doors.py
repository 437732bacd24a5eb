#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All that can come to an encrypted door and is no client, beside clients that notice nothing.

    doors.py BUILD [--rounds N] [--seed N] [--only KIND]

N connections of each kind (50). Each must be closed by the broker in time, and get no answer but what its
kind may have: nothing, an alert, or the broker's half of a handshake. Meanwhile an honest pair publishes and
receives over TLS and loses nothing, and new clients get in. Afterwards the broker has as many descriptors as
before, and nobody is half open. A line for each kind says what was counted.
"""
import collections
import errno
import json
import os
import pathlib
import random
import selectors
import signal
import socket
import ssl
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "stress"))
from death import at_rest, standing
from encrypted import Encrypted, made
from harness import check, main, patience, port_of, until

TIMEOUT_S = 2  # server.handshake_timeout
CROWD = 400  # connections at once, fewer than may be half open
ALERT = 0x15
NOTHING, AN_ALERT, A_HANDSHAKE = "nothing", "an alert", "a handshake"
COUNTERS = ("tls_handshakes", "tls_failed", "tls_plain", "tls_timeouts", "tls_evicted", "bad_magic",
            "bad_messages", "bad_records", "handshake_timeouts", "refused_limit")
HELLO_OF_OURS = b"AMB\x01\x0e\x12\x0c\x08\x01\x10\x01\x2a\x06stream"
HTTP = b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"


def trusting():
    """TLS for a client that takes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Visitor:
    """What the kinds are made of: a socket to a door, and TLS by Python's."""

    def __init__(self, broker, seed):
        self.tls = ("127.0.0.1", broker.port)
        self.tcp = ("127.0.0.1", port_of(broker.broker.tcp_url))
        self.random = random.Random(seed)
        self.context, self.old, self.other = trusting(), trusting(), trusting()
        self.context.set_alpn_protocols(["amb/1"])
        self.old.maximum_version = ssl.TLSVersion.TLSv1_2
        self.other.set_alpn_protocols(["h2", "http/1.1"])

    def say(self, data, door=None):
        """A connection that has said so; the door may have closed it already."""
        peer = socket.create_connection(door or self.tls, timeout=20)
        peer.setblocking(False)
        try:
            peer.send(data)
        except OSError:
            pass
        return peer

    def hello(self, context=None):
        """A whole ClientHello."""
        out = ssl.MemoryBIO()
        client = (context or self.context).wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return out.read()

    def hello_of_no_suite(self):
        hello = self.hello()
        at = 44 + hello[43]  # behind the session's number
        end = at + 2 + int.from_bytes(hello[at:at + 2], "big")
        return hello[:at + 2] + b"\x13\x04" * ((end - at - 2) // 2) + hello[end:]

    def through(self):
        """A connection whose handshake is done."""
        peer = socket.create_connection(self.tls, timeout=20)
        return self.context.wrap_socket(peer, server_hostname="localhost")


def reset(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def garbage(visitor):
    return visitor.say(visitor.random.randbytes(visitor.random.randrange(1, 3000)))


def half_open(visitor):
    hello = visitor.hello()
    return visitor.say(hello[:visitor.random.randrange(len(hello))])


def rst(visitor):
    hello = visitor.hello()
    reset(visitor.say(hello[:visitor.random.randrange(len(hello) + 1)]))


def http(visitor):
    return visitor.say(HTTP)


def plain_at_tls(visitor):
    return visitor.say(HELLO_OF_OURS)


def tls_at_plain(visitor):
    return visitor.say(visitor.hello(), visitor.tcp)


def hello_then_silence(visitor):
    return visitor.say(visitor.hello())


def tls_1_2(visitor):
    return visitor.say(visitor.hello(visitor.old))


def wrong_protocol(visitor):
    return visitor.say(visitor.hello(visitor.other))


def no_suite(visitor):
    return visitor.say(visitor.hello_of_no_suite())


def flipped_hello(visitor):
    hello = bytearray(visitor.hello())
    for _ in range(visitor.random.randrange(1, 9)):
        hello[visitor.random.randrange(5, len(hello))] ^= 1 << visitor.random.randrange(8)
    return visitor.say(bytes(hello))


def huge_hello(visitor):
    """A ClientHello of 16 MiB is announced, and 32 KiB of it come."""
    record = b"\x16\x03\x01\x40\x00"
    return visitor.say(record + b"\x01\xff\xff\xff" + bytes(16380) + record + bytes(16384))


def empty_records(visitor):
    return visitor.say(b"\x16\x03\x01\x00\x00" * 2000)


def many_alerts(visitor):
    """Warnings, in plain text, in the place of a hello."""
    return visitor.say(b"\x15\x03\x03\x00\x02\x01\x5a" * 2000)


def through_then_silence(visitor):
    return visitor.through()


def through_then_garbage(visitor):
    peer = visitor.through()
    peer.send(visitor.random.randbytes(visitor.random.randrange(1, 3000)))
    return peer


def through_then_rst(visitor):
    peer = visitor.through()
    peer.send(HELLO_OF_OURS[:visitor.random.randrange(len(HELLO_OF_OURS))])
    reset(peer)


def through_then_a_broken_record(visitor):
    """A record that no key of theirs has made, behind a handshake that was whole."""
    peer = visitor.through()
    raw = socket.socket(fileno=peer.detach())
    raw.send(b"\x17\x03\x03\x00\x40" + visitor.random.randbytes(64))
    return raw


# By kind: what it does, and the most that it may be answered.
KINDS = {
    "garbage": (garbage, AN_ALERT),
    "half-open": (half_open, AN_ALERT),
    "RST": (rst, None),
    "HTTP": (http, NOTHING),
    "plain at TLS": (plain_at_tls, NOTHING),
    "TLS at plain": (tls_at_plain, NOTHING),
    "ClientHello then silence": (hello_then_silence, A_HANDSHAKE),
    "TLS 1.2": (tls_1_2, AN_ALERT),
    "wrong protocol": (wrong_protocol, AN_ALERT),
    "no shared suite": (no_suite, AN_ALERT),
    "flipped ClientHello": (flipped_hello, A_HANDSHAKE),
    "huge ClientHello": (huge_hello, AN_ALERT),
    "empty records": (empty_records, AN_ALERT),
    "alerts": (many_alerts, AN_ALERT),
    "through then silence": (through_then_silence, A_HANDSHAKE),
    "through then garbage": (through_then_garbage, A_HANDSHAKE),
    "through then RST": (through_then_rst, None),
    "through then a broken record": (through_then_a_broken_record, A_HANDSHAKE),
}
REKEYS = "rekey flood"


class Crowd:
    """Connections that wait for their end, and what they got until then."""

    def __init__(self, limit):
        self.limit = limit
        self.selector = selectors.DefaultSelector()
        self.answers = collections.Counter()
        self.waiting = {}

    def add(self, peer):
        if peer is None:
            return
        peer.setblocking(False)
        self.waiting[peer] = [time.monotonic(), b""]
        self.selector.register(peer, selectors.EVENT_READ)

    def _end(self, peer):
        _, got = self.waiting.pop(peer)
        self.selector.unregister(peer)
        peer.close()
        self.answers[NOTHING if not got else AN_ALERT if got[0] == ALERT else A_HANDSHAKE] += 1

    def _read(self, peer):
        try:
            piece = peer.recv(65536)  # of a handshake that is done: what is said inside TLS
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError as error:  # also an end that TLS does not know of
            check(isinstance(error, ssl.SSLError) or error.errno in (errno.ECONNRESET, errno.EPIPE), error)
            piece = b""
        if piece:
            self.waiting[peer][1] += piece
        else:
            self._end(peer)

    def watch(self, most):
        """Until no more than so many wait."""
        while len(self.waiting) > most:
            for key, _ in self.selector.select(1):
                self._read(key.fileobj)
            now = time.monotonic()
            for peer, (began, _) in self.waiting.items():
                check(now - began < patience(self.limit), f"{peer} is open after {now - began:.1f} s")


class Honest:
    """A pair over TLS that checks each message."""

    def __init__(self, rig, broker, name):
        self.process = rig.client("test-checker", broker.url, broker.url, name, "--rate", 200, "--max",
                                  20000, env=broker.env)
        self.process.expect("ready", 60)

    def end(self):
        self.process.signal(signal.SIGTERM)
        report = json.loads(self.process.line(90))
        check(self.process.wait() == 0, f"{self.process.name}: {self.process.log()}")
        check(report["late_ms"] <= patience(3000), f"a message took {report['late_ms']} ms")
        return report


def memory_kib(broker):
    text = pathlib.Path(f"/proc/{broker.pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS")))


def visit(rig, broker, visitor, kind, rounds):
    """One kind: what its connections got."""
    if kind == REKEYS:
        done = rig.client("test-rekeyer", broker.port, rounds, 200, prefix=("nice", "-n", "19"))
        said = json.loads(done.line(600))
        check(done.wait() == 0 and said["closed"] == said["through"] == rounds, f"{kind}: {said}")
        rig.forget(done)
        return f"all closed, the slowest behind {said['most']} changes sent"
    act, most = KINDS[kind]
    crowd = Crowd(TIMEOUT_S * 3 + 10)
    for _ in range(rounds):
        crowd.add(act(visitor))
        crowd.watch(CROWD - 1)
    crowd.watch(0)
    allowed = {NOTHING: {NOTHING}, AN_ALERT: {NOTHING, AN_ALERT},
               A_HANDSHAKE: {NOTHING, AN_ALERT, A_HANDSHAKE}, None: set()}[most]
    check(set(crowd.answers) <= allowed, f"{kind} was answered: {dict(crowd.answers)}")
    return ", ".join(f"{answer} {count}" for answer, count in sorted(crowd.answers.items()))


def settle(broker, before):
    """Nobody is half open, and each descriptor of theirs is closed."""
    def is_quiet():
        status = broker.ask("status")
        return status["tls_half_open"] == 0 and status["connecting"] == 0

    with broker.unobserved():
        until(30, is_quiet, "nobody is half open")
        until(30, lambda: standing(broker) == before, "their descriptors are closed")


def run_kind(rig, broker, visitor, kind, rounds):
    told = broker.broker.ask("status")
    begin = time.monotonic()
    answers = visit(rig, broker, visitor, kind, rounds)
    seconds = time.monotonic() - begin
    broker.broker.check_alive()
    begin = time.monotonic()
    broker.works()
    login_ms = (time.monotonic() - begin) * 1000
    now = broker.broker.ask("status")
    counted = {name: now[name] - told[name] for name in COUNTERS if now[name] != told[name]}
    counted["tls_handshakes"] = counted.get("tls_handshakes", 0) - 2  # the honest one's
    ends = sum(count for name, count in counted.items() if name != "tls_handshakes")
    if kind not in ("RST", "through then RST", "through then garbage"):  # those may end by themselves
        check(ends >= rounds or kind == REKEYS, f"{kind}: {rounds} came, and these were counted: {counted}")
    if kind == REKEYS:
        check(counted["tls_handshakes"] == rounds, f"{counted}")
    text = ", ".join(f"{name} {count}" for name, count in counted.items() if count)
    print(f"  {kind:28s} {rounds:5d} in {seconds:5.1f} s; a client in {login_ms:4.0f} ms; answered: "
          f"{answers or '-'}; counted: {text}", flush=True)


def test(rig, options):
    rounds, seed = int(options.get("rounds", 50)), int(options.get("seed", time.time_ns() & 0xFFFFFF))
    kinds = [options["only"]] if "only" in options else [*KINDS, REKEYS]
    print(f"seed {seed}", flush=True)
    os.nice(5)  # the honest and the broker need not wait for those who attack
    broker = Encrypted(rig, made(rig), "-o", "log.level=error", "-o", f"server.handshake_timeout={TIMEOUT_S}s")
    visitor = Visitor(broker, seed)
    for kind in kinds:  # once each, for what a first time leaves behind
        visit(rig, broker, visitor, kind, 2)
    quiet = Honest(rig, broker, "quiet")
    broker.works()
    time.sleep(min(3 + rounds / 500, 15))  # a measurement: this long
    report = quiet.end()
    print(f"quiet: {report['received']} messages, p99 {report['late_p99_ms']} ms", flush=True)
    broker.broker.looked_at()
    with broker.broker.unobserved():
        until(20, lambda: broker.broker.clients() == [], "they have gone")
        before = at_rest(broker.broker)
        memory = memory_kib(broker.broker)
    honest = Honest(rig, broker, "honest")
    for kind in kinds:
        run_kind(rig, broker, visitor, kind, rounds)
    report = honest.end()
    round_ms = broker.broker.ask("status")["longest_round_ns"] / 1e6
    until(20, lambda: broker.broker.clients() == [], "they have gone")
    settle(broker.broker, before)
    print(f"beside all this: {report['received']} messages, none lost or wrong, p99 "
          f"{report['late_p99_ms']} ms, the latest {report['late_ms']} ms; the control thread's longest round "
          f"{round_ms:.1f} ms", flush=True)
    print(f"0 crashes, 0 descriptors left; the broker's memory was {memory // 1024} MiB, and is "
          f"{memory_kib(broker.broker) // 1024} MiB", flush=True)
    broker.broker.stop()


if __name__ == "__main__":
    main(test, 1800, observers=())
