# SPDX-License-Identifier: Apache-2.0
"""delivery.py says at once which publisher has ended early, and its last words, while others go on.

    early_test.py
"""
import pathlib
import subprocess
import sys

import pytest
from harness import check, patience

DELIVERY = pathlib.Path(__file__).resolve().parent / "delivery.py"
FIRST, LAST = 9, 16  # the publishers' numbers: eight subscribers are before them
WORDS = "these were the last words"
# In the place of test-load: the first publisher never ends, and the last one ends at once.
LOAD = f"""#!/bin/sh
if [ "$1" = pub ] && [ "$4" = {FIRST} ]; then exec sleep 1000; fi
if [ "$1" = pub ] && [ "$4" = {LAST} ]; then echo '{WORDS}' >&2; exit 3; fi
exec '%s' "$@"
"""
RUNS = {"all publish": (), "brokers are killed": ("--confirm", "delivered", "--restarts", "1"),
        "topics drop": ("--policy", "drop-oldest")}


@pytest.fixture
def build(rig):
    """A build folder of the same programs, but for test-load."""
    folder = rig.folder / "build"
    folder.mkdir()
    for name in ("brokerd", "broker-ctl", "test-asker", "delivery-check"):
        (folder / name).symlink_to(rig.program(name))
    load = folder / "test-load"
    load.write_text(LOAD % rig.program("test-load"))
    load.chmod(0o755)
    return folder


@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS)
def test_a_publisher_that_ends_early_is_told_at_once(build, options):
    done = subprocess.run([sys.executable, DELIVERY, build, "--messages", "10", *options], capture_output=True,
                          text=True, timeout=patience(50), check=False)
    check(done.returncode == 1, f"ended with {done.returncode}: {done.stderr}")
    told = [line for line in done.stderr.splitlines() if line.startswith("FAIL: ")]
    check(len(told) == 1 and "a publisher over" in told[0] and told[0].endswith("ended with 3"), done.stderr)
    check(WORDS in done.stderr, done.stderr)
