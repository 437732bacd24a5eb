# SPDX-License-Identifier: Apache-2.0
"""tools/dev/check-names.py finds a name that two parts of the product define, and a field that gives a
word another meaning. It lets pass what one part defines, or keeps for itself.

    names_test.py
"""
import pytest
from planted import run

CHECK = "check-names.py"
SOUND = {
    "wire/a.h": "#pragma once\n#define AMB_A 1u\nstruct amb_a;\nint amb_a(void);\n",
    "wire/a.c": '#include "wire/a.h"\n\nint amb_a(void)\n{\n    return 1;\n}\n',
    "broker/b.h": "#pragma once\nstruct amb_a;\nstruct amb_b {\n    int x;\n};\n"
                  "enum amb_kind {\n    AMB_KIND_ONE,\n    AMB_KIND_TWO,\n};\n"
                  "static inline int amb_b(void)\n{\n    return 1;\n}\n",
    "broker/b.c": "struct own {\n    int x;\n};\n\nstatic int find(void)\n{\n    return 1;\n}\n",
    "client/e.h": "#pragma once\nstruct amb_e {\n    uint32_t body_left; /* due; */\n"
                  "    struct amb_list_node waiting;\n    int64_t due_ns;\n};\n",
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
    "left for gone": ("struct amb_d {\n    bool is_left;\n};\n", "is_left: left is a number"),
    "due for a list": ("struct amb_d {\n    struct amb_list_node due;\n};\n", "due: due is a matter"),
    "waiting for a number": ("struct amb_d {\n    uint32_t waiting;\n};\n", "waiting: waiting is a list"),
    "a constant in both": ("enum amb_own {\n    AMB_KIND_TWO = 3,\n};\n",
                           "AMB_KIND_TWO has two meanings"),
}


def test_nothing_is_found_where_nothing_is(tmp_path):
    status, said = run(CHECK, tmp_path, SOUND)
    assert status == 0, said


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(tmp_path, name):
    text, expected = PLANTED[name]
    status, said = run(CHECK, tmp_path, {**SOUND, "client/d.h": "#pragma once\n" + text})
    assert status == 1 and expected in said and "1 problem\n" in said
