# SPDX-License-Identifier: Apache-2.0
"""The network swallows everything for a while, without a word to anybody, and comes back.

    holes_test.py [--rounds N] [--links stream,ucx,tls]

Two network namespaces stand for a broker's machine and for its clients'. Again and again their switch
drops all frames, in both directions, for longer than limits.peer_timeout. The broker must end the sessions
within peer_timeout + 1 s, and so must the clients, by their own clock. When frames pass again all come back. A
reader's gap is exact, and what a publisher with a name sent comes once and whole. One line for each link. An observer
on the broker's machine looks at it all the time.
"""
import json
import time

import pytest
from harness import LOOKS_MIN, Observer, check, patience, until
from machine import need_root, switched

SECONDS = 900
PEER_TIMEOUT = 2
TOKEN = "of-a-test"
# A port without its bridge has a carrier, and what comes to it goes nowhere.
SWALLOWS, PASSES = "link set port2 nomaster\n", "link set port2 master bridge0\n"


class Cloud:
    """A broker on one machine, and clients on another one, behind a switch that may swallow."""

    def __init__(self, rig):
        self.rig = rig
        self.head, self.other = switched(rig, "10.82.0", 2)
        if not self.head.has_sys:
            pytest.skip("no sysfs, where UCX looks for interfaces")
        folder = rig.folder / "tls"
        folder.mkdir()
        code, _, error = self.head.run("broker-ctl", "tls", "init", "--dir", str(folder), "--name", "10.82.0.1")
        check(code == 0, error)
        token = rig.folder / "token"
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        rig.env.update(AMB_TRUSTED="net0", AMB_CA=str(folder / "ca.pem"), AMB_CREDENTIALS=str(token))
        self.unix = f"unix://{rig.folder}/broker.sock"
        options = (f"tls.certificate={folder / 'server.pem'}", f"tls.key={folder / 'server.key'}",
                   f"auth.token_file={token}", "transports.trusted=[\"net0\"]", "server.workers=2",
                   f"limits.peer_timeout={PEER_TIMEOUT}s", "limits.heartbeat=500ms", "log.level=info", "server.insecure=true")
        self.broker = self.head.start(
            "brokerd", "--dev", "--listen", self.unix, "--listen", "tcp://10.82.0.1:0", "--listen",
            "tls://10.82.0.1:0", *(word for option in options for word in ("-o", option)))
        words = self.broker.expect("ready", 60)
        self.tcp, self.tls = (next(word for word in words if word.startswith(scheme))
                              for scheme in ("tcp:", "tls:"))
        self.asker = self.head.start("test-asker", self.unix)
        self.observer = Observer(rig, self.broker.pid, rig.folder / "broker.sock")

    def url(self, link):
        return f"{self.tls}?link=stream" if link == "tls" else f"{self.tcp}?link={link}"

    def ask(self, what):
        self.asker.tell(what)
        answer = json.loads(self.asker.line())
        return answer.get(what, answer)

    def far(self):
        """The numbers of sessions from the other machine that live."""
        return {row["id"] for row in self.ask("clients")
                if row.get("address", "").startswith("10.82.0.2") and row["state"] == "live"}

    def switch(self, lines):
        """The switch's port to the other machine."""
        problem = self.head.switch.ip(lines)
        check(problem is None, f"the switch: {problem}")

    def stop(self):
        if self.rig.looks < LOOKS_MIN:
            self.observer.does("all")
        self.observer.end()
        check(self.rig.looks >= LOOKS_MIN, f"the observer has looked {self.rig.looks} times")
        self.asker.end_input()
        self.asker.wait()
        self.broker.signal(15)
        check(self.broker.wait(30) == 0, self.broker.log()[-4000:])


