# SPDX-License-Identifier: Apache-2.0
"""Messages of 64 bytes at full speed: what does one cost beside the copying?

    steady_state_test.py [--window SECONDS] [--links ring,stream,tls]

Counts allocations, locks taken and system calls of broker, publisher and subscriber over a window
(2 s) in the middle of the stream, by tests/support/programs/count_preload.c. Nobody may allocate per
message. Over TLS libssl does so a few times for each record: that has a bound of its own. Over the ring
nobody may make more than one system call in a hundred messages; over TCP batches are smaller where a slow
machine lets few messages gather, and the bound is wider.
"""
import struct
import time

import pytest

from harness import check

SIZE = 64
WARM = 1
NAMES = ("allocations", "frees", "locks", "syscalls", "yields", "of OpenSSL")
# Heartbeats, timers and whatever else comes by the second and not by the message.
PER_SECOND = 100
MESSAGES_PER_CALL = {"ring": 100, "stream": 5, "tls": 5, "ucx": 5}
# An optimised build fills its batches; on a quiet machine it makes one call in about 100 messages.
OPTIMISED = {"stream": 50, "tls": 50}
# A record has at most 16 KiB, and each call to the socket may end with a short one. libssl 3.0 allocates
# once for the head of one that it reads, and three times for that of one that it makes (WPACKET).
OPENSSL_A_RECORD = 4
RECORD = 16 << 10


def read_counts(folder, process):
    data = (folder / str(process.pid)).read_bytes()
    return struct.unpack(f"={len(NAMES)}Q", data)


def messages_in(broker):
    return broker.ask("status")["messages_in"]


def measure(rig, broker, folder, env, link, seconds):
    topic = f"steady.{link}"
    sub = rig.client("test-flood", broker.url(link), topic, "sub", SIZE, env=env)
    sub.expect("ready")
    pub = rig.client("test-flood", broker.url(link), topic, "pub", SIZE, env=env)
    pub.expect("ready")
    time.sleep(WARM)
    everybody = {"broker": broker, "publisher": pub, "subscriber": sub}
    count = messages_in(broker)
    start = {name: read_counts(folder, process) for name, process in everybody.items()}
    time.sleep(seconds)
    end = {name: read_counts(folder, process) for name, process in everybody.items()}
    count = messages_in(broker) - count
    broker.check_alive()
    pub.kill()
    sub.kill()
    print(f"{link}: {count / seconds / 1e6:.2f} M messages/s; per 1000 messages:")
    print(f"    {'':10}" + "".join(f"{name:>13}" for name in NAMES))
    result = {}
    for name in everybody:
        result[name] = dict(zip(NAMES, (b - a for a, b in zip(start[name], end[name]))))
        row = "".join(f"{value * 1000 / count:13.3f}" for value in result[name].values())
        print(f"    {name:10}{row}", flush=True)
    return count, result


def messages_per_call(build, link):
    cache = (build / "CMakeCache.txt").read_text()
    is_optimised = "CMAKE_BUILD_TYPE:STRING=Rel" in cache
    return OPTIMISED.get(link, MESSAGES_PER_CALL[link]) if is_optimised else MESSAGES_PER_CALL[link]


def check_result(build, link, count, result, seconds):
    """A yield is no work for a message: whoever spins yields while there is nothing to do."""
    for name, counted in result.items():
        rest = PER_SECOND * seconds
        allocations = counted["allocations"] - counted["of OpenSSL"]
        # Pools grow when more is under way than ever before, and are used again from then on. That
        # is often so where many processes want the cores; one for each batch would be twice this.
        allowed = count / 2000 + rest
        check(allocations <= allowed, f"{link}: the {name} allocates {allocations} times")
        calls = counted["syscalls"] - counted["yields"]
        records = 2 * count * SIZE / RECORD + calls
        check(counted["of OpenSSL"] <= OPENSSL_A_RECORD * records + rest,
              f"{link}: libssl allocates {counted['of OpenSSL']} times for the {name}")
        allowed = count / messages_per_call(build, link) + rest
        check(calls <= allowed, f"{link}: the {name} makes {calls} calls for {count} messages")


def test_nobody_does_more_than_is_due(rig, options, request):
    shim = rig.build / "tests" / "test-count.so"
    if not shim.exists():
        pytest.skip(f"no {shim}")
    seconds = float(options.get("window", 2))
    folder = rig.folder / "counts"
    folder.mkdir()
    env = {"LD_PRELOAD": str(shim), "AMB_COUNT_DIR": str(folder)}
    broker = rig.broker("-o", "server.workers=1", env=env)
    # Others by --links: what they need depends on how large their batches get.
    for link in (request.config.getoption("links") or "ring").split(","):
        count, result = measure(rig, broker, folder, env, link, seconds)
        check_result(rig.build, link, count, result, seconds)
    broker.stop()
