# SPDX-License-Identifier: Apache-2.0
"""tools/dev/check-mentions.py finds names that comments and pages mention and that are gone, and lets
pass those that are there.

    mentions_test.py
"""
import pytest
from planted import run

CHECK = "check-mentions.py"
SOUND = {
    "wire/a.h": "#pragma once\n/* amb_a_run, amb_a_*: struct amb_a.part.held, of wire/a.h. */\n"
                "struct amb_a_part {\n    int held; /* in a->part */\n};\n"
                "struct amb_a {\n    struct amb_a_part part;\n    int (*call)(int x);\n"
                "    union {\n        int one, two[3];\n    } kind;\n    struct foreign far;\n};\n"
                "struct amb_other_a {\n    int own;\n};\n"
                "int amb_a_run(void); /* a->call, a->kind.two, a->far.any, a->own, it->held */\n",
    "docs/a.md": "`amb_a.part.held` and `a->kind.one`, by `amb_a_run`. See `amb_a.h`, amb_a.\n",
}
PLANTED = {
    "a function in a comment": ("client/b.c", "/* amb_gone does it */\n", "amb_gone is not in the"),
    "behind two slashes": ("client/b.c", "// amb_gone does it\n", "amb_gone is not in the"),
    "a function on a page": ("docs/b.md", "Then `amb_gone`.\n", "amb_gone is not in the code"),
    "a beginning of names": ("docs/b.md", "All of `amb_gone_*`.\n", "amb_gone_* is not in the"),
    "a field of a struct": ("docs/b.md", "In `amb_a.held`.\n", "amb_a.held: there is no such"),
    "a field of a part": ("docs/b.md", "In `amb_a.part.gone`.\n", "amb_a.part.gone: there is no"),
    "a field of a variable": ("client/b.c", "/* a->held */\n", "a->held: there is no such member"),
    "a field of a union": ("client/b.c", "/* a->kind.three */\n", "a->kind.three: there is no"),
    "a field of no struct": ("client/b.c", "/* it->gone */\n", "it->gone: there is no such"),
}


def test_nothing_is_found_where_nothing_is(tmp_path):
    status, said = run(CHECK, tmp_path, SOUND)
    assert status == 0, said


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(tmp_path, name):
    path, text, expected = PLANTED[name]
    status, said = run(CHECK, tmp_path, {**SOUND, path: text})
    assert status == 1 and f"{path}:1: {expected}" in said and "1 problem\n" in said
