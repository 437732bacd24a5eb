#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Configurations, users files and certificates change under load, most of them spoilt: a reload takes all
of them or nothing.

    reloads.py BUILD [--rounds N] [--seed N]

Each round (40) writes a version of all files, and spoils one of them in nine of ten rounds: bits, pieces
that are cut out, doubled or swapped, odd numbers, other modes, no file at all. Then the broker reloads, by
SIGHUP or by broker-ctl. A version's number stands in a role, in a quota and in a user's name, and it has a
certificate of its own. The broker must show all four marks of the old version where it has refused, and all
four of the files where it has not. It refuses what another brokerd would not start with, and no more.
A publisher and a subscriber keep their sessions, and lose nothing.
"""
import hashlib
import json
import pathlib
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from encrypted import Folder
from harness import check, main, port_of, until

PAIRS = 4  # of certificate and key
ODD = (b"-1", b"0", b"4294967296", b"9223372036854775808", b"1e999", b"\"\"", b"0x7fffffff", b"\"1T\"", b"true")
WORDS = (b";", b"{", b"}", b"(", b"\"", b"\\", b"\0", b"#", b"/*", b":", b",", b"%u", b"\n\n", b"\xff\xfe", b"a" * 5000)
ENDS = re.compile(r"reload: in force from now on|reload: the configuration is valid|reload refused")
CONFIG = 78


def spoil(text, dice):
    """One change of some bytes."""
    at = dice.randrange(len(text))
    end = min(len(text), at + 1 + dice.randrange(40))
    piece, word = text[at:end], dice.choice(WORDS)
    numbers = list(re.finditer(rb"\d+", text)) or [re.search(b"", text)]
    number = dice.choice(numbers)
    lines = text.splitlines(True)
    first, second = dice.randrange(len(lines)), dice.randrange(len(lines))
    swapped = list(lines)
    swapped[first], swapped[second] = swapped[second], swapped[first]
    return dice.choice((
        text[:at] + bytes([text[at] ^ 1 << dice.randrange(8)]) + text[at + 1:],
        text[:at] + text[end:],
        text[:at] + piece + text[at:],
        text[:at],
        text[:at] + word + text[at:],
        text[:number.start()] + dice.choice(ODD) + text[number.end():],
        b"".join(swapped),
        b"".join(lines[:first] + [lines[second]] + lines[first:]),
        b"".join(lines[:first] + lines[first + 1:]),
        dice.randbytes(40) + text[:at],
    ))


def plain(number):
    """Of a number as a configuration is printed: "1K" is 1024."""
    scale = "KMGT".find(number[-1]) + 1
    return str(int(number[:-1]) << 10 * scale) if scale else number


class Version:
    """What is in force: the marks that the broker must show."""

    def __init__(self, roles, topics, users, certificate):
        self.roles, self.topics, self.users, self.certificate = roles, topics, users, certificate


class Files:
    """The broker's files in a folder: written as a version, and spoilt."""

    def __init__(self, rig):
        self.rig, self.folder = rig, rig.folder
        self.config, self.users = rig.folder / "broker.conf", rig.folder / "users"
        self.pem, self.key = rig.folder / "server.pem", rig.folder / "server.key"
        self.pairs = [Folder(rig, f"pair{i}") for i in range(PAIRS)]
        for pair in self.pairs:
            pair.make("init", "--name", "127.0.0.1")
        (rig.folder / "ca.pem").write_text("".join(pathlib.Path(pair("ca.pem")).read_text() for pair in self.pairs))
        self.token = rig.folder / "load.token"
        self.token.write_text("of-the-load\n")
        self.token.chmod(0o600)
        digest = hashlib.sha256(b"of-the-load").hexdigest()
        self.fixed_users = f"load:plant:load:small:-:token/sha256-{digest}\n".encode()
        # What holds the load is not among what is spoilt.
        self.fixed_config = (
            f'tls = {{ certificate = "{self.pem}"; key = "{self.key}"; }};\nauth = {{ users = "{self.users}"; }};\n'
            'roles = ( { name = "load"; publish = ( "load" ); subscribe = ( "load" ); },\n').encode()

    def put(self, path, data, mode=0o600):
        new = path.with_suffix(".new")
        new.unlink(missing_ok=True)
        new.write_bytes(data)
        new.chmod(mode)
        new.rename(path)

    def write(self, number):
        """All files of that version."""
        config = (f'    {{ name = "probe"; publish = ( "v.{number}.>" ); subscribe = {{ allow = ( "a.>", "=b.*" );\n'
                  '      deny = ( "a.secret" ); }; shared = ( "workers" ); admin = "read"; } );\n'
                  f'quotas = ( {{ name = "small"; topics = {1001 + 2 * number}; connections = 50; }} );\n'
                  'tenants = ( { name = "plant"; }, { name = "lab"; } );\n'
                  f'limits = {{ window = {65536 + number}; peer_timeout = "60s"; }};\n')
        users = "".join(f"user-{i}:lab:probe:-:off:uid/{30000 + i}\n" for i in range(8))
        users += f"probe:plant:probe:small:-:uid/23451\n# of version {number}\nonly-{number}:plant:-:-:-:uid/23452\n"
        self.parts = {"config": config.encode(), "users": users.encode()}
        pair = self.pairs[number % PAIRS]
        self.put(self.config, self.fixed_config + self.parts["config"])
        self.put(self.users, self.fixed_users + self.parts["users"])
        for path, name in ((self.pem, "server.pem"), (self.key, "server.key")):
            self.put(path, pathlib.Path(pair(name)).read_bytes())

    def spoil(self, what, dice):
        """That file; the words say how."""
        path = {"config": self.config, "users": self.users, "certificate": self.pem, "key": self.key}[what]
        way = dice.randrange(12)
        if way == 0:
            path.unlink()
            return "is not there"
        if way == 1 and what != "certificate":
            path.chmod(dice.choice((0o640, 0o604, 0o622)))
            return "has another mode"
        if what in self.parts:
            fixed = self.fixed_config if what == "config" else self.fixed_users
            self.put(path, fixed + spoil(self.parts[what], dice))
        else:
            self.put(path, spoil(path.read_bytes(), dice))
        return "has other bytes"

    def judged(self):
        """By another brokerd: None where it would not start, else what it prints, which are the marks."""
        done = subprocess.run([self.rig.program("brokerd"), "--dev", "--config", self.config, "--listen",
                               f"unix://{self.folder}/other.sock", "--listen", "tls://127.0.0.1:0", "--print-config"],
                              capture_output=True, text=True, errors="replace", timeout=60, check=False)
        check(done.returncode in (0, CONFIG), f"another brokerd: {done}")
        if done.returncode == CONFIG:
            return None, done.stderr
        own = re.search(r'name = "probe"; publish = \{ allow = \(([^)]*)\)', done.stdout)
        topics = re.search(r'name = "small";[^}]*? topics = "(\w+)"', done.stdout)
        lines = [line.split(b":") for line in self.users.read_bytes().splitlines() if not line.startswith(b"#")]
        users = {line[0].decode(errors="replace"): line for line in lines if len(line) > 2}
        probe = users.get("probe")
        may = own is not None and probe is not None and b"probe" in probe[2].split(b",")
        # OpenSSL takes a certificate with bytes behind its end, and leaves them out.
        der = ssl.PEM_cert_to_DER_cert(re.search("-----BEGIN CERT.*?-----END CERTIFICATE-----", self.pem.read_text(errors="replace"),
                                                 re.S).group(0))
        return Version(set(re.findall(r"v\.\d+\.>", own.group(1))) if may else set(), topics and plain(topics.group(1)),
                       {name for name in users if name.startswith("only-")}, hashlib.sha256(der[:4 + int.from_bytes(der[2:4])]).hexdigest()), ""


