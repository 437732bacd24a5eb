# SPDX-License-Identifier: Apache-2.0
"""Clients of other users and in other namespaces, on the ring; and nobody opens a port.

    users_test.py

Skipped unless root. The broker is root's, with a socket for everybody. Publisher and subscribers
are two unprivileged users of different groups; then they live in another PID namespace; then with a
/dev/shm of 64 MiB. Broker and clients on Unix sockets have no TCP or UDP socket.
"""
import os
import pathlib
import shutil
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

import pytest

from harness import check, until

PUBLISHER, OTHER, SUBSCRIBER = 12345, 12346, 65534
DEMO_SECONDS = 60


def as_user(number):
    return f"setpriv --reuid={number} --regid={number} --clear-groups"


def works(prefix, command="true"):
    """Can this machine run commands so?"""
    return (
        subprocess.run(
            [*prefix.split(), *command.split()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        ).returncode
        == 0
    )


def demo(rig, name, publisher, subscriber):
    """The demonstration's small form; publisher and subscriber are commands to run them under."""
    for prefix in (publisher, subscriber):
        if not works(prefix):
            print(f"{name}: left out, this machine cannot run: {prefix}", flush=True)
            return
    run = rig.start(
        [
            str(ROOT / "tools" / "demo" / "run.sh"),
            str(rig.build),
            "--small",
            *("--pub-prefix", publisher, "--sub-prefix", subscriber),
        ],
        env={"TMPDIR": str(rig.folder)},
    )
    lines = run.all_lines(DEMO_SECONDS)
    check(run.wait() == 0, f"{name}: the demonstration fails\n" + "\n".join(lines[-30:]))
    ways = [line for line in lines if line.startswith("unix-")]
    check(len(ways) >= 4, f"{name}: no subscribers in the report")
    for line in ways:
        check("mapped" in line or "ring" in line, f"{name}: not by the ring: {line}")
    print(f"{name}: passed", flush=True)


def inet_sockets(process):
    """TCP and UDP sockets of a process, whatever their state."""
    inodes = process.socket_inodes()
    found = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        path = pathlib.Path(f"/proc/{process.pid}/net/{table}")
        if path.exists():
            for line in path.read_text().splitlines()[1:]:
                if line.split()[9] in inodes:
                    found.append(f"{table} {line.split()[1]}")
    return found


def test_no_ports(rig):
    """A broker that trusts no interface, and clients of any broker, on Unix sockets alone."""
    config = rig.folder / "unix.conf"
    config.write_text("memory = { host = { size = \"64M\"; segment = \"16M\"; }; };\n")
    plain = rig.broker("--config", str(config), dev=False, tcp=False)
    trusting = rig.broker()
    for broker in (plain, trusting):
        clients = [
            rig.client("test-checker", broker.unix_url, broker.unix_url, "pair"),
            rig.client("test-waiter", broker.unix_url),
        ]
        clients[0].expect("ready")
        clients[1].expect("waiting")
        watched = clients if broker is trusting else [broker, *clients]
        for process in watched:
            found = inet_sockets(process)
            check(found == [], f"{process.name} has {found}")
        clients[0].signal(signal.SIGTERM)
        check(clients[0].wait() == 0, clients[0].log())
        clients[1].kill()
        broker.stop()
    print("no ports: passed", flush=True)


def test_peers(rig):
    """Who the broker says they are; and a socket of mode 0600 lets nobody else in."""
    broker = rig.broker(socket_query="?mode=0666", tcp=False)
    prefix = as_user(SUBSCRIBER).split()
    other = rig.client("test-waiter", broker.unix_url, prefix=prefix)
    other.expect("waiting")
    uids = {row["uid"] for row in broker.clients()}
    check(uids == {SUBSCRIBER}, f"clients of {SUBSCRIBER} are shown as {uids}")
    asker = rig.client("test-asker", broker.unix_url, prefix=prefix)
    asker.tell("clients")
    check(asker.wait() == 1, "another user may ask about clients")
    other.kill()
    until(1, lambda: broker.clients() == [], "the other user's sessions end")
    broker.stop()

    private = rig.broker(socket_query="?mode=0600", tcp=False)
    refused = rig.client("test-asker", private.unix_url, prefix=prefix)
    check(refused.wait() == 1 and "ermission" in refused.log(), refused.log())
    private.stop()
    print("users: passed", flush=True)


def test_names(rig):
    """Names belong to users: two have the same ones and do not meet; nobody has none."""
    broker = rig.broker(socket_query="?mode=0666", tcp=False)

    def ctl(user, *words, **options):
        return subprocess.run(
            [*as_user(user).split(), rig.program("broker-ctl"), "--url", broker.unix_url, *words],
            capture_output=True, timeout=30, check=False, text=True, **options)

    def take(user, *words):
        return ctl(user, "sub", "jobs", "--durable", "d", "--ack", "explicit", *words)

    def queues():
        return {row["user"]: row for row in broker.ask("queues")}

    def take_nothing(user, why):
        """Until the broker knows the name: on a busy machine a call may end before it is let in."""
        def is_known():
            check(take(user, "--timeout", "0.5").stdout == "", why)
            return str(user) in queues()
        until(30, is_known, f"{user} has a name")

    take_nothing(PUBLISHER, "nothing is there yet")
    for text in ("one", "two"):
        check(ctl(OTHER, "pub", "jobs", input=text).returncode == 0, "pub")
    # Another user has such a name of its own: it neither takes nor acknowledges what waits.
    take_nothing(OTHER, "another user takes an idle name")
    check(set(queues()) == {str(PUBLISHER), str(OTHER)}, f"{queues()}")
    check(queues()[str(PUBLISHER)]["waiting_bytes"] > 0, f"{queues()}")
    own = take(PUBLISHER, "--count", "2", "--timeout", "20")
    check(own.stdout.split() == ["one", "two"], f"its owner's backlog: {own}")
    # Nobody's names would be those of all whom the kernel does not know.
    for words in (("sub", "jobs", "--durable", "d"), ("sub", "jobs", "--group", "g"),
                  ("pub", "jobs", "--name", "n")):
        refused = ctl(SUBSCRIBER, *words, input="x")
        check(refused.returncode != 0 and "names belong to users" in refused.stderr, f"{refused}")
    # Operators remove anybody's: by name, and by user where several have it.
    root = [rig.program("broker-ctl"), "--url", broker.unix_url, "durable", "rm", "d", "--yes"]
    until(20, lambda: all(row["members"] == 0 for row in queues().values()), "no members")
    unclear = subprocess.run(root, capture_output=True, timeout=30, check=False, text=True)
    check(unclear.returncode != 0 and "several users" in unclear.stderr, f"{unclear}")
    check(subprocess.run([*root, str(OTHER)], timeout=30, check=False,
                         capture_output=True).returncode == 0, "rm NAME USER")
    check(set(queues()) == {str(PUBLISHER)}, f"{queues()}")
    check(ctl(OTHER, "durable", "rm", "d", "--yes").returncode != 0, "another user removes a name")
    check(subprocess.run(root, timeout=30, check=False, capture_output=True).returncode == 0, "rm")
    broker.stop()
    print("names: passed", flush=True)


def test_trust(rig):
    """A publisher can change what its own user's readers have, and nothing of another user's."""
    broker = rig.broker(socket_query="?mode=0666", tcp=False)
    changer = rig.client("test-changer", broker.unix_url, "t", prefix=as_user(PUBLISHER).split())
    changer.expect("ready")

    def changed(*users):
        """Which of these users' readers see what is written after they have the message."""
        readers = {user: rig.client("test-changer", broker.unix_url, "t", "read",
                                    prefix=as_user(user).split()) for user in users}
        for reader in readers.values():  # `subs` knows a reader before its topic does.
            reader.expect("subscribed")
        until(20, lambda: len(broker.ask("subs")) == len(users), "readers")
        changer.tell("send")
        changer.expect("sent")
        for reader in readers.values():
            reader.expect("holding")
        changer.tell("change")
        changer.expect("changed")
        for reader in readers.values():
            reader.tell("look")
        seen = {user for user, reader in readers.items() if reader.line() != "same"}
        check(all(reader.wait() == 0 for reader in readers.values()), "readers end")
        until(20, lambda: broker.ask("subs") == [], "no readers")
        return seen

    check(changed(PUBLISHER) == {PUBLISHER}, "a reader of its own user reads in place")
    for users in ((OTHER,), (PUBLISHER, OTHER), (0,), (SUBSCRIBER, OTHER)):
        check(changed(*users) == set(), f"{users}: changed after delivery")
    check(changed(PUBLISHER) == {PUBLISHER}, "... and does again when the others have gone")
    changer.end_input()
    check(changer.wait() == 0, changer.log())
    broker.stop()
    print("trust: passed", flush=True)


@pytest.fixture(autouse=True)
def needs_root(rig):
    if os.geteuid() != 0:
        pytest.skip("not root")
    for program in ("setpriv", "unshare"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    if not works(as_user(SUBSCRIBER), f"test -x {rig.program('broker-ctl')}"):
        pytest.skip(f"other users cannot get at {rig.build}")


def test_two_users(rig):
    demo(rig, "two users", as_user(PUBLISHER), as_user(SUBSCRIBER))


def test_pid_namespaces(rig):
    pid = "unshare --pid --fork --kill-child --mount-proc"
    demo(rig, "a PID namespace", f"{pid} {as_user(PUBLISHER)}", f"{pid} {as_user(SUBSCRIBER)}")


def test_a_small_shm(rig):
    small = rig.folder / "small-shm"
    small.write_text(
        "#!/bin/sh\n"
        "set -e\n"
        "mount -t tmpfs -o size=64m,mode=1777 tmpfs /dev/shm\n"
        'exec "$@"\n'
    )
    small.chmod(0o755)
    shm = f"unshare --mount {small}"
    demo(rig, "64 MiB of /dev/shm", f"{shm} {as_user(PUBLISHER)}", f"{shm} {as_user(SUBSCRIBER)}")
