# SPDX-License-Identifier: Apache-2.0
"""The package of the build, a connection to a broker of the test's on each link."""
import importlib
import os
import pathlib
import signal
import sys

import pytest

# A shell without job control has its background jobs ignore Ctrl-C, and their children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def package(request, build):
    """The folder that has the package: the build's, or the one of an installed wheel (--package)."""
    folder = pathlib.Path(request.config.getoption("package") or build / "python").resolve()
    if not (folder / "ambroker").exists():
        pytest.skip(f"no Python package in {folder}")
    return folder


@pytest.fixture
def environment(build, package):
    """Of a program: the package, and the broker of the build."""
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "AMBROKER_BIN": str(build / "broker")}


@pytest.fixture
def ambroker(package):
    """The package."""
    if str(package) not in sys.path:
        sys.path.insert(0, str(package))
    return importlib.import_module("ambroker")


@pytest.fixture
def broker(rig):
    """A brokerd of the test's own."""
    return rig.broker()


@pytest.fixture
def conn(ambroker, broker, link):
    """A connection on each link."""
    with ambroker.connect(broker.url(link), name="python-test",
                          trusted_network="lo") as connection:
        yield connection
