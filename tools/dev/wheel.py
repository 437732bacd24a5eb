#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The last steps of tools/wheel.sh, with auditwheel in PYTHONPATH.

    wheel.py finish WHEEL FOLDER    a copy with the licences of the libraries that auditwheel put in
    wheel.py check WHEEL            is it what docs/python.md promises? prints tag, size, import time
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

SIZE_MAX = 8_000_000  # bytes
IMPORT_MAX = 0.030  # seconds
TAG = re.compile(r"cp311-abi3-manylinux_2_\d+_(x86_64|aarch64)")
PROGRAMS = ("brokerd", "broker-ctl", "broker-bench")
# What a program has in it, and the package that has its licence: the page of brokerd.
WITHIN = {b"danvk/dygraphs": "libjs-dygraphs"}
OURS = re.compile(r"ambroker/(_amb\.abi3\.so|lib/libamb\.so\.\d+|bin/[\w-]+)")
TIME_IMPORT = """
import time
begin = time.perf_counter()
import ambroker
print(time.perf_counter() - begin)
"""


def fail(text):
    sys.exit(f"wheel: {text}")


def library_of(name):
    """The file name that a library had before auditwheel put a hash into it; None: it is ours."""
    if OURS.fullmatch(name) or not re.search(r"\.so(\.|$)", name):
        return None
    return re.sub(r"-[0-9a-f]{8}(?=\.so)", "", name.rsplit("/", 1)[-1])


def package_of(library):
    """The Debian package that has it."""
    done = subprocess.run(["dpkg-query", "--search", f"*/{library}"], capture_output=True, text=True,
                          check=False)
    names = sorted({line.split(":")[0] for line in done.stdout.splitlines()})
    runtime = [name for name in names if not name.endswith("-dev")]
    if not runtime:
        fail(f"{library}: no package has it, so its licence is not known")
    return runtime[0]


def packages_within(programs):
    """Those whose work is in the bytes of the programs."""
    return [package for mark, package in WITHIN.items() if any(mark in program for program in programs)]


def finish(wheel, folder):
    """Adds a licence for each library and what else is inside, and the sum of each file to RECORD."""
    from auditwheel.wheeltools import InWheelCtx  # pylint: disable=import-outside-toplevel
    wheel, folder = pathlib.Path(wheel).resolve(), pathlib.Path(folder).resolve()
    with InWheelCtx(wheel, folder / wheel.name) as inside:
        root = pathlib.Path(inside.path)
        licences = next(root.glob("*.dist-info")) / "licenses"
        libraries = (library_of(path.relative_to(root).as_posix()) for path in sorted(root.rglob("*.so*")))
        packages = [package_of(library) for library in libraries if library is not None]
        packages += packages_within([(root / "ambroker" / "bin" / name).read_bytes() for name in PROGRAMS])
        for package in packages:
            text = pathlib.Path(f"/usr/share/doc/{package}/copyright").read_bytes()
            (licences / f"{package}.txt").write_bytes(text)


def imported(wheel):
    """Seconds that `import ambroker` takes, the best of five, from an unpacked wheel."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        environment = {**os.environ, "PYTHONPATH": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # As pip leaves it: compiled.
        times = [float(subprocess.run([sys.executable, "-c", TIME_IMPORT], env=environment, check=True,
                                      capture_output=True, text=True).stdout) for _ in range(6)]
    return min(times[1:])


def check(wheel):
    """Tag, size, import time, contents, licences."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        damaged = archive.testzip()
        within = packages_within([archive.read(f"ambroker/bin/{name}") for name in PROGRAMS
                                  if f"ambroker/bin/{name}" in names])
    if damaged is not None:
        fail(f"{damaged} is damaged")
    tag = pathlib.Path(wheel).stem.split("-", 2)[2]
    if not TAG.fullmatch(tag):
        fail(f"its tag is {tag}")
    shown = json.loads(subprocess.run(["auditwheel", "show", "--json", wheel], check=True, capture_output=True,
                                      text=True).stdout)
    if shown["overall_tag"] != shown["sym_tag"] or shown["overall_tag"] not in tag:
        fail(f"auditwheel says {shown}")
    wanted = [f"ambroker/bin/{name}" for name in PROGRAMS]
    wanted += ["ambroker/_amb.abi3.so", "ambroker/__init__.py", "ambroker/lib/libconfig.so.9"]
    missing = [name for name in wanted if name not in names]
    strange = [name for name in names if re.search(r"libuc[pst]\b|libcuda", name)]
    if missing or strange:
        fail(f"it lacks {missing} and should not have {strange}")
    licences = {name.rsplit("/", 1)[-1] for name in names if "/licenses/" in name}
    libraries = [library for library in map(library_of, names) if library is not None]
    for library in libraries:
        if f"{package_of(library)}.txt" not in licences:
            fail(f"no licence of {library} is inside")
    for package in within:
        if f"{package}.txt" not in licences:
            fail(f"no licence of {package} is inside")
    if "LICENSE" not in licences or not libraries:
        fail("our own licence, or any library, is not inside")
    size, seconds = os.path.getsize(wheel), imported(wheel)
    print(f"{wheel}\ntag      {tag}\nsize     {size / 1e6:.2f} MB\nimport   {seconds * 1000:.1f} ms\n"
          f"inside   {', '.join(sorted(set(libraries)))}")
    if size > SIZE_MAX or seconds > IMPORT_MAX:
        fail(f"at most {SIZE_MAX / 1e6:.0f} MB and {IMPORT_MAX * 1000:.0f} ms are promised")


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "finish":
        finish(sys.argv[2], sys.argv[3])
    elif len(sys.argv) == 3 and sys.argv[1] == "check":
        check(sys.argv[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
