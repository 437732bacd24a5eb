#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Somebody sits between client and broker on tls://. He reads nothing, and changes nothing unnoticed.

    wire.py BUILD [--megabytes N] [--changes N] [--seed N] [--first N]

Canaries stand in payloads, topics, properties, names, a filter and the token. A relay looks for each in all
bytes that pass: over tls:// it finds none, and over tcp:// those that are there, so it can find them. Then
it changes the bytes of one connection, once, in one of nine ways (tests/support/relay.py). Its victim must
end the connection, and what was delivered are whole messages from before the change. `--seed N --first N
--changes 1` makes a change again that a failure names.
"""
import collections
import hashlib
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from encrypted import TOKEN, Encrypted, made
from harness import check, main, patience, port_of, until
from relay import Change, Ear, Relay

MIB = 1 << 20
PAYLOAD = b"canary-payload-83b1."
CANARIES = {
    "payload": PAYLOAD, "topic": b"canary-topic", "client's name": b"canary-reader",
    "publisher's name": b"canary-publisher", "durable name": b"canary-durable",
    "property": b"canary-value", "filter": b"canary_filter", "token": TOKEN.encode(),
    "any of them": b"canary",
}
SIZE, COUNT = 20000, 20  # of the messages whose bytes are changed


def listen(rig, broker, port, scheme, megabytes):
    """So many MiB of payload by the relay to the broker, and from it: what was found there."""
    ear = Ear(list(CANARIES.values()))
    relay = Relay(port, ear, scheme=scheme)
    file = rig.folder / "payload"
    file.write_bytes((PAYLOAD * (MIB // len(PAYLOAD) + 1))[:MIB])
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    reader = rig.client("broker-ctl", "--url", relay.url, "--client-name", "canary-reader", "sub",
                        "canary-topic.>", "--count", megabytes, "--sha256", "--durable",
                        "canary-durable", "--ack", "explicit", "--filter",
                        "canary_filter = 'canary-value'", env=broker.env)
    until(20, lambda: broker.broker.ask("queues"), "it has subscribed")
    status, _, text = broker.ctl("--client-name", "canary-writer", "pub", "canary-topic.a", "--name",
                                 "canary-publisher", "--prop", "canary_filter=canary-value", "--file",
                                 file, "--count", megabytes, url=relay.url, seconds=900)
    check(status == 0, f"pub by the relay: {status} {text}")
    for _ in range(megabytes):
        check(reader.line(60).split()[0] == digest, "what was published has come")
    check(reader.wait(30) == 0, reader.log())
    relay.close()
    check(broker.ctl("durable", "rm", "canary-durable", "--yes", url=broker.broker.unix_url)[0] == 0, "durable rm")
    check(ear.bytes > 2 * megabytes * MIB, f"all of it by the relay: {ear.bytes}")
    return ear


def show(scheme, ear, seconds):
    found = ", ".join(f"{name} {ear.found[word]}" for name, word in CANARIES.items())
    print(f"{scheme}: {ear.bytes / MIB:.1f} MiB in {seconds:.1f} s; canaries: {found}", flush=True)


def test_listening(rig, broker, megabytes):
    for scheme, port, size in (("tcp", port_of(broker.broker.tcp_url), 1),
                               ("tls", broker.port, megabytes)):
        begin = time.monotonic()
        ear = listen(rig, broker, port, scheme, size)
        show(scheme, ear, time.monotonic() - begin)
        for name, word in CANARIES.items():
            if scheme == "tls":
                check(ear.found[word] == 0, f"{name} is to be read on the wire")
            elif name != "token":  # over tcp:// there is a proof of it, and not itself
                check(ear.found[word] > 0, f"the relay does not find {name} where it can be read")


class Messages:
    """Messages of one topic by the relay, in one direction, and what came of them."""

    def __init__(self, rig, broker, number):
        self.rig, self.broker = rig, broker
        self.topic = f"wire.{number}"
        self.folder = rig.folder / f"out-{number}"
        self.folder.mkdir()
        self.file = rig.folder / "message"
        self.processes = []

    def start(self, *arguments):
        process = self.rig.client("broker-ctl", *arguments, env=self.broker.env)
        self.processes.append(process)
        return process

    def read(self, url):
        reader = self.start("--url", url, "sub", self.topic, "--out-dir", self.folder, "--timeout", 60)

        def has_begun():
            rows = self.broker.broker.ask("subs")
            return not reader.is_running() or any(row["pattern"] == self.topic for row in rows)

        until(30, has_begun, "it has subscribed, or cannot")
        return reader

    def write(self, url):
        return self.start("--url", url, "pub", self.topic, "--file", self.file, "--count", COUNT)

    def mark(self):
        """One more message, by nobody's relay: what was accepted before it has come when it has."""
        mark = self.rig.folder / "mark"
        mark.write_bytes(b"mark")
        status, _, text = self.broker.ctl("pub", self.topic, "--file", mark)
        check(status == 0, text)
        until(20, lambda: any(file.stat().st_size == 4 for file in self.folder.glob("*-mark")),
              "the mark has come")
        for file in self.folder.glob("*-mark"):
            file.unlink()

    def came(self):
        """How many; each is whole, and they are the first ones."""
        want = self.file.read_bytes()
        files = sorted(self.folder.iterdir(), key=lambda file: int(file.name.split("-")[0]))
        for place, file in enumerate(files, 1):
            check(file.read_bytes() == want, f"{file.name} is another one than was sent")
            check(int(file.name.split("-")[0]) == place, f"not the first ones: {files}")
        return len(files)

    def end(self):
        for process in self.processes:
            self.rig.forget(process)
        for file in self.folder.iterdir():
            file.unlink()
        self.folder.rmdir()


