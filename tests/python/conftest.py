# SPDX-License-Identifier: Apache-2.0
"""The package of the build, a connection to a broker of the test's on each link."""
import sys

import pytest


@pytest.fixture
def ambroker(build):
    """The package, as this build has it."""
    path = str(build / "python")
    if path not in sys.path:
        sys.path.insert(0, path)
    return pytest.importorskip("ambroker", reason="no Python package in this build")


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
