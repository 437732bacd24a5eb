# SPDX-License-Identifier: Apache-2.0
"""What the long programs of this folder share: their options, a rig, and the package of a build."""
import argparse
import importlib
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from harness import Failure, Process, Rig  # noqa: E402  pylint: disable=wrong-import-position


def options(text, **numbers):
    """Of the command line: --build, --package, and those numbers with their defaults."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--build", default=HERE.parents[1] / "build" / "dev", type=pathlib.Path)
    parser.add_argument("--package", type=pathlib.Path, help="else that of the build")
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    given = parser.parse_args()
    given.package = (given.package or given.build / "python").resolve()
    if not (given.package / "ambroker").exists():
        print(f"skipped: no Python package in {given.package}")
        sys.exit(77)
    os.environ["AMBROKER_BIN"] = str(given.build.resolve() / "broker")
    return given


def module(given, name="ambroker"):
    """The package, or one of its modules; None: this package has none."""
    if str(given.package) not in sys.path:
        sys.path.insert(0, str(given.package))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


def run(main):
    """Exit status 1, and a sentence, where main() finds that it is not as promised."""
    try:
        main()
    except Failure as failure:
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {failure}")


def rig(given, seconds):
    """Its processes end with it."""
    return Rig(given.build, int(seconds))


def python(given, own, program, *arguments):
    """A child that runs a file of this folder, or a text."""
    words = ["-c", program] if "\n" in program else [str(HERE / program)]
    paths = [str(given.package), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return Process(own, [sys.executable, *words, *map(str, arguments)],
                   env={"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"})


def drain(ambroker, sub):
    """Takes all messages that a subscription has by now."""
    try:
        while True:
            sub.next(0)
    except ambroker.WouldBlock:
        pass


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors():
    """How many this process has."""
    return len(os.listdir("/proc/self/fd"))


def mappings():
    """How many memory areas this process has of broker's memory."""
    with open("/proc/self/maps", encoding="ascii") as file:
        return sum("ambroker-" in line for line in file)
