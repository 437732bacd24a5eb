#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions per message in publisher, broker and subscriber, against what they were.

    instructions.py BUILD [--messages 100000] [--tolerance 0.05] [--update]

Runs BUILD/tests/instructions-bench under callgrind (on the ring, one thread, a clock of its own), so
the figures are those of the code and not of the machine. They depend on compiler and build type:
instructions.json beside this file holds one baseline for each; --update writes this build's. Exit
status 1: a figure is more than --tolerance above its baseline; 77: there is no valgrind, or no
baseline for this build. Copies are made without `rep movsb`, which would count as one instruction a
byte, and without AVX, which not every machine has.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
CASES = ("64", "1024", "65536 lease")  # bytes of a message; lease: handed over one by one
ALONE = 20  # a message that is handed over alone takes so many times the work of one in a batch
PARTS = {"bench_publish": "publisher", "bench_broker": "broker", "bench_receive": "subscriber"}
BASELINE = pathlib.Path(__file__).resolve().with_name("instructions.json")
PIDFD = 100
TUNABLES = "glibc.cpu.hwcaps=-AVX_Fast_Unaligned_Load,-ERMS,-FSRM,-AVX512F,-AVX512VL"


def key_of(build):
    """What the figures depend on."""
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")

    def value(name):
        found = re.search(rf"^{name}(?::\w+)?=(.*)$", cache, re.M)
        return found.group(1) if found else ""

    compiler = value("CMAKE_C_COMPILER") or "cc"
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True,
                             check=True).stdout.splitlines()[0]
    kind = "clang" if "clang" in version else "gcc"
    major = re.search(r"(\d+)\.\d+", version).group(1)
    lto = " lto" if value("CMAKE_INTERPROCEDURAL_OPTIMIZATION") in ("ON", "TRUE", "1") else ""
    return f"{kind}-{major} {value('CMAKE_BUILD_TYPE')}{lto} {platform.machine()}"


def inclusive(path):
    """Instructions below each of PARTS, as bench_measure calls them."""
    names, counts = {}, {}
    callee = None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            found = re.match(r"(c?fn)=\((\d+)\)(?: (.*))?", line)
            if found:
                if found.group(3):
                    names[found.group(2)] = found.group(3).strip()
                if found.group(1) == "cfn":
                    callee = names.get(found.group(2), "")
            elif line.startswith("calls="):
                cost = int(next(lines).split()[1])
                part = PARTS.get((callee or "").split("'")[0])
                if part:
                    counts[part] = counts.get(part, 0) + cost
    return counts


def leave_pidfd():
    """In the child: valgrind 3.19 does not know pidfd_open, and who has none may not map."""
    os.dup2(os.pidfd_open(os.getpid()), PIDFD)


def count(build, case, messages):
    program = build / "tests/instructions-bench"
    size, *way = case.split()
    messages = messages // ALONE if way else messages
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", "--quiet", "--collect-atstart=no",
                   "--toggle-collect=bench_measure", f"--callgrind-out-file={out}", str(program),
                   size, str(messages), *way]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200,
                              close_fds=False, preexec_fn=leave_pidfd,
                              env={**os.environ, "GLIBC_TUNABLES": TUNABLES,
                                   "AMB_BENCH_PIDFD": str(PIDFD)})
        if done.returncode != 0:
            raise SystemExit(f"instructions: {' '.join(command)}: {done.stderr[-2000:]}")
        result = json.loads(done.stdout)
        counts = inclusive(out)
    if result["mapped"] == 0:
        raise SystemExit(f"instructions: nothing was mapped: {done.stderr[-2000:]}")
    return {part: round(counts[part] / result["messages"], 2) for part in PARTS.values()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--messages", type=int, default=100000)
    parser.add_argument("--tolerance", type=float, default=0.05)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return SKIPPED
    baselines = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {}
    key = key_of(options.build)
    counts = {case: count(options.build, case, options.messages) for case in CASES}
    known = baselines.get(key)
    worse = 0
    print(f"instructions per message, {key}\n| messages | part | baseline | now | ratio |\n"
          "|---|---|---|---|---|")
    for case, parts in counts.items():
        for part, value in parts.items():
            before = (known or {}).get(case, {}).get(part)
            ratio = value / before if before else None
            is_worse = ratio is not None and ratio > 1 + options.tolerance
            worse += is_worse
            print(f"| {case} | {part} | {before or '-'} | {value} | "
                  f"{f'{ratio:.3f}' if ratio else '-'}{' WORSE' if is_worse else ''} |")
    if options.update:
        baselines[key] = counts
        BASELINE.write_text(json.dumps(baselines, indent=1, sort_keys=True) + "\n",
                            encoding="utf-8")
        return 0
    if known is None:
        print(f"skipped: no baseline for {key}; --update makes one")
        return SKIPPED
    if worse:
        print(f"{worse} figures are more than {options.tolerance:.0%} above their baseline; if that "
              "is meant, --update")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
