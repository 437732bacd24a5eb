# SPDX-License-Identifier: Apache-2.0
"""Names of interfaces: brokerd listens by name, clients connect by name, and wrong names.

    interface_test.py

Two network namespaces stand for two machines. Two veth pairs join them:

    here    amb0  10.77.0.1, 10.77.1.1 (alias amb0:1), fd77::1, fe80::1     amb1  10.78.0.1
    there   cli0  10.77.0.2, fd77::2, fe80::2                               cli1  10.78.0.2

Here also bare0 is up without an address, and down0 is down.
"""
import json
import os
import shutil
import subprocess

import pytest
from harness import PATIENT, check, until

SECONDS = 200
USAGE, DATA, NO_BROKER, CONFIG = 64, 65, 69, 78
PORT = 4733
INSECURE = ("-o", "server.insecure=true")

SETUP = """
link add amb0 type veth peer name cli0 netns {there}
link add amb1 type veth peer name cli1 netns {there}
link add bare0 type veth peer name bare1
link add down0 type veth peer name down1
link set lo up
addr add 10.77.0.1/24 dev amb0
addr add 10.77.1.1/24 dev amb0 label amb0:1
addr add 10.78.0.1/24 dev amb1
link set amb0 addrgenmode none
link set bare0 addrgenmode none
link set amb0 up
link set amb1 up
link set bare0 up
link set bare1 up
addr add fd77::1/64 dev amb0 nodad
addr add fe80::1/64 dev amb0 nodad
"""
SETUP_THERE = """
link set lo up
link set cli0 addrgenmode none
link set cli1 addrgenmode none
addr add 10.77.0.2/24 dev cli0
addr add 10.78.0.2/24 dev cli1
link set cli0 up
link set cli1 up
route add 10.77.1.0/24 dev cli0
addr add fd77::2/64 dev cli0 nodad
addr add fe80::2/64 dev cli0 nodad
"""
# A packet may come by one pair and its answer leave by the other.
LOOSE = "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done"


class Machine:
    """A network namespace, which lives as long as a process in it."""

    def __init__(self, rig):
        self.rig = rig
        holder = rig.start(["sh", "-c", "echo up; exec sleep 1000"], prefix=("unshare", "--net"))
        holder.expect("up")
        self.pid = holder.pid
        self.prefix = ("nsenter", f"--net=/proc/{self.pid}/ns/net")

    def ip(self, lines):
        done = subprocess.run([*self.prefix, "ip", "-batch", "-"], input=lines.encode(),
                              capture_output=True, check=False)
        return done.stderr.decode() if done.returncode != 0 else None

    def run(self, program, *arguments, seconds=30):
        """The exit status, standard output and standard error."""
        done = subprocess.run([*self.prefix, self.rig.program(program), *map(str, arguments)],
                              capture_output=True, timeout=seconds, check=False,
                              env={**os.environ, **self.rig.env})
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def fails(self, status, words, program, *arguments):
        got, _, text = self.run(program, *arguments)
        what = f"{program} {' '.join(map(str, arguments))}"
        check(got == status, f"{what}: {got}, not {status}: {text}")
        for word in words:
            check(word in text, f"{what}: nothing of '{word}' in: {text}")

    def fails_to_connect(self, status, words, url):
        self.fails(status, words, "broker-ctl", "--url", url, "pub", "a.b", "--count", 1)

    def reaches(self, url):
        got, _, text = self.run("broker-ctl", "--url", url, "pub", "a.b", "--count", 1)
        check(got == 0, f"{url}: {got} {text}")


