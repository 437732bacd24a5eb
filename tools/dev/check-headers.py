#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each header compiles alone as C17, the public ones as C++17 too.

usage: check-headers.py [--cc CC] [--cxx CXX] [--include DIR]... [--system DIR]...
                        [--without HEADER]...   those that include <HEADER> are left out
Without --include and --system: what the preset dev has generated, and what tools/deps.sh fetched."""
import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sysconfig

import sources

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wundef", "-Werror"]
PUBLIC = "client/include/"
FETCHED = ("build/deps/ucx/include", "build/deps/cuda/include")


def at(name):
    return os.path.join(sources.ROOT, name)


def compile_alone(command, name):
    done = subprocess.run(command, input=f'#include "{name}"\n'.encode(), capture_output=True,
                          cwd=sources.ROOT)
    if done.returncode == 0:
        return None
    return f"{name}: does not compile alone\n" + done.stderr.decode(errors="replace").rstrip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default=shutil.which("c++") or "")
    parser.add_argument("--include", action="append")
    parser.add_argument("--system", action="append")
    parser.add_argument("--without", action="append", default=[])
    args = parser.parse_args()
    if args.include is None and args.system is None:
        args.include, args.system = [at("build/dev/generated")], [at(n) for n in FETCHED]
    # Headers of client/python are left out where Python has none of its own.
    python = sysconfig.get_path("include")
    has_python = os.path.exists(os.path.join(python, "Python.h"))
    args.system = (args.system or []) + ([python] if has_python else [])
    public = "-I" + os.path.join(sources.ROOT, PUBLIC)
    paths = ["-I" + p for p in [sources.ROOT] + (args.include or [])] + [public]
    paths += ["-isystem" + p for p in args.system or []]
    c = [args.cc, "-std=c17", "-D_GNU_SOURCE", *WARNINGS, "-Wstrict-prototypes", *paths,
         "-fsyntax-only", "-xc", "-"]
    cxx = [args.cxx, "-std=c++17", *WARNINGS, public, "-fsyntax-only", "-xc++", "-"]

    headers = [n for n in sources.c_files("wire", "broker", "client", "tools", "tests")
               if n.endswith(".h") and (has_python or not n.startswith("client/python/"))
               and not any(f"#include <{w}>" in sources.read(n) for w in args.without)]
    jobs = [(c, name) for name in headers]
    notes = []
    if args.cxx:
        jobs += [(cxx, n[len(PUBLIC):]) for n in headers if n.startswith(PUBLIC)]
    else:
        notes.append("no C++ compiler: the public headers were not tried as C++")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = list(pool.map(lambda job: compile_alone(*job), jobs))
    sources.finish("check-headers", [r for r in results if r], notes)


if __name__ == "__main__":
    main()
