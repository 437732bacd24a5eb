# SPDX-License-Identifier: Apache-2.0
"""What a system of container.py leaves on this machine: nothing, also where the test fails or is killed.

    rig_test.py"""
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from conftest import BASE
from container import WITHOUT, Container
from harness import check, until

# Of linux/capability.h.
NUMBERS = {"sys_module": 16, "sys_rawio": 17, "sys_boot": 22, "sys_time": 25, "audit_control": 30,
           "mac_override": 32, "mac_admin": 33, "syslog": 34}
HERE = pathlib.Path(__file__).resolve().parent


def groups():
    """Control groups of such systems, in a mount of a process of its own."""
    look = "mount -t cgroup2 cgroup2 /mnt && find /mnt -name 'ambroker-system-*'"
    done = subprocess.run(["unshare", "--mount", "sh", "-c", look], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def mounts():
    return pathlib.Path("/proc/self/mounts").read_text()


def devices():
    return sorted((entry.name, entry.lstat().st_mode) for entry in pathlib.Path("/dev").iterdir())


def lives(pid):
    return os.path.exists(f"/proc/{pid}")


@pytest.fixture
def before():
    return groups(), mounts(), devices()


def check_same(before):
    check(groups() <= before[0], f"control groups are left: {groups() - before[0]}")
    check(mounts() == before[1], "a mount is left")
    check(devices() == before[2], "/dev has changed")


def test_nothing_is_left_after_its_end(before):
    with Container(BASE) as system:
        check(len(groups() - before[0]) == 1, "it has a control group")
        sleeper = system.start("sleep", "600")
        pid, folder = system.pid, system.folder
        system.run("sh", "-c", "echo here >/etc/here; touch /dev/here")
    check(not lives(pid), "process 1 lives")
    sleeper.wait(20)
    check(not folder.exists(), "its folder is left")
    check(not (BASE / "etc" / "here").exists(), "the base has changed")
    check_same(before)


def test_nothing_is_left_after_a_failure(before):
    with pytest.raises(ZeroDivisionError):
        with Container(BASE) as system:
            pid = system.pid
            raise ZeroDivisionError
    check(not lives(pid), "process 1 lives")
    check_same(before)


def test_no_process_is_left_where_the_test_is_killed(before):
    program = f"""
import sys, time
sys.path[:0] = ["{HERE}", "{HERE.parent / "support"}"]
from container import Container
with Container("{BASE}") as system:
    print(system.pid, system.folder, flush=True)
    time.sleep(600)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    words = child.stdout.readline().split()
    check(len(words) == 2, "it has started")
    child.send_signal(signal.SIGKILL)
    child.wait()
    until(30, lambda: not lives(int(words[0])), "process 1 ends")
    until(30, lambda: groups() <= before[0], "its control group goes")
    for empty in ("cgroup", "top"):
        (pathlib.Path(words[1]) / empty).rmdir()
    for file in pathlib.Path(words[1]).iterdir():
        file.unlink()
    pathlib.Path(words[1]).rmdir()
    check_same(before)


def test_it_sees_nothing_of_this_machine():
    with Container(BASE) as system:
        check(system.say("sh", "-c", "ls /sys/class/net") == "lo", "another interface")
        numbers = system.say("sh", "-c", "ls -d /proc/[0-9]* | wc -l")
        check(int(numbers) < 20, f"{numbers} processes")
        check(system.run("sh", "-c", "echo 1 >/proc/sys/vm/drop_caches", fails=True).returncode != 0,
              "/proc/sys is written to")
        check(set(NUMBERS) == set(WITHOUT), "a right without a number")
        # Looked up, not tried: this machine has the same clock.
        for status in ("/proc/self/status", "/proc/1/status"):
            for kind in ("CapEff", "CapBnd"):
                mask = int(system.say("sed", "-n", f"s/^{kind}:\\s*//p", status), 16)
                kept = [name for name, number in NUMBERS.items() if mask >> number & 1]
                check(not kept, f"{status}, {kind}: {kept}")
        check(not system.path("/dev/vda").exists() and not system.path("/dev/mem").exists(), "it has disks")


def test_the_base_replaces_nothing_but_a_base(tmp_path):
    (tmp_path / "file").write_text("somebody's")
    done = subprocess.run([HERE / "base.sh", tmp_path], capture_output=True, text=True, check=False)
    check(done.returncode == 64 and "not of this script" in done.stderr, f"{done}")
    check((tmp_path / "file").exists(), "it is gone")
