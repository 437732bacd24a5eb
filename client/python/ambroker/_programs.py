# SPDX-License-Identifier: Apache-2.0
"""Where the packaged programs are, and their console scripts."""
import os
import pathlib
import shutil
import sys
from typing import NoReturn


def program(name: str) -> str:
    """The packaged program, else the one that $AMBROKER_BIN or PATH has."""
    for folder in (pathlib.Path(__file__).parent / "bin", os.environ.get("AMBROKER_BIN")):
        if folder and os.access(pathlib.Path(folder) / name, os.X_OK):
            return str(pathlib.Path(folder) / name)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name}: neither in the package, nor in $AMBROKER_BIN, nor in PATH")
    return found


def _become(name: str) -> NoReturn:
    """The packaged one alone: PATH has the script that called this."""
    path = str(pathlib.Path(__file__).parent / "bin" / name)
    try:
        os.execv(path, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {path}: {error.strerror}")


def brokerd() -> NoReturn:
    """The console script brokerd."""
    _become("brokerd")


def broker_ctl() -> NoReturn:
    """The console script broker-ctl."""
    _become("broker-ctl")


def broker_bench() -> NoReturn:
    """The console script broker-bench."""
    _become("broker-bench")
