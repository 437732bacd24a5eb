#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/dev/check-names.py finds a name that two parts of the product define, and lets pass what one
part defines, or keeps for itself.

    names_test.py
"""
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parents[2] / "tools" / "dev" / "check-names.py"
SOUND = {
    "wire/a.h": "#pragma once\n#define AMB_A 1u\nstruct amb_a;\nint amb_a(void);\n",
    "wire/a.c": '#include "wire/a.h"\n\nint amb_a(void)\n{\n    return 1;\n}\n',
    "broker/b.h": "#pragma once\nstruct amb_a;\nstruct amb_b {\n    int x;\n};\n"
                  "enum amb_kind {\n    AMB_KIND_ONE,\n    AMB_KIND_TWO,\n};\n"
                  "static inline int amb_b(void)\n{\n    return 1;\n}\n",
    "broker/b.c": "struct own {\n    int x;\n};\n\nstatic int find(void)\n{\n    return 1;\n}\n",
    "client/c.c": "struct own {\n    int y;\n};\n\nstatic int find(void)\n{\n    return 2;\n}\n"
                  "/* struct amb_b { is the broker's; AMB_KIND_ONE too */\n",
}
PLANTED = {
    "a struct in both": ("struct amb_b {\n    int y;\n};\n", "struct amb_b has two meanings"),
    "a tag of another kind": ("enum amb_b {\n    AMB_C,\n};\n", "struct amb_b has two meanings"),
    "a function in both": ("int amb_a(void)\n{\n    return 2;\n}\n", "amb_a has two meanings"),
    "an inline function": ("static inline int amb_b(void)\n{\n    return 2;\n}\n",
                           "amb_b has two meanings"),
    "a macro in both": ("#define AMB_A 2u\n", "AMB_A has two meanings"),
    "a constant in both": ("enum amb_own {\n    AMB_KIND_TWO = 3,\n};\n",
                           "AMB_KIND_TWO has two meanings"),
}


def check(files):
    """What the check says of a project of these files, and its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, str(CHECK), "--root", folder],
                              capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def main():
    failed = 0
    status, said = check(SOUND)
    if status != 0:
        failed += 1
        print(f"a sound project: found what is not there: {said}")
    for name, (text, expected) in PLANTED.items():
        status, said = check({**SOUND, "client/d.h": "#pragma once\n" + text})
        if status != 1 or expected not in said or "1 problem\n" not in said:
            failed += 1
            print(f"{name}: not found, or more than that: {said}")
    print(f"{len(PLANTED)} planted, {failed} wrong")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
