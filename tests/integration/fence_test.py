# SPDX-License-Identifier: Apache-2.0
"""The fence around UCX's ports, as docs/security.md has it: nftables, tools/ucx-fence, and no port at all
where no interface is trusted.

    fence_test.py

Three network namespaces stand for three machines: head (10.80.0.1), peer (.2) and stranger (.3). The
configurations and the rules of nftables are those of the page, with other folders and interfaces. What
ucx-fence makes of events is tried with a broker-ctl and an nft of the test's, which need no rights.
"""
import json
import pathlib
import re
import sys

import pytest
from harness import PATIENT, check, until
from machine import need_root, switched

SECONDS = 240
ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = str(ROOT / "tools" / "ucx-fence")
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
USAGE, NO_BROKER, FORBIDDEN, ENDED = 64, 69, 77, 75
CONNECT = ("import socket, sys\n"
           "try:\n"
           "    socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])).close()\n"
           "    print('open')\n"
           "except TimeoutError:\n"
           "    print('silent')\n"
           "except ConnectionRefusedError:\n"
           "    print('closed')\n")
LIFETIME = 3


def blocks(kind):
    """The page's code of that kind below its heading on the fence."""
    part = PAGE[PAGE.index("### A fence"):]
    return re.findall(rf"^```{kind}\n(.*?)^```", part, re.M | re.S)


class Fabric:
    """The page's example: a broker, its firewall, and what the other machines see of it."""

    def __init__(self, rig):
        self.rig = rig
        self.head, self.peer, self.stranger = switched(rig, "10.80.0", 3)
        if not self.head.has_sys:
            pytest.skip("no sysfs, where UCX looks for interfaces")
        if self.head.command("nft", "list", "ruleset").returncode != 0:
            pytest.skip("no nftables in a network namespace")
        (rig.folder / "tls").mkdir()
        code, _, error = self.head.run("broker-ctl", "tls", "init", "--dir", str(rig.folder / "tls"),
                                       "--name", "10.80.0.1")
        check(code == 0, error)
        token = rig.folder / "token"
        token.write_text("of a test\n")
        token.chmod(0o600)
        broker, client = (block for block in blocks("") if "transports" in block)
        self.config = self._write("broker.conf", broker)
        self.url = f"unix://{rig.folder}/broker.sock"
        rig.env = {"LC_ALL": "C", "AMB_TRUSTED": "", "AMB_URL": "",
                   "AMB_CONFIG": str(self._write("client.conf", client))}
        self.start()

    def _write(self, name, text):
        path = self.rig.folder / name
        text = text.replace("/etc/ambroker", str(self.rig.folder)).replace("fab0", "net0")
        path.write_text(text.replace("/run/ambroker", str(self.rig.folder)))
        return path

    def start(self):
        self.broker = self.head.start("brokerd", "--config", str(self.config), *PATIENT)
        self.broker.expect("ready", 60)

    def load(self, machine, rules):
        path = self.rig.folder / "rules.nft"
        path.write_text(rules)
        done = machine.command("nft", "-f", str(path))
        check(done.returncode == 0, f"{rules}: {done.stderr}")

    def fence(self):
        """Under the restrictions of its unit, where this machine can show them."""
        under = [sys.executable, str(ROOT / "tests/support/under_unit.py"),
                 str(ROOT / "etc/ambroker-fence.service")]
        if self.head.command(*under, "true").returncode != 0:
            under = []
        return self.rig.start(
            [*self.head.prefix, "setpriv", "--bounding-set", "-all,+net_admin", *under, FENCE, "--url",
             self.url, "--ctl", self.rig.program("broker-ctl"), "--lifetime", str(LIFETIME), "--every",
             "0.5"])

    def clients(self):
        code, text, error = self.head.run("broker-ctl", "--url", self.url, "-o", "json", "clients")
        check(code == 0, error)
        return json.loads(text)["clients"]

    def ports(self):
        """Those of UCX: what listens on the head, but for the broker's own door."""
        text = self.head.command("ss", "-ltnH").stdout
        every = {int(line.split()[3].rsplit(":", 1)[1]) for line in text.splitlines()}
        return sorted(every - {4733})

    def tries(self, machine, address="10.80.0.1", port=None, seconds=1.5):
        """What a connection from there meets: open, closed, or silent where packets are dropped."""
        done = machine.command(sys.executable, "-c", CONNECT, address, str(port or self.ports()[0]),
                               str(seconds))
        return done.stdout.strip() or done.stderr

    def inside(self, name="peers4"):
        done = self.head.command("nft", "-j", "list", "set", "inet", "ucx_fence", name)
        check(done.returncode == 0, done.stderr)
        rows = json.loads(done.stdout)["nftables"][-1]["set"].get("elem", [])
        return {row["elem"]["val"] if isinstance(row, dict) else row for row in rows}

    def dropped(self):
        return int(re.search(r"counter packets (\d+)", self.head.command(
            "nft", "list", "chain", "inet", "ucx_fence", "ucx").stdout).group(1))

    def subscribe(self, machine, pattern="a.>", count="1"):
        reader = machine.start("broker-ctl", "--client-name", pattern, "sub", pattern, "--count", count)
        until(30, lambda: [row for row in self.clients() if row["name"] == pattern], "it is there")
        return reader

    def publish(self, topic="a.b", text="hello"):
        done = self.head.command(self.rig.program("broker-ctl"), "--url", self.url, "pub", topic,
                                 text=text)
        check(done.returncode == 0, done.stderr)


