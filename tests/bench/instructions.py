#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions of a message and of a wait, and system calls of a wait, against what they were.

    instructions.py BUILD [--cases PATTERN,...] [--messages 100000] [--rounds 60]
                    [--tolerance 0.05] [--update | --plant | --users]

Runs BUILD/tests/instructions-bench under callgrind (a clock of its own, threads that take turns), so
the figures are those of the code and not of the machine. They depend on compiler and build type:
instructions.json beside this file holds one baseline for each; --update writes this build's.

The cases of messages (`64`, `1024`, `65536 lease`) count instructions per message in publisher,
broker and subscriber. Those of waits (`waits ring`, `waits stream`) count instructions and system
calls of one wait each (instructions_waits.c): a message into a worker that sleeps, the worker from
wake-up to sleep, a receive that sleeps, a publisher that sleeps for room in its window. A wait's
system calls are the median of the rounds.

instructions.json has the tolerances, too: how far above its baseline a figure of messages, of waits,
and a number of system calls may be. A figure without a baseline is too high. --tolerance replaces the first. Exit status 1: a figure is
above; 77: there is no valgrind, or no baseline for this build. Copies are made without `rep movsb`,
which would count as one instruction a byte, and without AVX, which not every machine has.

--users counts messages once more with users, roles, trust groups and an audit log, by token. Ends with 0 only if
that takes at most 1 % more, on a ring, in leased memory and on a stream (the link of tcp:// and tls://).

--plant adds a system call to each sleep, and ends with 0 only if each of them is found.
"""
import argparse
import fnmatch
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

SKIPPED = 77
# Bytes of a message; lease: handed over one by one.
MESSAGES = ("64", "1024", "65536 lease")
STREAMS = ("64 stream", "1024 stream")
USERS_MAX = 1.01
WAITS = ("waits ring", "waits stream")
ALONE = 20  # a message that is handed over alone takes so many times the work of one in a batch
PARTS = {"bench_publish": "publisher", "bench_broker": "broker", "bench_receive": "subscriber"}
WAITERS = ("publisher", "broker", "subscriber", "room")
SLEEPERS = WAITERS[1:]  # a publisher wakes a worker, and does not sleep
CALLS = " calls"  # behind a part's name: its system calls
BASELINE = pathlib.Path(__file__).resolve().with_name("instructions.json")
PIDFD = 100
TUNABLES = "glibc.cpu.hwcaps=-AVX_Fast_Unaligned_Load,-ERMS,-FSRM,-AVX512F,-AVX512VL"
# As instructions_waits.c has them.
MARKS = {"2000000001": "begin", "2000000002": "end", "2000000003": "round"}
# A line of --trace-syscalls: a call begins, by that thread. Its result may follow on another line.
CALL = re.compile(r"SYSCALL\[\d+,\s*(\d+)\]\(\s*\d+\)\s+(?!\.\.\.)(?:sys_)?(\w+)\s*(\([^)]*)?")
# No calls of a wait: the clock is read without the kernel, but not under valgrind; and a mutex calls
# the kernel only where another thread happens to hold it.
NO_CALL = re.compile(r"clock_gettime|futex \( \w+, (?:128, 2|129, 1),")


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


def total(path):
    """All that was collected."""
    with open(path, encoding="utf-8") as lines:
        found = [line for line in lines if line.startswith(("totals:", "summary:"))]
    return int(found[-1].split()[1])


def calls_of(path):
    """The system calls between the marks, one number a round."""
    rounds, is_counting = [], set()
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            for thread, name, arguments in CALL.findall(line):
                mark = MARKS.get(arguments.strip("( ")) if name == "getpgid" else None
                if mark == "round":
                    rounds.append(0)
                elif mark == "begin":
                    is_counting.add(thread)
                elif mark == "end":
                    is_counting.discard(thread)
                elif thread in is_counting and not NO_CALL.match(f"{name} {arguments}"):
                    rounds[-1] += 1
    return rounds


def leave_pidfd():
    """In the child: valgrind 3.19 does not know pidfd_open, and who has none may not map."""
    os.dup2(os.pidfd_open(os.getpid()), PIDFD)


def callgrind(build, folder, options, arguments, env=None):
    """The program's result, and what callgrind wrote."""
    out = pathlib.Path(folder) / "callgrind.out"
    command = ["valgrind", "--tool=callgrind", "--quiet", "--collect-atstart=no", *options,
               f"--callgrind-out-file={out}", str(build / "tests/instructions-bench"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200,
                          close_fds=False, preexec_fn=leave_pidfd,
                          env={**os.environ, "GLIBC_TUNABLES": TUNABLES,
                               "AMB_BENCH_PIDFD": str(PIDFD), **(env or {})})
    if done.returncode != 0:
        raise SystemExit(f"instructions: {' '.join(command)}: {done.stderr[-2000:]}")
    return json.loads(done.stdout), out


def count_messages(build, case, messages, env=None):
    size, *way = case.split()
    messages = messages // ALONE if "lease" in way else messages
    with tempfile.TemporaryDirectory() as folder:
        result, out = callgrind(build, folder, ["--toggle-collect=bench_measure"],
                                [size, str(messages), *way], env)
        counts = inclusive(out)
    if result["mapped"] == 0 and "stream" not in way:
        raise SystemExit("instructions: nothing was mapped")
    return {part: round(counts[part] / result["messages"], 2) for part in PARTS.values()}


def count_waits(build, case, rounds, is_planted):
    link = case.split()[1]
    env = {"AMB_BENCH_PLANT": "1"} if is_planted else {}
    counts = {}
    for part in WAITERS:
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "calls"
            result, out = callgrind(build, folder, ["--trace-syscalls=yes", f"--log-file={log}"],
                                    ["waits", link, str(rounds), part], env)
            calls = calls_of(log)
            counts[part] = round(total(out) / result["rounds"], 2)
        if len(calls) != result["rounds"]:
            raise SystemExit(f"instructions: {len(calls)} rounds of {result['rounds']} were traced")
        counts[part + CALLS] = statistics.median(calls)
    return counts


def compare_users(build, chosen, messages):
    """Messages without users, and with them."""
    worse = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lines = [f"user{i}:default:reader,writer:-:-:token/sha256-{hashlib.sha256(b'token%d' % i).hexdigest()}"
                 for i in range(100)]
        files = {"users": "\n".join(lines) + "\n", "token": "token42\n", "config": f"""
auth = {{ users = "{folder}/users"; }};
roles = ( {{ name = "reader"; subscribe = {{ allow = ( ">" ); deny = ( "other.secret.>" ); }}; }},
          {{ name = "writer"; publish = ( "count", "other.%u.>" ); request = true; shared = ( "workers" ); }} );
topics = ( {{ match = "count"; trust_group = "counted"; }}, {{ match = "other.>"; trust_group = "others"; }} );
log = {{ audit = "{folder}/audit"; }};
"""}
        for file, text in files.items():
            (folder / file).write_text(text, encoding="ascii")
            (folder / file).chmod(0o600)
        env = {"AMB_BENCH_CONFIG": str(folder / "config"), "AMB_CREDENTIALS": str(folder / "token")}
        print("instructions of a message, without users and with them\n| case | part | without | with | ratio |\n"
              "|---|---|---|---|---|")
        for case in chosen:
            plain, named = count_messages(build, case, messages), count_messages(build, case, messages, env)
            for part, before in (*plain.items(), ("all", round(sum(plain.values()), 2))):
                after = named.get(part, round(sum(named.values()), 2))
                is_worse = part == "all" and after > before * USERS_MAX
                worse += is_worse
                print(f"| {case} | {part} | {before} | {after} | {after / before:.4f}{' WORSE' if is_worse else ''} |")
    return 1 if worse else 0


def kind_of(case, part):
    """Which tolerance is a figure's."""
    return "calls" if part.endswith(CALLS) else "waits" if case in WAITS else "messages"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--cases", default="*")
    parser.add_argument("--messages", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--tolerance", type=float)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--plant", action="store_true")
    parser.add_argument("--users", action="store_true")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return SKIPPED
    if not (options.build / "tests/instructions-bench").exists():
        print("skipped: built without valgrind's header, so there is no instructions-bench")
        return SKIPPED
    cases = (*MESSAGES, *STREAMS) if options.users else (*MESSAGES, *WAITS)
    chosen = [case for case in cases
              if any(fnmatch.fnmatch(case, pattern) for pattern in options.cases.split(","))]
    if options.users:
        return compare_users(options.build, chosen, options.messages)
    baselines = json.loads(BASELINE.read_text(encoding="utf-8"))
    tolerance = baselines["tolerance"]
    if options.tolerance is not None:
        tolerance = {**tolerance, "messages": options.tolerance}
    key = key_of(options.build)
    known = baselines.get(key)
    counts = {}
    for case in chosen:
        counts[case] = (count_waits(options.build, case, options.rounds, options.plant)
                        if case in WAITS else
                        count_messages(options.build, case, options.messages))
    worse = []
    print(f"instructions of a message, of a wait, and its system calls, {key}\n"
          "| case | part | baseline | now | ratio |\n|---|---|---|---|---|")
    for case, parts in counts.items():
        for part, value in parts.items():
            before = (known or {}).get(case, {}).get(part)
            limit = None if before is None else before * (1 + tolerance[kind_of(case, part)])
            is_worse = known is not None and (limit is None or value > limit)
            worse += [(case, part)] if is_worse else []
            print(f"| {case} | {part} | {'-' if before is None else before} | {value} | "
                  f"{f'{value / before:.3f}' if before else '-'}{' WORSE' if is_worse else ''} |")
    if options.plant and known is not None:
        planted = [(case, part + CALLS) for case in chosen if case in WAITS for part in SLEEPERS]
        missed = [what for what in planted if what not in worse]
        print(f"{len(planted)} system calls were planted, missed: {missed or 'none'}")
        return 1 if missed or not planted else 0
    if options.update:
        baselines[key] = {**(known or {}), **counts}
        BASELINE.write_text(json.dumps(baselines, indent=1, sort_keys=True) + "\n",
                            encoding="utf-8")
        return 0
    if known is None:
        print(f"skipped: no baseline for {key}; --update makes one")
        return SKIPPED
    if worse:
        print(f"{len(worse)} figures are further above their baseline than {tolerance} allows; if that is "
              "meant, --update")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
