# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md, the first hour of an operator: each command of the page is typed into one shell of a fresh
system with the packages beside it, and must print what the page has. Figures that differ from one run to the
next do not count (masked).

    AMB_TUTORIAL=write pytest-3 tests/system/hour.py

writes what the commands print into the page."""
import os
import re
import selectors
import subprocess
import time

import pytest
from conftest import INSIDE, ROOT
from harness import check, check_time, patience

PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^(```console\n)(.*?)(^```$)", re.M | re.S)
COMMAND_S = 60  # it may take
# They change nothing, and figures come by and by, ten times a second: such a command is typed again for so long.
VIEW = re.compile(r"broker-ctl (status|clients|topics|subs|loss|metrics|check)\b")
SETTLES_S = 20
MARK = "end of a command"
# The page has to show these, whatever is written into it.
POINTS = ("installed\n", "ready\n", "greetings: hello\n", "by the shell\n", "ambroker_connections_refused_auth_total 0\n",
          "<title>Ambroker</title>", "victim", "LOSS CRITICAL", "not authenticated", "refused_auth_total     1\n",
          "MEMORY CRITICAL", "greedy")


def masked(text):
    """Without keys, numbers but 0, units and the widths of columns."""
    text = re.sub(r"\b[0-9a-f]{32}\b", "KEY", text)
    text = re.sub(r"\b(\d[\d.,]*)(?: ?(?:[KMGT]iB|B|ns|us|ms|s|min|h|%)(?!\w))?",
                  lambda found: "N" if re.search("[1-9]", found[1]) else "0", text)
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def steps(block):
    """(command, output) of a block; lines that begin with "> " go on with a command."""
    command, output, found = [], [], []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            if command:
                found.append(("".join(command), "".join(output)))
            command, output = [line[2:]], []
        elif line.startswith("> ") and not output:
            command.append(line[2:])
        else:
            output.append(line)
    return [*found, ("".join(command), "".join(output))]


class Shell:
    """One shell in the system, from the first command to the last."""

    def __init__(self, system):
        self.process = subprocess.Popen(system.command("sh"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)

    def types(self, command):
        """What it prints. Nothing reads from the shell's own input."""
        text = f"{{\n{command.rstrip()}\n}} </dev/null\nprintf '\\n{MARK}\\n'\n"
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()
        deadline = time.monotonic() + patience(COMMAND_S)
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not said.endswith(f"\n{MARK}\n".encode()):
                left = deadline - time.monotonic()
                check_time(left > 0 and selector.select(left), f"{command}: goes on\n{said.decode()}")
                piece = os.read(self.process.stdout.fileno(), 65536)
                check(piece, f"{command}: the shell has ended\n{said.decode()}")
                said += piece
        return said.decode().removesuffix(f"\n{MARK}\n").rstrip("\n")

    def shows(self, command, is_right):
        """What it prints: what is right, by and by where it is a view."""
        deadline = time.monotonic() + patience(SETTLES_S)
        said = self.types(command)
        while not is_right(said) and VIEW.match(command) and time.monotonic() < deadline:
            time.sleep(0.1)
            said = self.types(command)
        return said

    def end(self):
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()  # Its jobs may have the other end, and go with the system.
        self.process.wait(60)


@pytest.fixture
def shell(fresh):
    own = Shell(fresh)
    yield own
    own.end()


def typed(shell, block, is_written):
    """The block with what its commands print now."""
    lines = []
    for command, wanted in steps(block):
        if is_written and VIEW.match(command):
            time.sleep(1)  # so that figures have settled, whatever they will be
        said = shell.shows(command, lambda text, wanted=wanted: is_written or masked(text) == masked(wanted))
        check(is_written or masked(said) == masked(wanted), f"$ {command}{said}\ninstead of\n{wanted}")
        first, *more = command.splitlines(keepends=True)
        lines += [f"$ {first}", *(f"> {line}" for line in more), *([f"{said}\n"] if said else [])]
    return "".join(lines)


def test_an_operator_finds_what_is_wrong(shell, packages):
    check("ambroker" in packages, packages)
    page = PAGE.read_text(encoding="utf-8")
    is_written = os.environ.get("AMB_TUTORIAL") == "write"
    shell.types(f"cd {INSIDE}")
    text = BLOCK.sub(lambda found: found[1] + typed(shell, found[2], is_written) + found[3], page)
    if is_written:
        PAGE.write_text(text, encoding="utf-8")
    for point in POINTS:
        check(point in text, f"nothing of {point}")
