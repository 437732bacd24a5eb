# SPDX-License-Identifier: Apache-2.0
"""tools/dev/check-numbers.py finds a number in a page that is not the sources', and believes one
that is.

    numbers_test.py
"""
import pytest
from planted import run

CHECK = "check-numbers.py"
SOURCES = {
    "wire/base/clock.h": "#define AMB_NS_PER_MS INT64_C(1000000)\n",
    "broker/a.h": "#define AMB_ENTRIES_MAX (UINT64_C(1) << 17) /* of a log */\n"
                  "#define AMB_PART (AMB_ENTRIES_MAX / 4)\n#define AMB_AGE_NS (100 * AMB_NS_PER_MS)\n"
                  "#define AMB_FEW 3u\n#define AMB_MASK 0x10u\n"
                  "enum kind {\n    AMB_KIND_LAST = 7,\n};\n",
    "broker/b.c": "#define STEP 8u\n",
    "wire/c.c": "#define STEP 9u\n",
    "broker/config/config_schema.c": '{.path = "limits.window",\n .default_text = "2M",\n},\n'
                                     '{.path = "limits.age",\n .default_text = "auto",\n},\n',
}
TABLE = "| name | value |\n|---|---|\n| `{}` | {} |\n"
SOUND = ["131,072<!-- AMB_ENTRIES_MAX --> entries", "**131072** <!-- AMB_ENTRIES_MAX -->",
         "32 768 or 32,768<!-- AMB_PART -->", "100 ms<!-- AMB_AGE_NS -->", "0.1 s<!-- AMB_AGE_NS -->",
         "three<!-- AMB_FEW -->", "16<!-- AMB_MASK -->", "7<!-- AMB_KIND_LAST -->",
         "8<!-- STEP broker/b.c --> and 9<!-- STEP wire/c.c -->", "2 MiB<!-- limits.window -->",
         "6<!-- AMB_FEW * 2 -->", "6<!-- AMB_FEW *\n2 -->", "<!-- a remark: no name -->", "131 entries",
         TABLE.format("AMB_PART", "32,768"), TABLE.format("limits.window", "2 MiB"),
         "| limit | value |\n|---|---|\n| `AMB_PART` | 1 |\n"]
PLANTED = {
    "131,071<!-- AMB_ENTRIES_MAX -->": "AMB_ENTRIES_MAX is 131,072, and the page says 131,071",
    "100 µs<!-- AMB_AGE_NS -->": "AMB_AGE_NS is 100,000,000, and the page says 100 µs",
    "four<!-- AMB_FEW -->": "AMB_FEW is 3, and the page says four",
    "1 MiB<!-- limits.window -->": "limits.window is 2,097,152",
    "1<!-- limits.age -->": "limits.age has the default 'auto'",
    "1<!-- AMB_GONE -->": "AMB_GONE is not known",
    "8<!-- STEP -->": "STEP has several values: name a file of broker/b.c wire/c.c",
    "9<!-- STEP broker/b.c -->": "STEP is 8, and the page says 9",
    "many <!-- AMB_FEW -->": "and the page says many",
    "(<!-- AMB_FEW -->": "a comment that marks no number",
    TABLE.format("AMB_PART", "32,769"): "AMB_PART is 32,768, and the page says 32,769",
    TABLE.format("AMB_PART", "some"): "AMB_PART is 32,768, and the page says some",
}


@pytest.mark.parametrize("page", SOUND)
def test_a_right_number_is_believed(tmp_path, page):
    status, said = run(CHECK, tmp_path, {**SOURCES, "docs/a.md": page})
    assert status == 0, said


@pytest.mark.parametrize("page", PLANTED)
def test_a_wrong_number_is_found(tmp_path, page):
    status, said = run(CHECK, tmp_path, {**SOURCES, "docs/a.md": page})
    assert status == 1 and PLANTED[page] in said and "1 problem\n" in said
