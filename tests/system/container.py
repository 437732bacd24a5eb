# SPDX-License-Identifier: Apache-2.0
"""A Debian 12 with systemd that runs beside this one, in namespaces of its own (boot.sh).

    with Container(base, {packages: "/srv/packages"}) as system:
        system.run("apt-get", "install", "-y", "/srv/packages/ambroker_0.1.0-1_amd64.deb")
        system.await_unit("ambroker.service", "active")

It has a loopback interface and no other, so it reaches nobody. Whatever it writes is gone at its end."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

from harness import Failure, check, patience, until

# Rights over the kernel that it shares with this machine: neither its process 1 nor a command has them.
WITHOUT = ("sys_module", "sys_rawio", "sys_time", "sys_boot", "syslog", "mac_admin", "mac_override", "audit_control")
DROPPED = ",".join(f"-{name}" for name in WITHOUT)
BOOT = pathlib.Path(__file__).resolve().parent / "boot.sh"
PLAIN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C", "TERM": "dumb", "HOME": "/root",
         "DEBIAN_FRONTEND": "noninteractive"}


class Container:
    def __init__(self, base, shared=None):
        self.base, self.shared = base, shared or {}
        self.folder = self.process = self.pid = None

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="amb-system-"))
        try:
            self._boot()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def _boot(self):
        shared = [f"{outside}={inside}" for outside, inside in self.shared.items()]
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen([str(BOOT), str(self.base), str(self.folder), DROPPED, *shared],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        file = self.folder / "pid"
        until(60, lambda: file.exists() or self.process.poll() is not None, "the system is started")
        check(file.exists(), f"boot.sh has ended: {(self.folder / 'log').read_text()}")
        self.pid = int(file.read_text())
        until(60, lambda: self.run("test", "-S", "/run/systemd/private", fails=True).returncode == 0, "systemd")
        state = self.run("systemctl", "is-system-running", "--wait", fails=True, seconds=120).stdout.strip()
        check(state == "running", f"{state}: {self.run('systemctl', '--failed', fails=True).stdout}")

    def end(self):
        """Its processes, mounts, control groups and files."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGKILL)  # The kernel ends the rest.
                self.process.wait()
            self.process = None
        if self.folder is not None:
            shutil.rmtree(self.folder)
            self.folder = None

    def command(self, *words, env=None):
        """What runs these words inside."""
        inside = [f"{key}={value}" for key, value in {**PLAIN, **(env or {})}.items()]
        return ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w",
                "setpriv", f"--bounding-set={DROPPED}", "env", "-i", *inside, *map(str, words)]

    def run(self, *words, fails=False, seconds=120, env=None, text=None):
        """Its output; it may fail only if that is said. Standard error is in stdout, too."""
        done = subprocess.run(self.command(*words, env=env), input=text if text is not None else "",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=patience(seconds), check=False)
        if done.returncode != 0 and not fails:
            raise Failure(f"{' '.join(map(str, words))}: {done.returncode}: {done.stdout[-3000:]}")
        return done

    def say(self, *words, **more):
        """What it prints."""
        return self.run(*words, **more).stdout.strip()

    def start(self, *words, env=None):
        """A process inside that goes on; it ends with the system."""
        return subprocess.Popen(self.command(*words, env=env), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def path(self, inside):
        """A file of the system, sockets too, as a path of this machine."""
        return pathlib.Path(f"/proc/{self.pid}/root{inside}")

    def show(self, unit, name):
        return self.say("systemctl", "show", "--value", "--property", name, unit)

    def await_unit(self, unit, state, seconds=20):
        until(seconds, lambda: self.show(unit, "ActiveState") == state,
              f"{unit} is {state}: {self.say('systemctl', 'status', '--full', unit, fails=True)[-3000:]}")

    def main_pid(self, unit):
        """Of its process, inside; 0: it does not run."""
        return int(self.show(unit, "MainPID"))

    def outside(self, pid):
        """The number of that process on this machine."""
        own = os.readlink(f"/proc/{self.pid}/ns/pid")
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                numbers = re.search(r"^NSpid:\s+(.*)$", (entry / "status").read_text(), re.M).group(1).split()
                if int(numbers[-1]) == pid and os.readlink(entry / "ns" / "pid") == own:
                    return int(entry.name)
            except (FileNotFoundError, ProcessLookupError):
                continue  # It has ended meanwhile.
        raise Failure(f"no process {pid}")