@pytest.fixture
def fabric(rig, links):
    need_root("ip", "nft", "ss", "setpriv")
    if "ucx" not in links:
        pytest.skip("no UCX")
    return Fabric(rig)


def test_a_peer_comes_in_and_a_stranger_does_not(fabric):
    """Show: a client that has logged in connects; the packets of another are dropped."""
    check(fabric.ports() == [], f"a UCX port before a client asks: {fabric.ports()}")
    reader = fabric.subscribe(fabric.peer)
    check([row["link"] for row in fabric.clients() if row["name"] == "a.>"] == ["ucx"], "not by ucx")
    check(all(5000 <= port <= 5100 for port in fabric.ports()) and fabric.ports(), f"{fabric.ports()}")
    check(fabric.tries(fabric.stranger) == "open", "without a fence anybody may knock")
    fabric.publish()
    check(reader.wait(30) == 0, reader.log())

    fabric.load(fabric.head, blocks("nft")[0])
    fence = fabric.fence()
    until(20, lambda: "the broker answers" in fence.log(), fence.log())
    for machine in (fabric.stranger, fabric.peer, fabric.head):
        check(fabric.tries(machine) == "silent", "nobody has logged in")
    check(fabric.dropped() >= 3, "what is dropped is counted")

    reader = fabric.subscribe(fabric.peer)
    until(20, lambda: fabric.inside() == {"10.80.0.2"}, f"its address is in: {fence.log()}")
    check(fabric.tries(fabric.peer) == "open", "the peer's machine")
    before = fabric.dropped()
    check(fabric.tries(fabric.stranger) == "silent" and fabric.dropped() > before, "a stranger's SYN")
    fabric.publish()
    check(reader.wait(60) == 0 and reader.line() == "hello", f"over the fence: {reader.log()}")
    until(20, lambda: fabric.inside() == set(), f"its address is out: {fence.log()}")
    check(fabric.tries(fabric.peer) == "silent", "the peer has gone")
    fence.signal(15)
    check(fence.wait() == 0, fence.log())


