#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang takes each source as it is built, without a warning. gcc sees other faults than clang does.

    check-clang.py --commands BUILD/compile_commands.json [--clang CLANG]

Nothing is built, so headers that the build makes must be there. Without clang: 77."""
import argparse
import concurrent.futures
import json
import os
import shlex
import shutil
import subprocess
import sys

import sources

# cmake/AmbCompiler.cmake says why clang does without the first.
OPTIONS = ["-Wno-cast-qual", "-fsyntax-only"]
WITH_A_VALUE = ("-o", "-MF", "-MT", "-MQ")
LEFT_OUT = ("-c", "-MD", "-MMD")


def command(clang, entry):
    """What compiles the source, without what is written."""
    given = shlex.split(entry["command"])
    given = given[next(i for i, word in enumerate(given) if word.startswith("-")):]
    kept, skip = [], False
    for word in given:
        if skip or word in WITH_A_VALUE or word in LEFT_OUT:
            skip = not skip and word in WITH_A_VALUE
            continue
        kept.append(word)
    return [clang, *kept, *OPTIONS]


def complaint(clang, entry):
    done = subprocess.run(command(clang, entry), cwd=entry["directory"], capture_output=True, text=True,
                          check=False)
    return None if done.returncode == 0 else done.stderr.rstrip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--commands", required=True)
    parser.add_argument("--clang", default="clang")
    given = sources.options(parser)
    if shutil.which(given.clang) is None:
        print("check-clang: no clang")
        return 77
    made = os.path.join(os.path.dirname(os.path.abspath(given.commands)), "")
    with open(given.commands, encoding="utf-8") as stream:
        entries = {e["file"]: e for e in json.load(stream)
                   if e["file"].endswith(".c") and not e["file"].startswith(made)}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [p for p in pool.map(lambda e: complaint(given.clang, e), entries.values()) if p]
    return sources.finish("check-clang", problems, [f"sources: {len(entries)}"])


if __name__ == "__main__":
    sys.exit(main())
