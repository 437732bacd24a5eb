# SPDX-License-Identifier: Apache-2.0
"""broker-ctl user add, set, rm, list, show: a users file is edited, by several at once, and by one that
is killed in the middle.

    users_edit_test.py [--rounds 60]
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import time

import pytest
from harness import as_user, check

SECONDS = 200
USAGE, DATA, TIMEOUT = 64, 65, 75
HEAD = "# ours, for the plant\n\nop:$:ops:-:-:uid/1000\n# cameras\ncam1:plant:camera:small:off:uid/1001\n#end\n"


class File:
    """A users file, and broker-ctl on it."""

    def __init__(self, rig, text=HEAD):
        self.rig = rig
        self.path = rig.folder / "conf" / "users"
        self.path.parent.mkdir()
        if text is not None:
            self.path.write_text(text)
            self.path.chmod(0o600)

    def command(self, *words):
        return [self.rig.program("broker-ctl"), "user", *map(str, words), "--file", str(self.path)]

    def ctl(self, *words, prefix=()):
        return subprocess.run([*prefix, *self.command(*words)], capture_output=True, text=True, timeout=60,
                              check=False)

    def edit(self, *words):
        done = self.ctl(*words)
        check(done.returncode == 0, f"{words}: {done}")

    def refused(self, *words, say, code=DATA):
        before = self.path.read_bytes() if self.path.exists() else None
        done = self.ctl(*words)
        check(done.returncode == code and say in done.stderr, f"{words}: {done}")
        check((self.path.read_bytes() if before is not None else None) == before, f"{words}: a change")
        check(sorted(path.name for path in self.path.parent.iterdir() if path.name.startswith(".")) == [],
              f"{words}: something is left")

    def lines(self):
        return self.path.read_text().splitlines()


def test_comments_and_order_stay(rig):
    users = File(rig)
    users.edit("add", "cam7", "--tenant", "plant", "--role", "camera", "--role", "viewer", "--quota", "small",
               "--until", "2027-06-30", "--credential", "uid/1007")
    line = "cam7:plant:camera,viewer:small:until=2027-06-30:uid/1007"
    check(users.path.read_text() == HEAD + line + "\n", users.path.read_text())
    users.edit("set", "cam1", "--on", "--quota", "-", "--credential", "uid/1", "--rm-credential", "uid/1001")
    check(users.lines()[4] == "cam1:plant:camera:-:-:uid/1", users.path.read_text())
    users.edit("rm", "op")
    check(users.lines() == ["# ours, for the plant", "", "# cameras", "cam1:plant:camera:-:-:uid/1", "#end", line],
          users.path.read_text())
    check(users.path.stat().st_mode & 0o7777 == 0o600, "its mode")
    shown = users.ctl("show", "cam7")
    check(shown.stdout == line + "\n", f"{shown}")
    rows = json.loads(users.ctl("list", "-o", "json").stdout)
    check([(row["user"], row["line"], row["roles"]) for row in rows] ==
          [("cam1", 4, ["camera"]), ("cam7", 6, ["camera", "viewer"])], f"{rows}")
    table = users.ctl("list")
    check("until=2027-06-30" in table.stdout and table.returncode == 0, f"{table}")


def test_a_key_is_made_and_nothing_overwritten(rig):
    users = File(rig, text=None)
    cred = rig.folder / "cam7.cred"
    users.edit("add", "cam7", "--role", "camera", "--new-key", cred)  # The file is made, too.
    check(users.path.stat().st_mode & 0o7777 == 0o600 and cred.stat().st_mode & 0o7777 == 0o600, "modes")
    text = cred.read_text()
    check(text.startswith("ambroker credentials 1\nuser = cam7\n") and "PRIVATE KEY" in text, text)
    key = subprocess.run([rig.program("broker-ctl"), "key", "show", cred], capture_output=True, text=True,
                         check=True, timeout=30).stdout.strip()
    check(users.lines()[-1] == f"cam7:default:camera:-:-:{key}", users.path.read_text())
    users.refused("add", "cam7", "--new-key", rig.folder / "other.cred", say="has a user cam7 already, in line 2")
    users.refused("add", "cam8", "--new-key", cred, say="File exists")
    users.refused("add", "cam8", "--credential", key, "--new-key", rig.folder / "other.cred",
                  say=":3: the credential")
    check(not (rig.folder / "other.cred").exists() and cred.read_text() == text, "no key is left, none is lost")
    users.edit("set", "cam7", "--new-key", rig.folder / "next.cred", "--rm-credential", key)
    check(users.lines()[-1].count("key/") == 1 and key not in users.lines()[-1], users.path.read_text())


def test_what_is_wrong_is_refused(rig):
    users = File(rig)
    for words, say in (
        (("add", "tcp"), "cannot have the name"),
        (("add", "a.b"), "is no name"),
        (("add", "a:b"), "a ':' or a ','"),
        (("add", "cam9", "--role", "a,b"), "a ':' or a ','"),
        (("add", "cam9", "--credential", "pass/word"), "is no credential"),
        (("add", "cam9", "--credential", "uid/1001"), "the credential uid/1001 is there twice"),
        (("add", "cam9", "--until", "tomorrow"), "is no day"),
        (("set", "cam9", "--off"), "has no user cam9"),
        (("rm", "cam9"), "has no user cam9"),
        (("show", "cam9"), "has no user cam9"),
        (("set", "op", "--rm-credential", "uid/7"), "has no credential"),
        (("add", "x", *sum((("--credential", f"cert/dns={i}" + "x" * 1000) for i in range(5)), ())),
         "longer than 4096 bytes"),
    ):
        users.refused(*words, say=say)
    for words in (("set", "op"), ("add",), ("add", "a", "b"), ("list", "a"), ("rm", "op", "--off"),
                  ("add", "a", "--ca", "x"), ("frob",)):
        users.refused(*words, say="user", code=USAGE)
    # A file that was wrong before is not made worse: its line is told.
    for text, say in (("a:b\n", "users:1: roles missing"), (HEAD + "x" * 5000 + "\n", "users:7: is longer than"),
                      (HEAD + "op:t:-:-:-:-\n", "users:7: the user op is there twice"),
                      ("a\0b\n", "users:1: has a NUL")):
        users.path.write_text(text)
        for words in (("add", "cam9"), ("rm", "op"), ("list",)):
            users.refused(*words, say=say)
    users.path.write_text(HEAD)
    users.path.chmod(0o640)
    users.refused("add", "cam9", say="can be read by others (got mode 0640")
    users.path.unlink()
    users.refused("set", "op", "--off", say="No such file")


@pytest.mark.usefixtures("other_uids")
def test_a_folder_that_cannot_be_written(rig):
    users = File(rig)
    shutil.chown(users.path, 12345, 12345)
    done = users.ctl("add", "cam9", prefix=as_user(12345))
    check(done.returncode == DATA and "no file can be made in its folder: Permission denied" in done.stderr,
          f"{done}")
    done = users.ctl("add", "cam9", prefix=as_user(12346))
    check(done.returncode == DATA and "Permission denied" in done.stderr, f"{done}")
    check(users.path.read_text() == HEAD, "nothing has changed")
    # Root edits the broker's file, which stays the broker's.
    users.edit("add", "cam9")
    stat = users.path.stat()
    check((stat.st_uid, stat.st_gid, stat.st_mode & 0o7777) == (12345, 12345, 0o600), f"{stat}")
    # A read-only folder, and a full disk.
    for mount, say in ((f"mount --bind {users.path.parent} {users.path.parent} && "
                        f"mount -o remount,bind,ro {users.path.parent}", "Read-only file system"),
                       (f"mkdir {rig.folder}/keep && cp -p {users.path} {rig.folder}/keep && "
                        f"mount -t tmpfs -o size=8k,mode=755 tmpfs {users.path.parent} && "
                        f"cp -p {rig.folder}/keep/users {users.path.parent} && "
                        f"dd if=/dev/zero of={users.path.parent}/fill 2>/dev/null; true",
                        "No space left on device")):
        done = users.ctl("add", "cam10", prefix=("unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh"))
        if "unshare" in done.stderr or "mount" in done.stderr:
            pytest.skip(f"no namespace of mounts: {done.stderr}")
        check(done.returncode == DATA and say in done.stderr, f"{done}")


def test_all_who_edit_at_once_are_heard(rig):
    users = File(rig)
    rounds, each = 6, 8
    for round_ in range(rounds):
        names = [f"u{round_}x{i}" for i in range(each)]
        running = [subprocess.Popen(users.command("add", name, "--timeout", "60"), stdout=subprocess.DEVNULL)
                   for name in names]
        check([process.wait(60) for process in running] == [0] * each, "each is in")
    check(len(json.loads(users.ctl("list", "-o", "json").stdout)) == 2 + rounds * each, users.path.read_text())
    check(users.path.read_text().startswith(HEAD), "the rest stays")
    check([path.name for path in users.path.parent.iterdir()] == ["users"], "nothing else is left")


def test_two_who_make_the_file_at_once(rig):
    users = File(rig, text=None)
    running = [subprocess.Popen(users.command("add", f"u{i}", "--timeout", "60"), stdout=subprocess.DEVNULL)
               for i in range(6)]
    check([process.wait(60) for process in running] == [0] * 6, "each is in")
    check(len(users.lines()) == 7, users.path.read_text())


def test_killed_in_the_middle_it_is_old_or_new(rig, options):
    """A file of 20,000 users takes some milliseconds to read, to judge and to write."""
    rounds = int(options.get("rounds", 60))
    users = File(rig, HEAD + "".join(f"u{i}:plant:camera:small:-:uid/{5000 + i}\n" for i in range(20000)))
    began = time.monotonic()
    users.edit("add", "first")
    took = time.monotonic() - began
    before, was_new = users.path.read_bytes(), 0
    chance = random.Random(20)
    for number in range(rounds):
        process = subprocess.Popen(users.command("add", f"k{number}"), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.2, 1.3) * took)
        process.kill()
        process.wait()
        after = users.path.read_bytes()
        new = before + f"k{number}:default:-:-:-:-\n".encode()
        check(after in (before, new), f"round {number}: {len(before)} {len(after)}")
        was_new += after == new
        before = after
    print(f"{rounds} killed: {was_new} edits were done, {rounds - was_new} were not")
    users.edit("add", "last")  # No lock stays, and what a killed one left is no matter.
    check(users.path.read_bytes() == before + b"last:default:-:-:-:-\n", "the last edit")
    check([path.name for path in users.path.parent.iterdir()] == ["users"], "nothing is left of the killed")


def test_the_brokers_configuration_names_the_file(rig):
    users = File(rig)
    config = rig.folder / "broker.conf"
    config.write_text(f'auth = {{ users = "{users.path}"; }};\nroles = ( {{ name = "ops"; }}, {{ name = "camera"; }} );\n'
                      'quotas = ( { name = "small"; } );\n')
    def run(*words, env=None):
        return subprocess.run([rig.program("broker-ctl"), "user", *words], capture_output=True, text=True,
                              timeout=60, check=False, env={**os.environ, **(env or {})})
    done = run("list", "--config", str(config))
    check(done.returncode == 0 and "cam1" in done.stdout, f"{done}")
    done = run("add", "cam9", env={"AMB_CONFIG": str(config)})
    check(done.returncode == 0 and users.lines()[-1].startswith("cam9:"), f"{done}")
    config.write_text("log = { level = \"warn\"; };\n")
    done = run("list", "--config", str(config))
    check(done.returncode == DATA and "--file" in done.stderr, f"{done}")
    check(pathlib.Path(users.path).exists(), "it is left alone")
