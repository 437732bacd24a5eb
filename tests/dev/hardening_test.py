# SPDX-License-Identifier: Apache-2.0
"""tools/dev/check-hardening finds each flag that was left out, and believes a program that has all.

    hardening_test.py
"""
import json
import platform
import shutil
import subprocess

import pytest
from planted import TOOLS

CHECK = str(TOOLS / "check-hardening")
PROGRAM = """
#include <stdio.h>
#include <string.h>
int main(int count, char **words)
{
    char text[40];
    strcpy(text, words[count - 1]);
    return printf("%s\\n", text) < 0;
}
"""
SOUND = ("-g", "-O2", "-fPIE", "-pie", "-fstack-protector-strong", "-fstack-clash-protection",
         "-D_FORTIFY_SOURCE=3", "-Wl,-z,relro,-z,now", "-Wl,-z,noexecstack")
X86 = platform.machine() == "x86_64"
CET = ("-fcf-protection=full",) if X86 else ()
# What is left out, what stands for it, and the words that it is told with.
PLANTED = {
    "pie": (("-fPIE", "-pie"), ("-fno-pie", "-no-pie"), "not position independent"),
    "relro": (("-Wl,-z,relro,-z,now",), ("-Wl,-z,norelro,-z,now",), "no RELRO"),
    "now": (("-Wl,-z,relro,-z,now",), ("-Wl,-z,relro,-z,lazy",), "symbols are bound late"),
    "stack": (("-Wl,-z,noexecstack",), ("-Wl,-z,execstack",), "an executable stack"),
    "protector": (("-fstack-protector-strong",), ("-fno-stack-protector",), "no stack protector"),
    "clash": (("-fstack-clash-protection",), ("-fno-stack-clash-protection",),
              "1 of 1 units without -fstack-clash-protection"),
    "fortify": (("-D_FORTIFY_SOURCE=3",), ("-U_FORTIFY_SOURCE",), "no checked copies"),
    "debug": (("-g",), ("-g0",), "no debug information"),
    **({"cet": (CET, ("-fcf-protection=none",), "cannot be jumped to under CET, as main")} if X86 else {}),
}


@pytest.fixture(autouse=True)
def needs_programs():
    for program in ("gcc", "readelf"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")


def run(folder, flags, *options):
    (folder / "program.c").write_text(PROGRAM, encoding="utf-8")
    subprocess.run(["gcc", *flags, "-o", folder / "program", folder / "program.c"], check=True)
    done = subprocess.run([CHECK, *options, str(folder / "program")], capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout + done.stderr


def test_all_flags_are_believed(tmp_path):
    status, said = run(tmp_path, (*SOUND, *CET))
    assert status == 0 and "0 problems" in said, said


@pytest.mark.parametrize("name", PLANTED)
def test_a_flag_that_is_left_out_is_found(tmp_path, name):
    without, instead, words = PLANTED[name]
    flags = [flag for flag in (*SOUND, *CET) if flag not in without]
    status, said = run(tmp_path, (*flags, *instead))
    assert status == 1 and words in said, said


def test_no_program_is_found(tmp_path):
    (tmp_path / "text").write_text("no program")
    for name in ("text", "none"):
        done = subprocess.run([CHECK, str(tmp_path / name)], capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "no program or library" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("level, status", (("-D_FORTIFY_SOURCE=3", 0), ("-D_FORTIFY_SOURCE=2", 1), ("", 1)))
def test_the_level_of_fortify(tmp_path, level, status):
    commands = tmp_path / "compile_commands.json"
    commands.write_text(json.dumps(
        [{"command": command, "file": str(TOOLS.parents[1] / file)} for command, file in
         ((f"gcc -O2 -U_FORTIFY_SOURCE {level} -c a.c", "wire/a.c"), ("gcc -O0 -c b.c", "wire/b.c"),
          ("gcc -O2 -c c.c", "tests/api/c.c"))]))
    got, said = run(tmp_path, (*SOUND, *CET), "--commands", str(commands))
    assert got == status and ("1 of 1 commands without" in said) == bool(status), said
