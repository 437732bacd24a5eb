#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/dev/new-file in a copy of the tree: what it makes is configured, compiles without a warning,
passes the checks but for what is to be filled in, and the new test runs.

    new_file_test.py [CMAKE-OPTION]...
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import sources  # noqa: E402

# A room, and what its new test links where that is not the room's own library.
ROOMS = (("wire/base", ""), ("wire/link/ring", ""), ("tools/common", ""), ("client/publish", ""),
         ("broker/topic", "amb_shard_harness"))
NAME = "newcomer"


def run(folder, *command, status=0):
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode != status:
        sys.exit(f"FAIL: {' '.join(map(str, command))}: exit {done.returncode}\n{said[-4000:]}")
    return said


def copy_tree(to):
    for name in sources.all_files():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, to / name)


def main():
    with tempfile.TemporaryDirectory(prefix="amb-new-file-") as folder:
        tree = pathlib.Path(folder)
        copy_tree(tree)
        tool = tree / "tools/dev/new-file"
        made = []
        for room, library in ROOMS:
            said = run(tree, tool, room, NAME if room != "wire/link/ring" else f"{NAME}_ring",
                       *(["--links", library] if library else []))
            made += [name for name in said.split() if name.endswith((".c", ".h"))]
        said = run(tree, tool, "wire/base", NAME, status=1)
        assert "is there" in said, said
        said = run(tree, tool, "broker/nowhere", NAME, status=1)
        assert "is no room" in said, said

        for check in ("arrows", "size", "tests"):
            run(tree, sys.executable, f"tools/dev/check-{check}.py")
        run(tree, "tools/dev/check-format.sh", *made, status=0 if shutil.which("clang-format-14") else 77)
        said = run(tree, sys.executable, "tools/dev/check-words.py", status=1)
        assert said.count(" without an issue") == 5 * len(ROOMS), said

        build = tree / "build"
        run(tree, "cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
            "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON", "-DAMB_LINT=OFF", *sys.argv[1:])
        tests = json.loads(run(tree, "ctest", "--test-dir", build, "--show-only=json-v1"))["tests"]
        names = [test["name"] for test in tests if NAME in test["name"]]
        assert len(names) == len(ROOMS), names
        # One of them whole; of the others, whose libraries are large, what is new.
        objects = [line.split(":")[0] for line in run(build, "ninja", "-t", "targets", "all").splitlines()
                   if NAME in line and ".c.o:" in line]
        assert len(objects) >= 2 * len(ROOMS), objects  # the simulator has the core once more
        run(build, "ninja", "unit-wire-base-" + NAME, *objects)
        said = run(build, "ctest", "-R", f"^unit-wire-base-{NAME}$", "--output-on-failure")
        assert "100% tests passed" in said, said
    print(f"{len(ROOMS)} rooms: passed")


if __name__ == "__main__":
    main()