class Listener:
    """A brokerd that listens in a namespace."""

    def __init__(self, here, *arguments):
        self.here = here
        self.socket = here.rig.folder / f"broker-{here.rig.started}.sock"
        listen = ("--listen", f"unix://{self.socket}")
        self.process = here.rig.start(
            [here.rig.program("brokerd"), "--dev", *PATIENT, *listen, *arguments],
            prefix=here.prefix)
        self.urls = self.process.expect("ready", 60)[2:]

    def clients(self):
        got, text, error = self.here.run("broker-ctl", "--url", f"unix://{self.socket}", "-o", "json",
                                         "clients")
        check(got == 0, f"clients: {got} {error}")
        return json.loads(text)["clients"]

    def address_of(self, name):
        """Where that client comes from; None: it is not there."""
        return next((row["address"].rsplit(":", 1)[0] for row in self.clients() if row["name"] == name),
                    None)

    def stop(self):
        self.process.signal(15)
        status = self.process.wait()
        check(status == 0, f"brokerd ended with {status}\n{self.process.log()[-4000:]}")


@pytest.fixture
def machines(rig):
    if os.geteuid() != 0:
        pytest.skip("not root")
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    done = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no network namespaces: {done.stderr}")
    here, there = Machine(rig), Machine(rig)
    for machine, lines in ((here, SETUP.format(there=there.pid)), (there, SETUP_THERE)):
        problem = machine.ip(lines)
        check(problem is None, f"ip -batch: {problem}")
        subprocess.run([*machine.prefix, "sh", "-c", LOOSE], check=True)
    return here, there


def test_a_broker_listens_by_name(machines):
    here, there = machines
    broker = Listener(here, "--listen", f"tcp://amb0:{PORT}", *INSECURE)
    expected = ["10.77.0.1", "10.77.1.1", "[fd77::1]", "[fe80::1%amb0]"]
    check(sorted(broker.urls) == sorted(f"tcp://{a}:{PORT}" for a in expected), f"{broker.urls}")
    for url in broker.urls[:3]:
        there.reaches(url)
    there.reaches(f"tcp://[fe80::1%cli0]:{PORT}")
    for address in ("127.0.0.1", "10.78.0.1", "[::1]"):
        here.fails_to_connect(NO_BROKER, ["refused"], f"tcp://{address}:{PORT}")
    broker.stop()


def test_a_name_of_loopback_needs_no_consent(machines):
    here, _ = machines
    broker = Listener(here, "--listen", f"tcp://lo:{PORT}")
    check(broker.urls == [f"tcp://127.0.0.1:{PORT}", f"tcp://[::1]:{PORT}"], f"{broker.urls}")
    here.reaches(f"tcp://127.0.0.1:{PORT}")
    broker.stop()
    here.fails(CONFIG, ["tcp://amb0:4733 is reachable from other machines", "server.insecure"],
               "brokerd", "--dev", "--listen", f"tcp://amb0:{PORT}")


def test_a_client_connects_by_name(machines):
    here, there = machines
    broker = Listener(here, "--listen", f"tcp://[::]:{PORT}", *INSECURE)
    ways = [("10.77.0.1", "", "10.77.0.2"),
            ("10.77.0.1", "interface=cli0", "10.77.0.2"),
            ("10.77.0.1", "interface=cli1", "10.78.0.2"),
            ("10.77.0.1", "interface=cli1&link=stream", "10.78.0.2"),
            ("[fd77::1]", "interface=cli0", "fd77::2"),
            ("[fe80::1]", "interface=cli0", "fe80::2"),
            ("[fe80::1%cli0]", "", "fe80::2")]
    for number, (host, option, source) in enumerate(ways):
        url = f"tcp://{host}:{PORT}" + (f"?{option}" if option else "")
        name = f"way-{number}"
        client = there.rig.start([there.rig.program("broker-ctl"), "--url", url, "--client-name", name,
                                  "sub", "a.>"], prefix=there.prefix)
        address = until(20, lambda name=name: broker.address_of(name), f"{url} connects")
        check(source in address, f"{url} comes from {address}, not from {source}")
        client.signal(15)
        client.wait()
    broker.stop()


