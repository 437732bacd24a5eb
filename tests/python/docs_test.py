# SPDX-License-Identifier: Apache-2.0
"""The snippets of docs/python.md, one after the other in one program."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_docs_snippets_run(build, tmp_path):
    pytest.importorskip("numpy")
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(snippets) == 5
    program = tmp_path / "snippets.py"
    program.write_text("\n".join(snippets), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-X", "dev", program], capture_output=True, text=True, timeout=60,
        check=False, env={**os.environ, "PYTHONPATH": str(build / "python"),
                          "AMBROKER_BIN": str(build / "broker")})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