def test_a_machine_with_two_clients_and_one_without_ucx(rig, fabric):
    """An address stays until its last ucx client has gone; a stream gives none; an event cannot be
    forged."""
    fabric.load(fabric.head, blocks("nft")[0])
    fence = fabric.fence()
    until(20, lambda: "the broker answers" in fence.log(), fence.log())
    first, second = fabric.subscribe(fabric.peer, "a.>"), fabric.subscribe(fabric.peer, "b.>")
    by_stream = rig.folder / "stream.conf"
    by_stream.write_text(pathlib.Path(rig.env["AMB_CONFIG"]).read_text().replace("link=ucx", "link=stream"))
    rig.env["AMB_CONFIG"] = str(by_stream)
    third = fabric.subscribe(fabric.stranger, "c.>")
    until(20, lambda: fabric.inside() == {"10.80.0.2"}, fence.log())
    first.kill()
    until(20, lambda: "a.>" not in [row["name"] for row in fabric.clients()], "the first has gone")
    forged = fabric.stranger.command(
        rig.program("broker-ctl"), "pub", "$SYS.client.come",
        text='{"client": 99, "name": "x", "address": "10.80.0.3:1", "link": "ucx"}')
    check(forged.returncode not in (0, NO_BROKER, ENDED), f"a client publishes events: {forged}")
    for _ in range(20):
        check(fabric.inside() == {"10.80.0.2"}, f"{fabric.inside()} {fence.log()}")
    second.kill()
    until(20, lambda: fabric.inside() == set(), fence.log())
    check(third.is_running(), third.log())


def test_it_closes_by_itself(fabric):
    """Where ucx-fence is killed, and where the broker is; both come back."""
    fabric.load(fabric.head, blocks("nft")[0])
    fence = fabric.fence()
    reader = fabric.subscribe(fabric.peer)
    until(20, lambda: fabric.inside() == {"10.80.0.2"}, fence.log())
    fence.kill()
    until(20, lambda: fabric.inside() == set(), "the address ends")
    check(fabric.tries(fabric.peer) == "silent", "closed")
    fence = fabric.fence()
    until(20, lambda: fabric.inside() == {"10.80.0.2"}, fence.log())
    fabric.publish()
    check(reader.wait(60) == 0 and reader.line() == "hello", f"it goes on: {reader.log()}")

    reader = fabric.subscribe(fabric.peer, "b.>")
    until(20, lambda: fabric.inside() == {"10.80.0.2"}, fence.log())
    fabric.broker.kill()
    until(20, lambda: fabric.inside() == set() and "no answer of the broker" in fence.log(), fence.log())
    reader.kill()
    fabric.start()
    until(20, lambda: fence.log().count("the broker answers") == 2, fence.log())
    reader = fabric.subscribe(fabric.peer)
    until(20, lambda: fabric.inside() == {"10.80.0.2"}, fence.log())
    fabric.publish()
    check(reader.wait(60) == 0, reader.log())


def test_a_clients_own_fence(fabric):
    """The page's rules for a client: the broker alone comes in, and its link works."""
    reader = fabric.subscribe(fabric.peer)
    text = fabric.peer.command("ss", "-ltnH").stdout
    port = int(text.split()[3].rsplit(":", 1)[1])
    check(5000 <= port <= 5100, text)
    check(fabric.tries(fabric.stranger, "10.80.0.2", port) == "open", "without rules")
    fabric.load(fabric.peer, blocks("nft")[1])
    check(fabric.tries(fabric.stranger, "10.80.0.2", port) == "silent", "a stranger")
    check(fabric.tries(fabric.head, "10.80.0.2", port) == "open", "the broker's machine")
    fabric.publish()
    check(reader.wait(30) == 0, reader.log())
    reader = fabric.subscribe(fabric.peer)
    fabric.publish()
    check(reader.wait(30) == 0 and reader.line() == "hello", reader.log())


def test_without_trusted_interfaces_there_is_no_port(fabric):
    """transports.trusted is empty: `ss -ltn` shows the broker's door alone, whatever clients ask for."""
    reader = fabric.subscribe(fabric.peer)
    check(fabric.ports() != [], "with an interface there is one")
    reader.kill()
    fabric.broker.signal(15)
    check(fabric.broker.wait() == 0, fabric.broker.log())
    text = fabric.config.read_text()
    check('trusted = ( "net0" )' in text, text)
    fabric.config.write_text(text.replace('trusted = ( "net0" )', "trusted = ( )"))
    fabric.start()
    for _ in range(3):
        code, _, error = fabric.peer.run("broker-ctl", "sub", "a.>", "--timeout", "5")
        check(code == USAGE and "trusts no interface" in error, f"{code} {error}")
        check(fabric.ports() == [], f"{fabric.ports()}")


