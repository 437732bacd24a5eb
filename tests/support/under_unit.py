#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program under those restrictions of a systemd unit that the kernel's seccomp holds, without
systemd: SystemCallFilter, SystemCallErrorNumber=EPERM, MemoryDenyWriteExecute, NoNewPrivileges. And with
its UMask and Environment.

    under_unit.py UNIT PROGRAM [ARGUMENT]...

systemd-analyze says which calls a group has; numbers of calls are those of the C library's headers.
Exit 77: this machine has not what it takes. x86_64 alone."""
import ctypes
import os
import platform
import re
import struct
import subprocess
import sys

SKIPPED, USAGE = 77, 64
HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h")
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ALLOW, REFUSE = 0x7FFF0000, 0x00050001  # SECCOMP_RET_ALLOW; SECCOMP_RET_ERRNO with EPERM
ARCH_X86_64, ARCH_AT, NUMBER_AT, THIRD_ARGUMENT_AT = 0xC000003E, 4, 0, 32
LOAD, EQUAL, AND, RETURN = 0x20, 0x15, 0x54, 0x06
WRITE, EXECUTE = 2, 4
BEGUN_BY_SYSTEMD = ("execve",)


def skip(why):
    print(f"under_unit: {why}", file=sys.stderr)
    sys.exit(SKIPPED)


def numbers():
    path = next((path for path in HEADERS if os.path.exists(path)), None)
    if path is None or platform.machine() != "x86_64":
        skip("no numbers of system calls for x86_64")
    with open(path, encoding="utf-8") as stream:
        return {name: int(number) for name, number in
                re.findall(r"#define __NR_(\w+) (\d+)", stream.read())}


def group(name):
    """The calls of a group, and of the groups in it."""
    done = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter", name],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        skip(f"systemd-analyze does not know {name}")
    calls = set()
    for word in (line.strip() for line in done.stdout.splitlines()[1:]):
        if word.startswith("@"):
            calls |= group(word)
        elif word and not word.startswith("#"):
            calls.add(word)
    return calls


def allowed(lines):
    """As systemd reads SystemCallFilter: the first line makes a list, others add to it or take away."""
    calls = set(BEGUN_BY_SYSTEMD)
    for value in lines:
        named = set()
        for word in value.lstrip("~").split():
            named |= group(word) if word.startswith("@") else {word}
        calls = calls - named if value.startswith("~") else calls | named
    return calls | group("@default")


def step(code, value, if_true=0, if_false=0):
    return struct.pack("HBBI", code, if_true, if_false, value)


def refuse_memory(number, bits):
    """The call of that number is refused where its third argument has all these bits."""
    return (step(EQUAL, number, 0, 5) + step(LOAD, THIRD_ARGUMENT_AT) + step(AND, bits) +
            step(EQUAL, bits, 0, 1) + step(RETURN, REFUSE) + step(LOAD, NUMBER_AT))


def program(calls, denies_code):
    known = numbers()
    steps = step(LOAD, ARCH_AT) + step(EQUAL, ARCH_X86_64, 1, 0) + step(RETURN, REFUSE)
    steps += step(LOAD, NUMBER_AT)
    if denies_code:
        for name, bits in (("mmap", WRITE | EXECUTE), ("mprotect", EXECUTE), ("pkey_mprotect", EXECUTE)):
            steps += refuse_memory(known[name], bits)
    for name in sorted(calls & known.keys()):
        steps += step(EQUAL, known[name], 0, 1) + step(RETURN, ALLOW)
    return steps + step(RETURN, REFUSE)


def restrict(steps):
    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(steps, len(steps))
    table = struct.pack("HxxxxxxP", len(steps) // 8, ctypes.addressof(text))
    if (libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or
            libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, table, 0, 0) != 0):
        skip(f"no seccomp here: {os.strerror(ctypes.get_errno())}")


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        sys.exit(USAGE)
    with open(sys.argv[1], encoding="utf-8") as stream:
        settings = re.findall(r"^(\w+)=(.*)$", stream.read(), re.M)
    single = dict(settings)
    os.environ.update(value.split("=", 1) for name, value in settings if name == "Environment")
    filters = [value for name, value in settings if name == "SystemCallFilter"]
    if not filters or single.get("SystemCallErrorNumber") != "EPERM":
        print(f"under_unit: {sys.argv[1]} has no SystemCallFilter, or another answer than EPERM",
              file=sys.stderr)
        sys.exit(USAGE)
    steps = program(allowed(filters), single.get("MemoryDenyWriteExecute") == "yes")
    os.umask(int(single.get("UMask", "0022"), 8))
    restrict(steps)
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
