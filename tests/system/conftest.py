# SPDX-License-Identifier: Apache-2.0
"""Systems for tests/system: base.sh has made their base, tools/package.sh the packages."""
import functools
import os
import pathlib
import subprocess

import pytest
from container import Container

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE = pathlib.Path(os.environ.get("AMB_SYSTEM_BASE", ROOT / "build" / "debian" / "base"))
PACKAGES = pathlib.Path(os.environ.get("AMB_SYSTEM_PACKAGES", ROOT / "build" / "packages"))
INSIDE = "/srv/packages"


# What boot.sh asks of the machine: namespaces, and a control group of its own.
PROBE = """set -e
mount -t cgroup2 cgroup2 /mnt
group=/mnt$(sed -n 's/^0:://p' /proc/self/cgroup)/ambroker-probe-$$
mkdir "$group"
rmdir "$group"
unshare --mount --pid --fork --uts --ipc --net --cgroup true"""


@functools.cache
def may_boot():
    return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", PROBE], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


def pytest_runtest_setup(item):
    if item.path.name == "page.py":
        return  # it needs a browser, and no system
    if os.geteuid() != 0:
        pytest.skip("not root: no system of its own")
    if not (BASE / ".stamp").exists():
        pytest.skip(f"no {BASE}: tests/system/base.sh makes it")
    if not may_boot():
        pytest.skip("this machine gives no namespaces or no control groups: no system of its own")


@pytest.fixture(scope="session")
def packages():
    """Their paths inside, by name."""
    found = {file.name.split("_")[0]: f"{INSIDE}/{file.name}" for file in PACKAGES.glob("*.deb")}
    if "ambroker" not in found:
        pytest.skip(f"no packages in {PACKAGES}: tools/package.sh makes them")
    return found


@pytest.fixture
def fresh(packages):
    """A system without the packages, of this test alone."""
    with Container(BASE, {PACKAGES: INSIDE}) as system:
        yield system


@pytest.fixture(scope="module")
def system(packages):
    """A system with them and a running broker, of all tests of the file."""
    with Container(BASE, {PACKAGES: INSIDE}) as own:
        own.run("dpkg", "-i", *(packages[name] for name in (
            "ambroker", "ambroker-tools", "libamb0", "libamb-dev", "ambroker-ucx")))
        own.await_unit("ambroker.service", "active")
        yield own


@pytest.fixture
def readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")
