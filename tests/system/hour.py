# SPDX-License-Identifier: Apache-2.0
"""The first hour of an operator: packages, a service, programs, a scrape; then four things go wrong, and each is
found with broker-ctl alone. The commands and what they printed are left in build/debian/hour.txt.

    pytest-3 tests/system/hour.py"""
import contextlib
import re

import pytest
from conftest import ROOT
from harness import check, until
from health import ask
from packages import APT, BROKER, README

URL = "unix:///run/ambroker/broker.sock"
ENV = {"AMB_URL": URL}
CONFIG = """listen = ( "unix:///run/ambroker/broker.sock", "tcp://127.0.0.1:4733" );
auth = { token_file = "/etc/ambroker/token"; };
memory = { host = { size = "16M"; segment = "4M"; }; };
limits = { peer_timeout = "1m"; };
topics = (
    { match = "frames"; full = "drop-oldest"; max_messages = 10; },
    { match = "full"; full = "block"; max_bytes = "1G"; }
);
"""


class Hour:
    """A terminal whose lines are kept."""

    def __init__(self, system):
        self.system, self.lines = system, []

    def shows(self, command, pattern=None, code=0, seconds=20):
        """The command prints that, by and by: figures come ten times a second."""
        def look():
            done = self.system.run("sh", "-c", command, fails=True, env=ENV)
            self.last = done.stdout
            return done if done.returncode == code and re.search(pattern or "", done.stdout, re.S) else None
        try:
            done = until(seconds, look, f"{command} shows {pattern}")
        finally:
            self.lines += [f"$ {command}", self.last.rstrip()]
        return done.stdout

    @contextlib.contextmanager
    def reader(self, name, topic):
        """A subscriber of that name that stands still; it is killed in the end."""
        process = self.system.start("broker-ctl", "--client-name", name, "sub", topic, "-o", "json", env=ENV)
        until(20, lambda: f'"{topic}"' in self.system.say("broker-ctl", "subs", "-o", "json", env=ENV), "it reads")
        pid = self.system.say("pgrep", "-f", f"client-name {name} sub")
        self.system.run("kill", "-STOP", pid)
        try:
            yield pid
        finally:
            self.system.run("kill", "-KILL", pid)
            process.send_signal(18)  # nsenter stops when what it runs is stopped.
            process.communicate(timeout=60)


@pytest.fixture
def hour(fresh):
    own = Hour(fresh)
    yield own
    (ROOT / "build" / "debian" / "hour.txt").write_text("\n".join(own.lines) + "\n")


def test_an_operator_finds_what_is_wrong(hour, packages, readme):
    system = hour.system
    system.run(*APT, *(packages[name] for name in BROKER), packages["libamb-dev"])
    system.run("systemctl", "stop", "ambroker")
    hour.shows("systemctl start ambroker && broker-ctl pub first --text hello && echo ready", "^ready$")
    hour.shows("broker-ctl status", "ambroker-system")

    programs(hour, readme)
    status, body = ask(system, "/metrics")
    check(status == 200 and re.search(r"^ambroker_connections_refused_auth_total 0$", body, re.M), f"{status}: {body[:200]}")

    # The same broker, tighter and with a door for others.
    system.run("sh", "-ec", "umask 077; echo right >/etc/ambroker/token; chown ambroker /etc/ambroker/token")
    system.run("sh", "-c", "cat >/etc/ambroker/broker.conf", text=CONFIG)
    hour.shows("systemctl restart ambroker && systemctl is-active ambroker", "^active$")
    killed(hour)
    slowed(hour)
    wrong_key(hour)
    full(hour)


def programs(hour, readme):
    texts = {text.split(":")[0].removeprefix("/* "): text for text in README.findall(readme)}
    hour.system.run("mkdir", "/srv/hour")
    for name, text in texts.items():
        hour.system.run("sh", "-c", f"cat >/srv/hour/{name}", text=text)
    hour.shows("cd /srv/hour && for p in publish subscribe; do cc $p.c -o $p $(pkg-config --cflags --libs amb); done")
    reader = hour.system.start("/srv/hour/subscribe", env=ENV)
    hour.shows("/srv/hour/publish")
    check(reader.stdout.readline() == "greetings.world: hello\n", "the C programs")
    hour.system.run("pkill", "-f", "^/srv/hour/subscribe")
    reader.communicate(timeout=20)
    hour.shows("broker-ctl sub shell --count 1 --raw --timeout 20 & "
               "broker-ctl pub shell --text 'by the shell' --wait-subscribers 1 --timeout 20; wait", "by the shell")


def killed(hour):
    with hour.reader("victim", "a") as pid:
        hour.shows("broker-ctl clients --columns id,name,pid", rf"victim\s+{pid}")
    hour.shows("broker-ctl clients --closed --columns client,name,pid,why", rf"victim\s+{pid}\s+\S")


def slowed(hour):
    with hour.reader("lazy", "frames"):
        hour.shows("broker-ctl pub frames --count 20000 --size 4K")
        hour.shows("broker-ctl check loss --critical 100", "^LOSS CRITICAL", code=2)
        hour.shows("broker-ctl subs frames --columns pattern,client,delivered,lost,lost_trimmed,lost_slow",
                   r"frames\s+\d+\s+\d+\s+[1-9]\d*")


def wrong_key(hour):
    hour.system.run("sh", "-ec", "umask 077; echo wrong >/srv/hour/token")
    hour.shows("AMB_CREDENTIALS=/srv/hour/token broker-ctl --url tcp://127.0.0.1:4733 pub a --text x",
               "not authenticated", code=77)
    hour.shows("broker-ctl metrics | grep refused_auth", r"refused_auth_total\s+[1-9]")


def full(hour):
    with hour.reader("greedy", "full"):
        hour.shows("broker-ctl pub full --count 200 --size 1M --timeout 3", "timed out", code=75)
        hour.shows("broker-ctl check memory --warn 25 --critical 45", "^MEMORY CRITICAL", code=2)
        hour.shows("broker-ctl topics --sort log_bytes --top 1 --columns topic,subscriptions,log_messages,log_bytes",
                   r"full\s+1\s+[1-9]")
        hour.shows("broker-ctl clients --columns id,name,pid", "greedy")
    hour.shows("broker-ctl topics --columns topic,subscriptions,log_messages", r"full\s+0\s+0")
