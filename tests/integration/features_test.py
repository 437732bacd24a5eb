# SPDX-License-Identifier: Apache-2.0
"""docs/features.md: each row has a command and a state, and what a command names is there.

    features_test.py
"""
import pathlib
import re
import shutil
import subprocess

import pytest
from harness import check

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/features.md"
ROWS = {*(f"S{number}" for number in range(1, 11)), *(f"D{number}" for number in range(1, 5))}


def rows():
    """By its name, each row's command and state."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
        if len(cells) == 5 and cells[0].strip() in ROWS:
            found[cells[0].strip()] = [cell.strip().replace("\\|", "|") for cell in cells[3:]]
    return found


def commands_of(cell):
    return re.findall(r"`([^`]+)`", cell)


def alternatives(pattern):
    """'integration-(a|b)|c' as 'integration-a', 'integration-b', 'c'."""
    group = re.search(r"\(([^()]*)\)", pattern)
    if group is None:
        return pattern.split("|")
    head, tail = pattern[:group.start()], pattern[group.end():]
    before, last = head.rpartition("|")[::2]
    first, bar, after = tail.partition("|")
    own = [f"{last}{word}{first}" for word in group[1].split("|")]
    return [*(before.split("|") if before else []), *own, *(alternatives(after) if bar else [])]


@pytest.fixture
def tests(build):
    """The names of this build's tests, and of those with a label."""
    def named(*arguments):
        done = subprocess.run([shutil.which("ctest"), "--test-dir", str(build), "-N", *arguments],
                              capture_output=True, text=True, check=True, timeout=60)
        return re.findall(r"Test +#\d+: (\S+)", done.stdout)
    if shutil.which("ctest") is None:
        pytest.skip("no ctest")
    return named


def test_every_row_has_a_command_and_a_state():
    found = rows()
    check(set(found) == ROWS, f"{sorted(found)}")
    for name, (command, state) in found.items():
        check(commands_of(command), f"{name} has no command: {command}")
        check(state.startswith(("there", "open", "(H)")), f"{name}: {state}")


def test_every_test_that_a_row_names_is_one(tests):
    everything = tests()
    has_gpu = any(name.startswith("integration-gpu") for name in everything)
    count = 0
    for name, (cell, _) in rows().items():
        for command in commands_of(cell):
            chosen = re.match(r"ctest (-[RL]) '?([^']+)'?$", command)
            check(not command.startswith("ctest") or chosen, f"{name}: {command}")
            if chosen and chosen[1] == "-L":
                count += 1
                check(tests("-L", chosen[2]), f"{name}: no test has the label {chosen[2]}")
            for pattern in alternatives(chosen[2]) if chosen and chosen[1] == "-R" else ():
                count += 1
                is_there = any(re.search(pattern, test) for test in everything)
                check(is_there or ("gpu" in pattern and not has_gpu), f"{name}: no test is called {pattern}")
    check(count >= 30, f"{count} tests are named")


def test_every_program_that_a_row_names_is_one(rig):
    count = 0
    for name, (cell, _) in rows().items():
        for command in commands_of(cell):
            program, *words = command.split()
            if program in ("broker-ctl", "broker-bench"):
                count += 1
                done = subprocess.run([rig.program(program), "--help"], capture_output=True, text=True,
                                      timeout=30, check=True)
                check(re.search(rf"^ +{words[0]}\b", done.stdout, re.M), f"{name}: no {program} {words[0]}")
            elif "/" in program:
                count += 1
                check((ROOT / program).is_file(), f"{name}: there is no {program}")
    check(count >= 8, f"{count} programs are named")


def test_alternatives():
    check(alternatives("a-(b|c)$|d") == ["a-b$", "a-c$", "d"], "a group first")
    check(alternatives("x|a-(b|c)") == ["x", "a-b", "a-c"], "a group last")
    check(alternatives("x|y") == ["x", "y"] and alternatives("x") == ["x"], "no group")
