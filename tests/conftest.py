# SPDX-License-Identifier: Apache-2.0
"""What pytest gives the tests in Python: a rig for each, links, a build, options.

    pytest-3 tests/integration/queues_test.py                            against build/dev
    pytest-3 tests/integration/reconnect_test.py -k freezes --links ring --build build/asan

A test that fails, in its setup or teardown too, is reported with the last lines of each of its
processes; AMB_TEST_KEEP=1 leaves its folder. Each has SECONDS of its file (300) to end.
"""
import functools
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from harness import LINKS, SKIPPED, Rig, as_user  # noqa: E402

# Of single tests, whose heads say what they mean.
OPTIONS = ("time", "window", "rounds", "tries", "late", "cases", "policy", "fast", "pairs", "ratio", "backlog",
           "pictures", "size", "flow")


def pytest_addoption(parser):
    group = parser.getgroup("ambroker")
    group.addoption("--build", default="build/dev", help="the folder of a build")
    group.addoption("--links", help="some of " + ",".join(LINKS) + ",tls (a stream over TLS)")
    group.addoption("--package", help="the folder of an installed ambroker; else the build's")
    for name in OPTIONS:
        group.addoption(f"--{name}", help="of some tests: see their heads")


@functools.cache
def _has_ucx(brokerd):
    done = subprocess.run([brokerd, "--version"], capture_output=True, text=True, check=True)
    return "without UCX" not in done.stdout


def _links(config):
    brokerd = pathlib.Path(config.getoption("build")) / "broker" / "brokerd"
    chosen = config.getoption("links")
    links = chosen.split(",") if chosen else LINKS
    return [link for link in links if link != "ucx" or _has_ucx(str(brokerd))]


def pytest_generate_tests(metafunc):
    """A test that takes a link runs on each, unless it names them itself."""
    marks = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "link" in metafunc.fixturenames and not any("link" in names for names in marks):
        metafunc.parametrize("link", _links(metafunc.config))


@pytest.fixture
def build(request):
    return pathlib.Path(request.config.getoption("build")).resolve()


@pytest.fixture
def links(request):
    return _links(request.config)


@pytest.fixture
def options(request):
    """Those that were given."""
    given = {name: request.config.getoption(name) for name in OPTIONS}
    return {name: value for name, value in given.items() if value is not None}


@pytest.fixture
def rig(request, build):
    """A folder and processes of the test's own. The processes end here, and the folder stays until the
    report of the teardown: what the fixtures above this one find may fail the test too."""
    rig = Rig(build, getattr(request.module, "SECONDS", 300))
    request.config.add_cleanup(rig.clear)  # Ctrl-C leaves no report
    request.node.rig = rig.begin()
    if "tls" in (request.config.getoption("links") or "").split(","):
        rig.use_tls()
    yield rig
    rig.end()


@pytest.fixture
def other_uids(rig):
    """For tests whose clients are other users (as_user): skipped where there can be none."""
    if os.geteuid() != 0:
        pytest.skip("not root")
    probe = subprocess.run([*as_user(12345), "test", "-x", rig.program("broker-ctl")],
                           check=False, capture_output=True, timeout=30)
    if probe.returncode != 0:
        pytest.skip(f"other users cannot get at {rig.build}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    rig = getattr(item, "rig", None)  # not of funcargs, which lack it where another fixture's setup fails
    if rig is None:
        return
    if report.failed:
        rig.has_failed = True
        if report.when != "teardown":  # Everything still runs.
            told = rig.states(call.excinfo.value)
            report.sections += [(f"state of {name}", text) for name, text in told]
        report.sections += [(f"log of {name}", text) for name, text in rig.logs()]
    if report.when == "teardown":
        rig.clear()


def pytest_sessionfinish(session, exitstatus):
    """A file whose tests were all skipped is told to ctest as skipped."""
    stats = session.config.pluginmanager.get_plugin("terminalreporter").stats
    has_run = any(stats.get(name) for name in ("passed", "failed", "error", "xfailed", "xpassed"))
    is_fine = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if stats.get("skipped") and not has_run and is_fine:
        session.exitstatus = SKIPPED
