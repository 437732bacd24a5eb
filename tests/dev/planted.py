# SPDX-License-Identifier: Apache-2.0
"""Runs a script of tools/dev on a project of some files: of sound ones, or with a fault planted."""
import pathlib
import subprocess
import sys

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "dev"


def run(script, root, files, *options):
    """Its exit status, and what it says, in a folder that has these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, str(TOOLS / script), "--root", str(root), *options],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr
