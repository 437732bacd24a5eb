# SPDX-License-Identifier: Apache-2.0
"""The worked example of docs/security.md: each command of its section is run, in folders of the test's own,
and each line of output that the page shows comes, in that order.

    security_example_test.py
"""
import os
import pathlib
import re
import subprocess

import pytest
from harness import check

SECONDS = 120
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "security.md"
HEADING = "## A worked example: one machine, two users"


def blocks(kind, section):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", section, re.S | re.M)
    return [text for name, text in found if name == kind]


@pytest.mark.usefixtures("other_uids")
def test_one_machine_two_users(rig):
    text = PAGE.read_text()
    check(text.count(HEADING) == 1, "the page has the example")
    section = text.split(HEADING)[1].split("\n## ")[0]
    places = {"/etc/ambroker": "etc", "/run/ambroker": "run", "/var/log/ambroker": "log"}
    for old, new in places.items():
        check(old in section, f"{old} is used")
        (rig.folder / new).mkdir()
        section = section.replace(old, str(rig.folder / new))
    config, = blocks("", section)
    (rig.folder / "etc" / "broker.conf").write_text(config)
    commands = blocks("sh", section)
    check(len(commands) == 4, f"{len(commands)} blocks of commands")
    script = rig.folder / "example.sh"
    script.write_text("set -eu\n" + "".join(commands))
    programs = {os.path.dirname(rig.program(name)) for name in ("brokerd", "broker-ctl")}
    env = {**os.environ, "PATH": os.pathsep.join([*programs, os.environ["PATH"]]), "LC_ALL": "C",
           "AMB_URL": f"unix://{rig.folder}/run/broker.sock"}
    for name in ("AMB_CONFIG", "AMB_CREDENTIALS", "AMB_CA"):
        env.pop(name, None)
    log = rig.folder / "example.log"
    with open(log, "wb") as errors:
        run = subprocess.Popen(["bash", script], env=env, stdout=subprocess.PIPE, stderr=errors, text=True,
                               start_new_session=True)
        try:
            said, _ = run.communicate(timeout=90)
        finally:
            if run.poll() is None:
                os.killpg(run.pid, 9)
    check(run.returncode == 0, f"{run.returncode}\n{said}\n{log.read_text()[-3000:]}")
    lines = iter(said.splitlines())
    for expected in "".join(blocks("text", section)).splitlines():
        check(any(line == expected for line in lines), f"\"{expected}\" does not come\n{said}\n{log.read_text()[-3000:]}")
