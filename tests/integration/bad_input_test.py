# SPDX-License-Identifier: Apache-2.0
"""What clients get wrong, and what they run into: a clear sentence each, and the broker goes on.

    bad_input_test.py

Sizes, topics, URLs and links that cannot be; tokens; named limits; memory that is exhausted.
Arguments and files of brokerd are brokerd_cli_test.sh's, those of broker-ctl ctl_test.sh's.
"""
import os
import signal
import subprocess
import time

from harness import check, until

USAGE, DATA, NO_BROKER, TIMEOUT, FORBIDDEN = 64, 65, 69, 75, 77


class Ctl:
    """broker-ctl on one URL."""

    def __init__(self, rig, url, env=None):
        self.rig, self.url, self.env = rig, url, env or {}

    def run(self, *arguments, data=b"", seconds=30):
        done = subprocess.run(
            [self.rig.program("broker-ctl"), "--url", self.url, *map(str, arguments)],
            input=data,
            capture_output=True,
            timeout=seconds,
            check=False,
            env={**os.environ, **self.env},
        )
        return done.returncode, done.stderr.decode(errors="replace")

    def works(self, topic="fine"):
        status, text = self.run("pub", topic, "--count", 1, "--size", 10, "--timeout", 10)
        check(status == 0, f"a good message afterwards: {status} {text}")

    def fails(self, status, words, *arguments, **options):
        """Ends with that status, and says all the words."""
        got, text = self.run(*arguments, **options)
        what = f"broker-ctl {arguments} on {self.url}"[:300]
        check(got == status, f"{what}: {got}, not {status}: {text}")
        for word in words:
            check(word in text, f"{what}: nothing of '{word}' in: {text}")
        check("\n" not in text.strip("\n"), f"{what}: more than a sentence: {text}")


def test_sizes(rig):
    broker = rig.broker("-o", "memory.host.size=64M", "-o", "server.max_message=1M")
    for link in ("ring", "stream", "ucx"):
        ctl = Ctl(rig, broker.url(link), {"AMB_TRUSTED": "lo"})
        ctl.fails(DATA, ["1048577", "1048576"], "pub", "t", "--count", 1, "--size", 1048577)
        ctl.fails(DATA, ["1048576"], "pub", "t", "--count", 1, "--size", "1G")
        status, text = ctl.run("pub", "t", "--count", 3, "--size", 1048576)
        check(status == 0, f"{link}: the largest message: {status} {text}")
        status, text = ctl.run("pub", "t", "--count", 3, "--size", 0)
        check(status == 0, f"{link}: an empty message: {status} {text}")
    broker.stop()


def test_topics(rig):
    broker = rig.broker()
    ctl = Ctl(rig, broker.unix_url)
    bad = ["", ".", "a..b", ".a", "a.", "a b", "a\tb", "x" * 256, "\udcff\udcfe"]
    for topic in [*bad, "a.*", ">", "a.>"]:
        ctl.fails(DATA, ["opic"], "pub", topic, "--count", 1)
    ctl.fails(FORBIDDEN, ["opic"], "pub", "$SYS.a", "--count", 1)
    for pattern in [*bad, "a.>.b", "a.b*", "*a", ">.a", "a>"]:
        ctl.fails(DATA, [], "sub", pattern, "--count", 1, "--timeout", 5)
    ctl.works("x" * 255)
    ctl.works("größe.日本")
    broker.stop()


def test_places(rig):
    """Nobody there, or somebody else."""
    plain = rig.folder / "plain.file"
    plain.write_text("not a socket")
    nowhere = [
        f"unix://{rig.folder}/none.sock",
        f"unix://{plain}",
        f"unix://{rig.folder}",
        "tcp://127.0.0.1:1",
    ]
    for url in nowhere:
        Ctl(rig, url).fails(NO_BROKER, [url.split("?")[0]], "status", "--timeout", 5)
    wrong = ["tcp://127.0.0.1:0x", "tcp://127.0.0.1:70000", "tcp://", "unix://", "http://a:1"]
    for url in [*wrong, f"unix://{plain}?link=warp", f"unix://{plain}?speed=1", "unix://" + "a" * 200]:
        Ctl(rig, url).fails(USAGE, [], "status", "--timeout", 5)


def test_links(rig):
    broker = rig.broker()
    ctl = Ctl(rig, f"{broker.tcp_url}?link=ucx", {"AMB_TRUSTED": ""})
    ctl.fails(FORBIDDEN, ["AMB_TRUSTED"], "pub", "t", "--count", 1)
    ctl = Ctl(rig, f"{broker.tcp_url}?link=ucx", {"AMB_TRUSTED": "no-such-interface"})
    ctl.fails(USAGE, ["no-such-interface"], "pub", "t", "--count", 1)
    got, text = Ctl(rig, f"{broker.tcp_url}?link=ring").run("pub", "t", "--count", 1)
    check(got != 0 and "ring" in text, f"a ring over TCP: {got} {text}")
    broker.stop()

    config = rig.folder / "plain.conf"
    config.write_text('memory = { host = { size = "64M"; segment = "16M"; }; };\n')
    plain = rig.broker("--config", str(config), dev=False)
    ctl = Ctl(rig, f"{plain.tcp_url}?link=ucx", {"AMB_TRUSTED": "lo"})
    got, text = ctl.run("pub", "t", "--count", 1)
    check(got != 0 and "transports.trusted" in text, f"ucx without trust: {got} {text}")
    Ctl(rig, plain.tcp_url, {"AMB_TRUSTED": "lo"}).works()
    plain.stop()


