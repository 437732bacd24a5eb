# SPDX-License-Identifier: Apache-2.0
"""Network namespaces that stand for machines, and a bridge in one more that joins them.

    head, left, right = switched(rig, "10.79.0", 3)     10.79.0.1, .2, .3, each on its interface net0
    head.switch.ip("...")                               the bridge's ports are port1, port2, port3
"""
import os
import shutil
import subprocess

import pytest

BRIDGE = """
link add bridge0 type bridge
link set bridge0 up
"""
PORT = """
link add port{host} type veth peer name net0 netns {pid}
link set port{host} master bridge0
link set port{host} up
"""
SIDE = """
link set lo up
addr add {net}.{host}/24 dev net0
link set net0 up
"""


class Machine:
    """Namespaces of networks and mounts, with a /sys that shows that network; as long as a process."""

    def __init__(self, rig):
        self.rig = rig
        script = "mount -t sysfs sysfs /sys && echo up || echo none; exec sleep 1000"
        holder = rig.start(["sh", "-c", script], prefix=("unshare", "--net", "--mount"))
        self.has_sys = holder.line() == "up"
        self.pid = holder.pid
        self.prefix = ("nsenter", f"--net=/proc/{self.pid}/ns/net", f"--mount=/proc/{self.pid}/ns/mnt")

    def command(self, *words, text=""):
        """Of the system's: its end."""
        return subprocess.run([*self.prefix, *words], input=text, capture_output=True, text=True,
                              timeout=60, check=False, env={**os.environ, **self.rig.env})

    def ip(self, lines):
        done = self.command("ip", "-batch", "-", text=lines)
        return done.stderr if done.returncode != 0 else None

    def start(self, program, *arguments, **options):
        return self.rig.start([self.rig.program(program), *arguments], prefix=self.prefix, **options)

    def run(self, program, *arguments):
        done = self.command(self.rig.program(program), *arguments)
        return done.returncode, done.stdout, done.stderr


def need_root(*programs):
    if os.geteuid() != 0:
        pytest.skip("not root")
    for program in ("unshare", "nsenter", *programs):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    if subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True,
                      check=False).returncode != 0:
        pytest.skip("no namespaces")


def switched(rig, net, count):
    switch = Machine(rig)
    sides = [Machine(rig) for _ in range(count)]
    problem = switch.ip(BRIDGE)
    for host, side in enumerate(sides, start=1):
        problem = problem or switch.ip(PORT.format(host=host, pid=side.pid))
        problem = problem or side.ip(SIDE.format(net=net, host=host))
    if problem is not None:
        pytest.skip(f"no bridge, or no veth pairs: {problem}")
    for side in sides:
        side.switch = switch
    return sides