def test_a_client_s_wrong_names(machines):
    here, there = machines
    broker = Listener(here, "--listen", f"tcp://amb0:{PORT}", *INSECURE)
    wrong = [(f"tcp://10.77.0.1:{PORT}?interface=none0",
              ["none0: there is no interface with this name", "there are lo, cli0, cli1"]),
             (f"tcp://[fd77::1]:{PORT}?interface=cli1", ["cli1 has no IPv6 address"]),
             (f"tcp://10.77.0.1:{PORT}?interface=cli0:1", ["an alias is no interface"]),
             (f"tcp://10.77.0.1:{PORT}?interface=sixteen-bytes-it", ["longer than 15 bytes"]),
             (f"tcp://[fe80::1%cli0]:{PORT}?interface=cli1", ["cli1 is another one"]),
             (f"tcp://[fe80::1]:{PORT}", ["needs the name of one", "there are lo, cli0, cli1"]),
             (f"tcp://[fe80::1%none0]:{PORT}", ["there is no interface none0"]),
             (f"tcp://cli0:1:{PORT}", ["an alias"]),
             (f"tcp://cli0:{PORT}", ["cli0 is an interface of this machine and no host",
                                     f"tcp://HOST:{PORT}?interface=cli0", f"tcp://10.77.0.2:{PORT}",
                                     f"tcp://[fd77::2]:{PORT}"])]
    for url, words in wrong:
        there.fails_to_connect(USAGE, words, url)
    here.fails_to_connect(USAGE, ["down0: the interface is down"],
                          f"tcp://10.77.0.1:{PORT}?interface=down0")
    here.fails_to_connect(USAGE, ["bare0: the interface has no address"],
                          f"tcp://10.77.0.1:{PORT}?interface=bare0")
    there.reaches(f"tcp://10.77.0.1:{PORT}?interface=cli0")
    broker.stop()


def resolver_answers(machine):
    """Does a name that nobody has get an answer there, or only no server?"""
    script = ("import socket\ntry: socket.getaddrinfo('none0', 1)\n"
              "except socket.gaierror as error: print(error.errno == socket.EAI_AGAIN)")
    done = subprocess.run([*machine.prefix, "python3", "-c", script], capture_output=True, timeout=60,
                          check=True)
    return b"True" not in done.stdout


def test_a_broker_s_wrong_names(machines):
    here, _ = machines
    names = ["amb0", "amb1", "bare0 (no address)", "down0 (down)"]
    wrong = [("none0", ["there is no interface none0", *names]),
             ("amb0.5", ["there is no interface amb0.5", *names]),
             ("bare0", ["bare0: the interface has no address", *names]),
             ("down0", ["down0: the interface is down", *names]),
             ("amb0:1", ["an alias"]),
             ("[fe80::1]", ["needs the name of one", *names]),
             ("[fe80::1%none0]", ["there is no interface none0", *names])]
    if not resolver_answers(here):
        wrong = wrong[2:]  # "There is none" cannot be said; the door says so and ends with 69.
    for host, words in wrong:
        url = f"tcp://{host}:{PORT}"
        here.fails(CONFIG, words, "brokerd", "--dev", *INSECURE, "--listen", url)
        here.fails(CONFIG, words, "brokerd", "--dev", *INSECURE, "--listen", url, "--test-config")
        config = here.rig.folder / "wrong.conf"
        config.write_text(f'server = {{ insecure = true; }};\nlisten = ( "{url}" );\n')
        here.fails(CONFIG, [f"{config}:2: listen: ", *words], "brokerd", "--config", config)
    here.fails(CONFIG, ["interface is for clients", "tcp://amb0:4733"], "brokerd", "--dev", *INSECURE,
               "--listen", f"tcp://0.0.0.0:{PORT}?interface=amb0")


def test_a_reload_tells_of_an_interface_that_is_gone(machines):
    here, _ = machines
    broker = Listener(here, "--listen", f"tcp://amb1:{PORT}", *INSECURE)
    for change, word in (("link set amb1 down\n", "amb1: the interface is down"),
                         ("link del amb1\n", "the interface amb1 is gone")):
        problem = here.ip(change)
        check(problem is None, f"ip: {problem}")
        broker.process.signal(1)
        until(10, lambda word=word: word in broker.process.log(), word)
    check("reload refused, the configuration in force stays" in broker.process.log(), "refused")
    broker.stop()