# ---- what ucx-fence makes of events, with no firewall and no broker ----

CTL = """#!/bin/sh
case " $* " in
*" sub "*) cat "{folder}/events"; echo >"{folder}/told"; exec sleep 100 ;;
*) cat "{folder}/clients" ;;
esac
"""
NFT = """#!/bin/sh
[ ! -e "{folder}/broken" ] || {{ echo "Error: No such file" >&2; exit 1; }}
cat >>"{folder}/nft"
"""


class Pretended:
    def __init__(self, rig, events=(), clients=(), more=None):
        self.rig, self.folder = rig, rig.folder
        (self.folder / "events").write_text("".join(f"{event}\n" for event in events))
        answer = {"clients": [{"id": i, "address": a, "link": link} for i, a, link in clients]}
        (self.folder / "clients").write_text(json.dumps({**answer, **(more or {})}))
        for name, text in (("ctl", CTL), ("nft-of-test", NFT)):
            path = self.folder / name
            path.write_text(text.format(folder=self.folder))
            path.chmod(0o755)

    def start(self, *options):
        return self.rig.start([FENCE, "--ctl", str(self.folder / "ctl"), "--nft",
                               str(self.folder / "nft-of-test"), "--every", "1", *options])

    def said(self):
        path = self.folder / "nft"
        return path.read_text() if path.exists() else ""

    def inside(self, version=4):
        """By the statements that nft was given."""
        now = set()
        for verb, name, words in re.findall(
                r"^(flush|add|delete) (?:set|element) inet ucx_fence (\w+)(?: \{ (.*) \})?$", self.said(), re.M):
            if name == f"peers{version}":
                words = {word.split()[0] for word in words.split(", ") if word}
                now = set() if verb == "flush" else now | words if verb == "add" else now - words
        return now


def come(client, address, link="ucx"):
    return json.dumps({"client": client, "name": "}; flush ruleset #", "address": address, "link": link})


def gone(client, address):
    return json.dumps({"client": client, "address": address, "link": "ucx", "kind": "left"})


def test_addresses_of_all_kinds(rig):
    """IPv4, IPv6, one in the other, with a scope; none of Unix sockets; text never reaches nft."""
    world = Pretended(rig, (), [(1, "10.0.0.1:40", "ucx"), (2, "[fd00::7]:41", "ucx"),
                                (3, "[::ffff:10.0.0.2]:42", "ucx"), (4, "[fe80::1%net0]:43", "ucx"),
                                (5, "unix", "ucx"), (6, "10.0.0.3:1", "stream"), (7, "", "ucx"),
                                (8, "10.0.0.4; flush ruleset:1", "ucx")])
    fence = world.start("--table", "inet ucx_fence")
    until(20, lambda: world.inside(6), world.said())
    check(world.inside(4) == {"10.0.0.1", "10.0.0.2"}, world.said())
    check(world.inside(6) == {"fd00::7", "fe80::1"}, world.said())
    check("ruleset" not in world.said() and "timeout 30s" in world.said(), world.said())
    fence.signal(15)
    check(fence.wait() == 0, fence.log())


def test_events_that_overtake_each_other_and_that_are_none(rig):
    """A client's end may be heard of before its beginning; garbage changes nothing."""
    world = Pretended(rig, ["no JSON", "[]", "{}", '{"client": "1"}', "\x00\xff", gone(9, "10.0.0.9:1"),
                            come(9, "10.0.0.9:1"), come(1, "10.0.0.1:1"), come(2, "10.0.0.1:2"),
                            gone(1, "10.0.0.1:1"), come(3, "10.0.0.3:1", "ring")],
                      more={"not_shown": 1})  # so that the view takes nothing away
    fence = world.start()
    until(20, lambda: (rig.folder / "told").exists() and world.inside() == {"10.0.0.1"}, "all is told")
    check("10.0.0.9" not in world.said() and "10.0.0.3" not in world.said(), world.said())
    check(fence.log().count("an event that is none was left out") == 5, fence.log())


