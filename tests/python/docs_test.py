# SPDX-License-Identifier: Apache-2.0
"""The snippets of docs/python.md, one after the other in one program."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_docs_snippets_run(build, package, tmp_path):
    pytest.importorskip("numpy")
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(snippets) == 6
    program = tmp_path / "snippets.py"
    program.write_text("\n".join(snippets), encoding="utf-8")
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-X", "dev", program], capture_output=True, text=True, timeout=60,
        check=False, env={**os.environ, "PYTHONPATH": path,
                          "AMBROKER_BIN": str(build / "broker")})
    # On a busy machine the broker may wait for the program, which is logged.
    words = [line for line in done.stderr.splitlines() if not line.startswith("slow: ")]
    assert (done.returncode, done.stdout, words) == (0, "", [])