class World:
    def __init__(self, rig):
        self.rig, self.files = rig, Files(rig)
        self.files.write(1)
        self.broker = rig.broker("--config", self.files.config, "--listen", "tls://127.0.0.1:0", tcp=False)
        self.env = {"AMB_CA": str(rig.folder / "ca.pem"), "AMB_CREDENTIALS": str(self.files.token)}
        self.load()

    def load(self):
        url = self.broker.tls_url
        self.reader = self.rig.client("broker-ctl", "--url", url, "--client-name", "reader", "sub", "load", "--stats",
                                      env=self.env)
        self.writer = self.rig.client("broker-ctl", "--url", url, "--client-name", "writer", "pub", "load", "--size", 500,
                                      "--rate", 500, "--count", 1000000000, "--wait-subscribers", 1, env=self.env)
        until(30, lambda: len(self.sessions()) == 2, "both have a session")

    def sessions(self):
        return sorted((row["name"], row["id"]) for row in self.broker.clients() if row["user"] == "load")

    def descriptors(self):
        """Without those of segments, which come with what waits."""
        return sum("memfd" not in name for name in self.broker.descriptors())

    def ctl(self, *words):
        return subprocess.run([self.rig.program("broker-ctl"), "--url", self.broker.unix_url, "-o", "json",
                               *map(str, words)], capture_output=True, text=True, timeout=60, check=False)

    def reload(self, by_signal):
        """Whether it is in force, and its words."""
        if not by_signal:
            done = self.ctl("reload")
            check(done.returncode in (0, CONFIG), f"{done}")
            return done.returncode == 0, done.stdout + done.stderr
        before = len(ENDS.findall(self.broker.log()))
        self.broker.signal(signal.SIGHUP)
        until(30, lambda: len(ENDS.findall(self.broker.log())) > before, "it says what became of it")
        words = [line for line in self.broker.log().splitlines() if ENDS.search(line)][-1]
        return "refused" not in words, words

    def may_publish(self, number):
        done = self.ctl("user", "test", "probe", "publish", f"v.{number}.x")
        return done.returncode == 0 and json.loads(done.stdout)[0]["answer"] == "yes"

    def knows(self, number):
        done = self.ctl("user", "test", f"only-{number}", "publish", "x")
        check(done.returncode == 77 or "no user of that name" in done.stderr, f"{done}")
        return done.returncode == 77

    def certificate(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["amb/1"])
        with socket.create_connection(("127.0.0.1", port_of(self.broker.tls_url)), timeout=30) as plain:
            with context.wrap_socket(plain) as encrypted:
                return hashlib.sha256(encrypted.getpeercert(True)).hexdigest()

    def shows(self, expected, numbers, text):
        """Exactly these marks, of all of these versions."""
        for number in numbers:
            check(self.may_publish(number) == (f"v.{number}.>" in expected.roles), f"{text}: the role of {number}")
            check(self.knows(number) == (f"only-{number}" in expected.users), f"{text}: the user of {number}")
        rows = json.loads(self.ctl("quotas", "load").stdout)["quotas"]
        limit = next((str(row["limit"]) for row in rows if row["key"] == "topics" and row["of"] == "user"), None)
        check(limit == expected.topics or expected.topics == "default", f"{text}: topics {limit}, not {expected.topics}")
        check(self.certificate() == expected.certificate, f"{text}: the certificate")


