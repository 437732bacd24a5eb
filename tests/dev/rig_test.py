# SPDX-License-Identifier: Apache-2.0
"""tests/conftest.py tells what became of the tests of a file: each failure with its reason and the
last lines of its processes, those of a fixture's setup or teardown too; and 77 for skipped alone.

    rig_test.py
"""
import os
import pathlib
import re
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
REASON = "the real reason: something leaked"
LAST_WORDS = "these were the last words"

# A file of tests with processes that are no broker's, so that no build is needed.
HEAD = f'''
import pytest
from harness import check

def start(rig):
    process = rig.start(["sh", "-c", "echo {LAST_WORDS} >&2; echo up; exec sleep 100"])
    process.expect("up")
    return process

@pytest.fixture
def no_start(rig):
    start(rig)
    check(False, "{REASON}")

@pytest.fixture
def good(rig):
    yield start(rig)

@pytest.fixture
def leaks(rig):
    process = start(rig)
    yield process
    process.kill()
    check("{LAST_WORDS}" not in process.log(), "{REASON}")
'''
# What follows the head: a first test, another that has to run in any case, or none.
PLANTED = {
    "passes": "def test_first(good):\n    pass\n",
    "skips": "def test_first(good):\n    pytest.skip('none here')\n",
    "fails": f"def test_first(good):\n    check(False, '{REASON}')\n",
    "fails before": "def test_first(no_start):\n    pass\n",
    "fails after": "def test_first(leaks):\n    pass\n",
    "skips and fails after": "def test_first(leaks):\n    pytest.skip('none here')\n",
    "interrupted": "def test_first(good):\n    raise KeyboardInterrupt\n",
    "waits too long": "def test_first(good):\n    good.line(0.3)\n",
    "other passes": "def test_other(rig):\n    pass\n",
    "other skips": "def test_other(rig):\n    pytest.skip('none here either')\n",
    "other fails as known": "@pytest.mark.xfail\ndef test_other(rig):\n    check(False, 'known')\n",
    "no tests": "pytest.skip('not on this machine', allow_module_level=True)\n",
    "no Python": "not python\n",
}


@pytest.fixture
def run(tmp_path):
    """Runs pytest on a file of those tests: the exit status, its words, the folders that were left."""
    for name in ("conftest.py", "pytest.ini"):
        (tmp_path / name).symlink_to(TESTS / name)
    folders = tmp_path / "folders"
    folders.mkdir()

    def run(*tests, keep=False):
        (tmp_path / "planted_test.py").write_text("\n".join((HEAD, *(PLANTED[test] for test in tests))))
        env = {name: value for name, value in os.environ.items() if name != "AMB_TEST_KEEP"}
        env |= {"TMPDIR": str(folders), "PYTHONDONTWRITEBYTECODE": "1"}
        if keep:
            env["AMB_TEST_KEEP"] = "1"
        done = subprocess.run([sys.executable, "-m", "pytest", "planted_test.py"], cwd=tmp_path, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert "INTERNALERROR" not in done.stdout, done.stdout
        return done.returncode, done.stdout, list(folders.iterdir())
    return run


@pytest.mark.parametrize("first, counts", [
    ("fails", "1 failed, 1 passed"),
    ("fails before", "1 passed, 1 error"),
    ("fails after", "2 passed, 1 error"),
    ("skips and fails after", "1 passed, 1 skipped, 1 error"),
])
def test_a_failure_is_told_whole_and_the_rest_runs(run, first, counts):
    status, said, left = run(first, "other passes")
    assert status == 1 and counts in said, said
    assert REASON in said, said
    assert re.search(rf"-- log of sh-1 \(.*\) --+\n{LAST_WORDS}\n", said), said
    assert left == []


def test_what_waits_is_told_where_something_is_late_and_there_alone(run):
    status, said, _ = run("waits too long", "other passes")
    assert status == 1 and "sh-1: no line in 0.3 s" in said, said
    assert re.search(r"-- state of the machine --+\nthe test's own longest pause: (none|[0-9.]+ s, )", said), said
    assert re.search(r"-- state of sh-1 --+\n[0-9]+ sleep ", said), said
    assert "-- state of" not in run("fails", "other passes")[1]


@pytest.mark.parametrize("tests, status", [
    ("skips", 77),
    ("skips, other skips", 77),
    ("no tests", 77),
    ("passes", 0),
    ("skips, other passes", 0),
    ("skips, other fails as known", 0),
    ("skips and fails after", 1),
    ("skips and fails after, other skips", 1),
    ("fails before, other skips", 1),
    ("other skips, interrupted", 2),
    ("other skips, no Python", 2),
])
def test_only_a_file_that_was_skipped_whole_is_skipped(run, tests, status):
    got, said, left = run(*tests.split(", "))
    assert got == status, said
    assert left == []


@pytest.mark.parametrize("first, kept", [
    ("passes", 0),
    ("skips", 0),
    ("fails", 1),
    ("fails before", 1),
    ("fails after", 1),
    ("skips and fails after", 1),
])
def test_keep_leaves_the_folders_of_failures_alone(run, first, kept):
    _, said, left = run(first, "other passes", keep=True)
    assert len(left) == kept, said
    for folder in left:
        assert f"left {folder}" in said, said
        assert LAST_WORDS in (folder / "sh-1.log").read_text()