def test_a_view_has_the_last_word(rig):
    """An event was lost: what the view does not have goes, what it has comes."""
    world = Pretended(rig, [come(1, "10.0.0.1:1")], [(2, "10.0.0.2:1", "ucx")])
    world.start()
    until(20, lambda: (rig.folder / "told").exists() and world.inside() == {"10.0.0.2"}, world.said())


CTL_THAT_ENDS = """#!/bin/sh
case " $* " in
*" sub "*)
    cat "{folder}/events"
    [ -e "{folder}/told" ] && exec sleep 100
    echo >"{folder}/told"
    exit 69 ;;
*) cat "{folder}/clients" ;;
esac
"""


def test_another_broker_counts_its_clients_anew(rig):
    """Numbers of clients begin at 1 again: that such a number has gone says nothing of its new owner."""
    world = Pretended(rig, [come(1, "10.0.0.1:1"), gone(1, "10.0.0.1:1"), come(1, "10.0.0.2:7")],
                      more={"not_shown": 1})
    world.start()
    until(20, lambda: world.inside() == {"10.0.0.2"}, world.said())


def test_events_that_were_missed_open_nothing_for_long(rig):
    """The view shows some clients alone, and the events end: a client that is not shown may have gone."""
    world = Pretended(rig, [come(1, "10.0.0.1:1"), come(2, "10.0.0.2:1")], [(2, "10.0.0.2:1", "ucx")],
                      more={"not_shown": 1})
    (rig.folder / "ctl").write_text(CTL_THAT_ENDS.format(folder=rig.folder))
    world.start()
    until(20, lambda: "10.0.0.1" in world.said(), "it comes")
    (rig.folder / "events").write_text("")
    until(20, lambda: world.inside() == {"10.0.0.2"}, world.said())


def test_without_sets_or_rights_it_ends(rig):
    world = Pretended(rig)
    (rig.folder / "broken").touch()
    fence = world.start()
    check(fence.wait() == NO_BROKER and "nft: Error: No such file" in fence.log(), fence.log())
    for options in (("--nft", "/none/nft"), ("--ctl", "/none/ctl")):
        (rig.folder / "broken").unlink(missing_ok=True)
        fence = Pretended(rig).start(*options)
        check(fence.wait() == NO_BROKER and "is not there" in fence.log(), fence.log())


@pytest.mark.parametrize("options", (("--lifetime", "1"), ("--lifetime", "90000"), ("--every", "0"),
                                     ("--every", "nan"), ("--set4", "a; flush"), ("--table", "inet {"), ("--table", ""),
                                     ("--table", "inet a\nflush ruleset\ntable inet b"),
                                     ("--none",), ("stray",)))
def test_options_that_are_refused(rig, options):
    fence = Pretended(rig).start(*options)
    check(fence.wait() == USAGE and fence.log().startswith("usage: "), f"{options}: {fence.log()}")


def test_help(rig):
    fence = rig.start([FENCE, "--help"])
    text = "\n".join(fence.all_lines())
    check(fence.wait() == 0 and "docs/security.md" in text, text)


def test_the_manual_page_has_its_options_and_the_rules(rig):
    """With the defaults that it has. The rules are those of docs/security.md."""
    text = (ROOT / "docs/man/ucx-fence.8").read_text(encoding="utf-8").replace("\\-", "-")
    fence = rig.start([FENCE, "--help"])
    usage = "\n".join(fence.all_lines()).split("options:")[1]
    options = set(re.findall(r"--[a-z0-9]+", usage)) - {"--help"}
    described = {f"-{name}": words for name, words in re.findall(r"^\.It Fl (-\w+) Ar \w+\n(.*)$", text, re.M)}
    check(set(described) == options and len(options) == 8, f"{set(described) ^ options}")
    source = pathlib.Path(FENCE).read_text(encoding="utf-8")
    for name, default in re.findall(r'add_argument\("(--\w+)", .*default="?([^")]+)', source):
        check(f"(default: {default})" in described[name], f"{name}: {described[name]}, and not {default}")
    check(f"\n{blocks('nft')[0]}.Ed\n" in text, "the rules of the page")
