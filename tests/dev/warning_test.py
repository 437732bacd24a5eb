# SPDX-License-Identifier: Apache-2.0
"""tools/dev/check-warning.py believes the warning that stands in the pages, however its lines break,
and finds one that is softened, unquoted or gone.

    warning_test.py
"""
import re

import pytest
from planted import TOOLS, run

CHECK = "check-warning.py"
WORDS = re.search(r"^WARNING = \((.*?)\)$", (TOOLS / CHECK).read_text(encoding="utf-8"), re.M | re.S)
WARNING = "".join(re.findall(r'"(.*?)"', WORDS.group(1)))
HALF = WARNING.index("without")
WRAPPED = f"> {WARNING[:HALF].strip()}\n> {WARNING[HALF:]}\n"
PLANTED = {
    "softened": (WRAPPED.replace("is not a security", "is a weak security"), "'a weak security boundary.'"),
    "cut": (WRAPPED.replace(" Everybody else uses `tls://`.", ""), "stands for 'Everybody else uses"),
    "longer": (WRAPPED.rstrip() + " Or nearly.\n", "'Or nearly.' stands for ''"),
    "unquoted": (WARNING + "\n", "not there, as a quotation"),
    "gone": ("> Another quotation.\n", "not there, as a quotation"),
}


def test_the_warning_is_believed(tmp_path):
    status, said = run(CHECK, tmp_path, {"README.md": f"# A\n\n{WRAPPED}\nMore.\n",
                                         "docs/security.md": f"> {WARNING}\n"})
    assert status == 0, said


@pytest.mark.parametrize("page", ("README.md", "docs/security.md"))
@pytest.mark.parametrize("kind", PLANTED)
def test_a_change_is_found(tmp_path, kind, page):
    text, words = PLANTED[kind]
    status, said = run(CHECK, tmp_path, {"README.md": WRAPPED, "docs/security.md": WRAPPED, page: text})
    assert status == 1 and f"{page}: " in said and words in said and "1 problem\n" in said, said