def run_round(world, number, now, dice, counts):
    files = world.files
    files.write(number)
    what = dice.choice(("config", "config", "users", "users", "certificate", "key", "")) if dice.random() < .95 else ""
    how = files.spoil(what, dice) if what else "nothing is spoilt"
    judged, why = files.judged()
    is_taken, words = world.reload(dice.random() < .5)
    text = f"round {number}, {what} {how}: {words.strip()}"
    needs_restart = "need a restart" in words
    check(is_taken == (judged is not None) or needs_restart, f"{text}; another brokerd: {why or 'starts'}")
    if is_taken:
        counts[f"taken, spoilt {what}" if what else "taken"] += 1
    else:
        counts["need a restart" if needs_restart else f"refused, {what}"] += 1
    expected = judged if is_taken else now
    world.shows(expected, {number, number - 1}, text)
    return expected


def test(rig, options):
    seed = int(options.get("seed", time.time_ns() & 0xFFFFFF))
    rounds = int(options.get("rounds", 40))
    print(f"seed {seed}", flush=True)
    world, dice = World(rig), random.Random(seed)
    before = world.sessions()
    now, _ = world.files.judged()
    world.shows(now, {1}, "at the start")
    world.broker.looked_at()
    with world.broker.unobserved():
        descriptors = world.descriptors()
    counts = dict.fromkeys(("taken", "need a restart", *(f"{way} {what}" for what in ("config", "users", "certificate", "key")
                                                         for way in ("refused,", "taken, spoilt"))), 0)
    for number in range(2, rounds + 2):
        now = run_round(world, number, now, dice, counts)
        check(world.broker.is_running(), f"round {number}: brokerd has ended\n{world.broker.log()[-4000:]}")
    check(world.sessions() == before, f"sessions were lost: {world.sessions()}, not {before}")
    world.files.write(rounds + 2)
    world.reload(True)
    world.shows(world.files.judged()[0], {rounds + 2, rounds + 1}, "at the end")
    with world.broker.unobserved():
        until(20, lambda: world.descriptors() <= descriptors, f"there were {descriptors} descriptors")
    world.writer.signal(signal.SIGINT)
    world.writer.wait(30)
    world.reader.signal(signal.SIGINT)
    check(world.reader.wait(30) == 0, world.reader.log())
    stats = "\n".join(world.reader.all_lines())
    lost, messages = (int(re.search(rf"^ *{word} .*?(\d+)$", stats, re.M).group(1)) for word in ("lost", "messages"))
    check(lost == 0 and messages > 0, f"messages were lost: {stats}")
    refused = sum(number for key, number in counts.items() if key.startswith("refused"))
    for key, number in counts.items():
        print(f"  {key:26s} {number:5d}")
    print(f"{rounds} reloads: {refused} refused, all with the marks of what was in force before; {messages} messages, "
          "0 lost, 0 sessions lost", flush=True)
    check(refused > rounds // 5, "what is spoilt is refused")
    world.broker.stop()


if __name__ == "__main__":
    main(test, 3600, observers=())
