# SPDX-License-Identifier: Apache-2.0
"""tools/dev/check-clang.py takes the options of the build but what they write, and finds what clang alone sees.

    clang_test.py
"""
import json
import shutil

import pytest
from planted import run

COMMAND = "/usr/bin/ccache /usr/bin/cc -I. -Wall -Werror -MD -MT a.o -MF a.o.d -std=c17 -o a.o -c a.c"
SOUND = "int sum(int count);\nint sum(int count)\n{\n    int next = count + 1;\n    return next + count;\n}\n"
PLANTED = SOUND.replace("count + 1", "count++ + count")


def judged(folder, text):
    entry = {"directory": str(folder), "file": str(folder / "a.c"), "command": COMMAND}
    commands = folder / "build" / "compile_commands.json"
    return run("check-clang.py", folder, {"a.c": text, "build/compile_commands.json": json.dumps([entry])},
               "--commands", str(commands))


@pytest.mark.skipif(shutil.which("clang") is None, reason="no clang")
def test_what_clang_sees_is_found(tmp_path):
    status, said = judged(tmp_path, SOUND)
    assert status == 0 and "sources: 1" in said, said
    status, said = judged(tmp_path, PLANTED)
    assert status == 1 and "unsequenced" in said and "1 problem\n" in said, said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.c", "build"], "something was written"


def test_no_clang_is_said(tmp_path):
    status, said = run("check-clang.py", tmp_path, {}, "--commands", "none", "--clang", "no-such-clang")
    assert status == 77 and "no clang" in said, said