class Pair:
    """Over one link: a reader and a publisher with a name on the other machine, and their partners here."""

    def __init__(self, cloud, link):
        self.link = link
        url, down, up = cloud.url(link), f"hole.down.{link}", f"hole.up.{link}"
        self.down, self.up = down, up
        self.reader = cloud.other.start("test-returner", url, down)
        self.near_reader = cloud.head.start("test-returner", cloud.unix, up)
        for process in (self.reader, self.near_reader):
            process.expect("ready", 30)
        self.writer = cloud.other.start("test-returner", url, "silence", up, f"named-{link}")
        self.near_writer = cloud.head.start("test-returner", cloud.unix, "silence", down)
        for process in (self.writer, self.near_writer):
            process.expect("ready", 30)
        for process in (self.reader, self.near_reader):
            process.expect("reads", 30)
        self.lost_ms, self.back_ms = [], []

    def hears(self, process, word, seconds, begin):
        """When it hears of that, in milliseconds from `begin` on."""
        deadline = time.monotonic() + seconds
        while True:
            line = process.line(max(0.1, deadline - time.monotonic())).split()
            if line[0] == word:
                return (time.monotonic() - begin) * 1000
            check(line[0] in ("reads", "gap", "restored", "lost"), f"{self.link}: {line}")

    def is_all_read(self, cloud):
        rows = [row for row in cloud.ask("subs") if row["pattern"] in (self.down, self.up)]
        return len(rows) == 2 and all(row["pending_bytes"] == 0 and row["outstanding"] == 0 for row in rows)

    def end(self, cloud):
        """What all of them have counted, once the writers have ended and the readers have all."""
        seen = {}
        for name in ("near_writer", "writer", "reader", "near_reader"):
            if name == "reader":
                until(20, lambda: self.is_all_read(cloud), f"{self.link}: all is read")
            process = getattr(self, name)
            process.end_input()
            while name not in seen:
                line = process.line(60).split()
                if line[0] == "sent":
                    seen[name] = {line[i]: int(line[i + 1]) for i in range(0, len(line), 2)}
            check(process.wait(30) == 0, f"{self.link}: {name}: {process.log()}")
        return seen


def one_hole(cloud, pairs):
    """How long it took the broker to end all sessions from there, in seconds."""
    before = cloud.far()
    check(len(before) == 2 * len(pairs), f"{len(before)} sessions")
    begin = time.monotonic()
    cloud.switch(SWALLOWS)
    until(PEER_TIMEOUT + 1, lambda: not before & cloud.far(), "the broker has ended its sessions")
    took = time.monotonic() - begin
    for pair in pairs:
        for process in (pair.reader, pair.writer):
            pair.lost_ms.append(pair.hears(process, "lost", patience(PEER_TIMEOUT + 2), begin))
    cloud.switch(PASSES)
    begin = time.monotonic()
    for pair in pairs:
        for process in (pair.reader, pair.writer):
            pair.back_ms.append(pair.hears(process, "restored", 30, begin))
    until(20, lambda: len(cloud.far()) == 2 * len(pairs), "all have come back")
    return took


def test_holes(rig, links, options):
    need_root("ip")
    links = [link for link in dict.fromkeys([*links, "tls"]) if link != "ring"]
    cloud = Cloud(rig)
    pairs = [Pair(cloud, link) for link in links]
    took = [one_hole(cloud, pairs) for _ in range(int(options.get("rounds", 2)))]
    check(min(took) >= PEER_TIMEOUT - 0.6, f"ended too early: {min(took):.2f} s")
    print(f"{len(took)} holes: the broker ended all within {max(took):.2f} s", flush=True)
    for pair in pairs:
        seen = pair.end(cloud)
        down, up = seen["reader"], seen["near_reader"]
        check(down["received"] + down["lost"] == seen["near_writer"]["sent"] and down["lost"] == down["missing"],
              f"{pair.link}: a gap that is not exact: {seen}")
        check(up["received"] == seen["writer"]["sent"] and up["missing"] == 0,
              f"{pair.link}: of a publisher with a name: {seen}")
        check(down["lost"] > 0, f"{pair.link}: nothing was lost in a hole of {PEER_TIMEOUT} s")
        check(max(pair.lost_ms) < patience(PEER_TIMEOUT + 1) * 1000,
              f"{pair.link}: a client noticed after {max(pair.lost_ms):.0f} ms")
        print(f"{pair.link}: {len(pair.lost_ms)} sessions lost, noticed after at most {max(pair.lost_ms):.0f} ms, back "
              f"after at most {max(pair.back_ms):.0f} ms; {down['received']} read and {down['lost']} told as lost "
              f"of {seen['near_writer']['sent']}; {up['received']} of {seen['writer']['sent']} from the publisher",
              flush=True)
    cloud.stop()