def lines_of(machine, *arguments):
    got, text, error = machine.run("broker-ctl", "address", *arguments)
    check(got == 0, f"address {arguments}: {got} {error}")
    return text.splitlines()


def test_addresses_for_others(machines):
    here, there = machines
    first = ["tcp://10.77.0.1:4733", "tcp://10.77.1.1:4733", "tcp://[fd77::1]:4733"]
    check(lines_of(here, "--interface", "amb0") == first, "of amb0")
    rows = json.loads("".join(lines_of(here, "-o", "json")))
    check({row["interface"] for row in rows} == {"amb0", "amb1"}, f"{rows}")
    check({row["family"] for row in rows} == {"IPv4", "IPv6"}, f"{rows}")
    check(lines_of(here, "--interface", "amb1", "--url", "tcp://x:5000") == ["tcp://10.78.0.1:5000"],
          "the port of --url")
    config = here.rig.folder / "good.conf"
    socket = here.rig.folder / "good.sock"
    config.write_text("server = { insecure = true; };\n"
                      f'listen = ( "unix://{socket}", "tcp://amb0:{PORT}", "tcp://lo:{PORT}" );\n'
                      'memory = { host = { size = "64M"; segment = "16M"; }; };\n')
    check(lines_of(here, "--config", config) == first, "of a configuration")
    check(lines_of(here, "--config", config, "--interface", "lo")
          == [f"tcp://127.0.0.1:{PORT}", f"tcp://[::1]:{PORT}"], "of a configuration, on lo")
    here.fails(DATA, ["on that interface"], "broker-ctl", "address", "--config", config, "--interface",
               "amb1")
    here.fails(USAGE, ["none0: there is no interface", "amb0, amb1"], "broker-ctl", "address",
               "--interface", "none0")

    broker = here.rig.start([here.rig.program("brokerd"), "--config", str(config)], prefix=here.prefix)
    broker.expect("ready", 60)
    for url in lines_of(here, "--config", config):
        there.reaches(url)
    example = str(here.rig.build / "docs" / "examples" / "example-address")
    for arguments, expected in (([], first[0]), (["amb1"], "tcp://10.78.0.1:4733"),
                                (["lo"], "tcp://127.0.0.1:4733")):
        done = subprocess.run([*here.prefix, example, *arguments], capture_output=True, text=True,
                              check=False)
        check(done.stdout == f"{expected}\n", f"amb_interface_address {arguments}: {done}")
    done = subprocess.run([*here.prefix, example, "bare0"], capture_output=True, text=True, check=False)
    check(done.returncode == 1 and "bare0: the interface has no address" in done.stderr, f"{done}")
    broker.signal(15)
    check(broker.wait() == 0, broker.log())


def test_an_interface_that_comes_back_is_waited_for(machines):
    here, there = machines
    listen = ("--listen", f"tcp://amb0:{PORT}", *INSECURE)
    broker = Listener(here, *listen)
    url = f"tcp://10.77.0.1:{PORT}?interface=cli1"
    client = there.rig.start([there.rig.program("broker-ctl"), "--url", url, "--client-name", "stays",
                              "sub", "a.>", "--reconnect"], prefix=there.prefix)
    until(20, lambda: broker.address_of("stays"), "the client connects")
    broker.stop()
    check(there.ip("addr del 10.78.0.2/24 dev cli1\n") is None, "the address goes")
    broker = Listener(here, *listen)
    there.fails_to_connect(USAGE, ["cli1: the interface has no address"], url)
    check(client.is_running(), f"it has given up: {client.log()}")
    check(broker.address_of("stays") is None, "it is there without its interface")
    check(there.ip("addr add 10.78.0.2/24 dev cli1\n") is None, "the address comes back")
    until(30, lambda: broker.address_of("stays"), "the client comes back")
    client.signal(15)
    client.wait()
    broker.stop()
