#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a notebook from a script, so that the text under review is a program that tests run.

    notebook.py SCRIPT [NOTEBOOK]    NOTEBOOK: else the script's name with .ipynb
    notebook.py --check SCRIPT       exit 1 where the notebook is not that of the script

A cell begins with "# %%"; one of text with "# %% [markdown]", and its lines are comments."""
import json
import pathlib
import re
import sys

HEAD = re.compile(r"^# %%(.*)$", re.M)


def cell_of(number, kind, text):
    """One cell, as nbformat 4.5 has it."""
    is_text = "[markdown]" in kind
    lines = text.strip("\n").split("\n")
    if is_text:
        wrong = [line for line in lines if not line.startswith("#")]
        if wrong:
            sys.exit(f"notebook: in a cell of text: {wrong[0]!r}")
        lines = [re.sub(r"^# ?", "", line) for line in lines]
    source = [f"{line}\n" for line in lines[:-1]] + lines[-1:]
    cell = {"cell_type": "markdown" if is_text else "code", "id": f"cell-{number}", "metadata": {}, "source": source}
    return cell if is_text else {**cell, "execution_count": None, "outputs": []}


def notebook_of(script):
    """The notebook's text."""
    parts = HEAD.split(script)[1:]
    cells = [cell_of(number, kind, text) for number, (kind, text) in enumerate(zip(parts[::2], parts[1::2]))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
             "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def main():
    words = sys.argv[1:]
    is_check = words[:1] == ["--check"]
    words = words[is_check:]
    if not 1 <= len(words) <= 2 - is_check:
        sys.exit(__doc__)
    script = pathlib.Path(words[0])
    target = pathlib.Path(words[1]) if len(words) == 2 else script.with_suffix(".ipynb")
    text = notebook_of(script.read_text(encoding="utf-8"))
    if not is_check:
        target.write_text(text, encoding="utf-8")
    elif not target.exists() or target.read_text(encoding="utf-8") != text:
        sys.exit(f"notebook: {target} is not that of {script}: run tools/dev/notebook.py {script}")


if __name__ == "__main__":
    main()