def test_tokens(rig):
    secret = rig.folder / "token"
    wrong = rig.folder / "wrong"
    for path, text in ((secret, "correct horse\n"), (wrong, "battery staple\n")):
        path.write_text(text)
        path.chmod(0o600)
    broker = rig.broker("-o", f"auth.token_file={secret}")
    url = f"{broker.tcp_url}?link=stream"
    for ctl in (
        Ctl(rig, url),
        Ctl(rig, url, {"AMB_CREDENTIALS": str(wrong)}),
    ):
        got, text = ctl.run("pub", "t", "--count", 1)
        check(got == FORBIDDEN, f"a wrong token: {got} {text}")
        check("horse" not in text and "staple" not in text, f"it tells the token: {text}")
    got, text = Ctl(rig, url, {"AMB_CREDENTIALS": str(rig.folder / "none")}).run("status")
    check(got != 0 and "none" in text, f"no token file: {got} {text}")
    Ctl(rig, url, {"AMB_CREDENTIALS": str(secret)}).works()
    Ctl(rig, broker.unix_url).works()
    broker.stop()


def test_limits(rig):
    broker = rig.broker(
        *("-o", "limits.max_topics=3", "-o", "limits.max_subscriptions=2"),
        *("-o", "server.max_connections=5"),
    )
    ctl = Ctl(rig, broker.unix_url)
    for i in range(4):
        ctl.works(f"idle.{i}")  # Those that nobody uses give way to others.
    users = [
        rig.client(
            "broker-ctl",
            *("--url", broker.unix_url, "pub", f"topic.{i}", "--count", 1, "--hold"),
        )
        for i in range(3)
    ]

    def in_use():  # The idle ones have a message each, too.
        return sum(t.get("messages", 0) for t in broker.ask("topics") if t["topic"].startswith("topic."))

    until(10, lambda: in_use() == 3, "three topics in use")
    got, text = ctl.run("pub", "topic.more", "--count", 1)
    check(got != 0 and "3" in text, f"one topic too many: {got} {text}")
    until(5, lambda: len(broker.clients()) == 3, "only those that hold a topic are connected")
    ctl.works("topic.0")
    for user in users:
        user.kill()
    until(5, lambda: len(broker.clients()) == 0, "their connections return")
    holders = [rig.client("test-holder", broker.unix_url, f"topic.{i}", 0) for i in range(2)]
    for holder in holders:
        holder.expect("holding")
    got, text = ctl.run("sub", "topic.2", "--count", 1, "--timeout", 5)
    check(got != 0 and "2" in text, f"one subscription too many: {got} {text}")
    until(5, lambda: len(broker.clients()) == 2, "only those that hold one are connected")
    more = [rig.client("test-asker", broker.unix_url) for _ in range(2)]  # and ours
    for asker in more:
        asker.tell("status")
        asker.line()
    got, text = ctl.run("status")
    check(got != 0 and "5" in text, f"one connection too many: {got} {text}")
    for process in more:
        process.kill()
    holders[0].kill()
    until(2, lambda: len(broker.clients()) == 1, "the connections return")
    rig.client("test-holder", broker.unix_url, "topic.2", 0).expect("holding")
    broker.stop()


def test_memory(rig):
    """Nobody takes what is published, until all memory is used: who publishes waits or is told, and
    goes on when there is memory again."""
    broker = rig.broker(
        *("-o", "memory.host.size=16M", "-o", "memory.host.segment=4M"),
        *("-o", "server.max_message=4M", "-o", "limits.peer_timeout=1h"),
    )
    ctl = Ctl(rig, broker.unix_url)
    sleepers = [
        rig.client(
            "broker-ctl",
            *("--url", broker.unix_url, "sub", f"full.{i}", "--count", 10000, "--sha256"),
            *("--slow", "block", "--slow-block", 600),
        )
        for i in range(3)
    ]
    until(10, lambda: len(broker.ask("subs")) == 3, "subscribers")
    for sleeper in sleepers:
        sleeper.signal(signal.SIGSTOP)
    publishers = [
        rig.client(
            "broker-ctl",
            *("--url", broker.unix_url, "--timeout", 100, "pub", f"full.{i}"),
            *("--count", 40, "--size", size),
        )
        for i, size in enumerate(("1M", "900k", "2M"))
    ]
    time.sleep(1)
    # Each new publisher gets its first message in, until there is no memory; then it waits, and
    # says so when its time is over.
    got, more = 0, 0
    while got == 0 and more < 10:
        got, text = ctl.run("pub", "full.0", "--count", 1, "--size", "3M", "--timeout", 1)
        more += got == 0
    check(got == TIMEOUT and text.strip() != "", f"publishing into the full: {got} {text}")
    broker.check_alive()
    used = broker.ask("status")["memory_bytes"]
    check(used <= 16 << 20, f"{used} bytes of memory used of 16 MiB")
    ctl.works("small")

    for sleeper in sleepers:
        sleeper.signal(signal.SIGCONT)
    for publisher in publishers:
        status = publisher.wait(30)
        check(status == 0, f"{publisher.name}: {status} {publisher.log()}")
    until(5, lambda: broker.used_bytes() == 0, f"memory returns: {broker.ask('memory')}")
    for row in broker.ask("subs"):
        check(row["lost"] == 0, f"a blocking subscriber has lost messages: {row}")
    for i in range(3):
        # More than fits: its publisher waits for a subscriber that is slower.
        status, text = ctl.run("pub", f"full.{i}", "--count", 20, "--size", "1M")
        check(status == 0, f"publishing afterwards: {status} {text}")
    for sleeper in sleepers:
        check(sleeper.is_running(), f"{sleeper.name}: {sleeper.log()}")
    broker.stop()