def sizes(rig, broker):
    """Bytes of an undisturbed connection, by protocol and direction."""
    found = {}
    for to_broker in (True, False):
        relay, messages = Relay(broker.port), Messages(rig, broker, f"whole-{to_broker}")
        reader = messages.read(broker.url if to_broker else relay.url)
        check(messages.write(relay.url if to_broker else broker.url).wait(30) == 0, "it is published")
        until(20, lambda: len(list(messages.folder.iterdir())) == COUNT, "all have come")
        reader.signal(signal.SIGTERM)
        reader.wait(30)
        check(messages.came() == COUNT, "without a change all come")
        for protocol, to, back in relay.sizes:
            found[protocol, to_broker] = to if to_broker else back
        relay.close()
        messages.end()
    return found


def change_one(rig, broker, number, change, to_broker, alpn):
    """How many messages were delivered in spite of it."""
    relay = Relay(broker.port, change=change, to_broker=to_broker, alpn=alpn)
    messages = Messages(rig, broker, number)
    reader = messages.read(broker.url if to_broker else relay.url)
    writer = messages.write(relay.url if to_broker else broker.url)
    what = f"change {number}, {change.kind} at {change.place} of {alpn.decode()}, {'to' if to_broker else 'from'} the broker"
    check(relay.has_changed.wait(patience(20)), f"{what}: it has not come to that")
    check(relay.has_ended.wait(patience(30)), f"{what}: the connection has not ended")
    if to_broker:
        writer.kill()
        messages.mark()
        reader.signal(signal.SIGTERM)
    status = reader.wait(30)
    check(to_broker or status != 0, f"{what}: its reader has not noticed: {status}")
    came = messages.came()
    if alpn == b"amb-link/1":
        check(came * SIZE <= change.passed, f"{what}: {came} messages came")
    relay.close()
    messages.end()
    return came


def test_changing(rig, broker, numbers, seed):
    (rig.folder / "message").write_bytes(random.Random(seed).randbytes(SIZE))
    whole = sizes(rig, broker)
    print(f"seed {seed}; bytes undisturbed: {whole}", flush=True)
    done, came = collections.Counter(), collections.Counter()
    for number in numbers:
        own = random.Random(seed + number)
        kind = Change.KINDS[number % len(Change.KINDS)]
        to_broker = own.random() < 0.5
        alpn = b"amb/1" if own.random() < 0.3 else b"amb-link/1"
        # The last tenth is left out: there has to be something behind it.
        place = own.randrange(whole[alpn, to_broker] * 9 // 10)
        came[kind] += change_one(rig, broker, number, Change(kind, place, seed + number), to_broker, alpn)
        done[kind] += 1
        broker.broker.check_alive()
    for kind in Change.KINDS:
        print(f"  {kind:16s} {done[kind]:5d} changes, all noticed; {came[kind]} of {done[kind] * COUNT} "
              "messages had come before", flush=True)


def test(rig, options):
    seed = int(options.get("seed", time.time_ns() & 0xFFFFFF))
    broker = Encrypted(rig, made(rig), "-o", "log.level=error", "-o", "server.handshake_timeout=3s",
                       "-o", "limits.peer_timeout=5s")
    test_listening(rig, broker, int(options.get("megabytes", 4)))
    first = int(options.get("first", 0))
    test_changing(rig, broker, range(first, first + int(options.get("changes", 27))), seed)
    broker.works()
    broker.broker.stop()


if __name__ == "__main__":
    main(test, 1800, observers=())
