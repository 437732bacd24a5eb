# SPDX-License-Identifier: Apache-2.0
"""broker-ctl drain and stop: what is left, per client, until the broker has ended; and that of the units."""
import json
import pathlib
import re
import shlex
import signal
import subprocess

import pytest
from harness import check, until

COUNT = 300


class World:
    """A reader that has not had all of its messages: it stands still."""

    def __init__(self, rig, *options):
        self.rig = rig
        self.broker = rig.broker(*options)
        self.reader = rig.client("broker-ctl", "--url", self.broker.unix_url, "--client-name", "camera", "sub", "a",
                                 "-o", "json", "--policy", "block", "--credit", "10")
        until(20, lambda: self.broker.ask("subs"), "it reads")
        self.reader.signal(signal.SIGSTOP)
        load = rig.client("broker-ctl", "--url", self.broker.unix_url, "pub", "a", "--count", COUNT, "--size", 10000)
        check(load.wait(60) == 0, load.log())

    def start(self, *words):
        return self.rig.client("broker-ctl", "--url", self.broker.unix_url, *words)

    def run(self, *words):
        return subprocess.run([self.rig.program("broker-ctl"), "--url", self.broker.unix_url, *map(str, words)],
                              text=True, capture_output=True, timeout=60, check=False)


def test_a_drain_says_what_each_client_has_not_had(rig):
    world = World(rig, "-o", "limits.drain_timeout=60s")
    drain = world.start("drain", "--yes")
    line = " ".join(drain.expect("left:", 20))
    found = re.search(r"client (\d+) \(camera\): (\d+) to be sent, (\d+) to be given back", line)
    check(found and int(found[2]) > 0 and int(found[2]) + int(found[3]) <= COUNT, line)
    check(drain.is_running() and world.broker.is_running(), "it waits for the reader")
    world.reader.signal(signal.SIGCONT)
    check(len(world.reader.all_lines(30)) == COUNT, "all messages came")
    lines = drain.all_lines(30)
    check(drain.wait(30) == 0 and lines[-1] == "all is delivered, and the broker has ended", lines)
    check(world.broker.wait(20) == 0, world.broker.log())


@pytest.mark.parametrize("words", [("drain", "--timeout", "500ms"), ("stop",)])
def test_messages_that_are_left_are_told(rig, words):
    world = World(rig, "-o", "limits.drain_timeout=60s")
    done = world.run(*words, "--yes", "-o", "json")
    check(done.returncode == 75 and "messages were left" in done.stderr, f"{done}")
    left = json.loads(done.stdout)[0]
    check(left["result"] == "left" and 0 < left["messages"] <= COUNT, left)
    check(world.broker.wait(20) == 0 and f"drain: {left['messages']} messages are left" in world.broker.log(),
          world.broker.log())
    world.reader.kill()


def test_of_a_broker_that_is_killed_nobody_knows_what_is_left(rig):
    world = World(rig, "-o", "limits.drain_timeout=60s")
    drain = world.start("drain", "--yes")
    drain.expect("left:", 20)
    world.broker.kill()
    lines = drain.all_lines(30)
    check(drain.wait(30) == 69 and "all is delivered" not in "".join(lines), lines)
    check("has not said that all is delivered" in drain.log(), drain.log())
    world.reader.kill()


@pytest.mark.parametrize("verb", ["drain", "stop"])
def test_nothing_is_left(rig, verb):
    broker = rig.broker()
    done = subprocess.run([rig.program("broker-ctl"), "--url", broker.unix_url, verb, "--yes", "-o", "json"], text=True,
                          capture_output=True, timeout=60, check=False)
    check(done.returncode == 0 and json.loads(done.stdout) == [{"result": "delivered", "messages": 0}], f"{done}")
    check(broker.wait(20) == 0 and "are left" not in broker.log(), broker.log())


def test_limits_that_make_no_sense(rig):
    broker = rig.broker()
    for words, said in ((("drain", "--timeout", "soon"), "takes a time"), (("drain", "now"), "takes no arguments"),
                        (("stop", "now"), "takes no arguments"),
                        (("drain", "--timeout", "25h"), "drain --timeout '25h': takes a time of at most 24h"),
                        (("drain", "--timeout", "forever"), "takes a time of at most 24h")):
        done = subprocess.run([rig.program("broker-ctl"), "--url", broker.unix_url, *words, "--yes"], text=True,
                              capture_output=True, timeout=60, check=False)
        check(done.returncode == 64 and said in done.stderr and done.stderr.count("\n") == 1, f"{words}: {done}")
    check(broker.is_running(), "nothing of that ends it")


@pytest.mark.parametrize("unit", ["ambroker", "ambroker-gpu"])
def test_the_commands_of_the_units(rig, unit):
    """ExecReload fails for a wrong file, and ExecStop ends a broker: as the units have them."""
    lines = (pathlib.Path(__file__).parents[2] / "etc" / f"{unit}.service").read_text().splitlines()
    config = rig.folder / "broker.conf"
    config.write_text("")
    broker = rig.broker("--config", config)

    def run(key):
        words = shlex.split(next(line.split("=", 1)[1] for line in lines if line.startswith(f"{key}=")))
        check(words[0] == "/usr/bin/broker-ctl" and words[2] == "unix:///run/ambroker/broker.sock", words)
        return subprocess.run([rig.program("broker-ctl"), words[1], broker.unix_url, *words[3:]], text=True,
                              capture_output=True, timeout=60, check=False)
    check(run("ExecReload").returncode == 0, "a file that is right")
    config.write_text("limits = { windw = 1; };")
    done = run("ExecReload")
    check(done.returncode == 78 and f"{config}:1: limits.windw" in done.stderr, f"{done}")
    done = run("ExecStop")
    check(done.returncode == 0, f"{done}")
    check(broker.wait(20) == 0, broker.log())
