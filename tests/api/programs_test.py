# SPDX-License-Identifier: Apache-2.0
"""The programs of users in tests/api/programs, unchanged: each against a broker, with what it needs
around it, and judged by what it prints and does.

    programs_test.py [-k NAME]
"""
import hashlib
import json
import pathlib
import signal
import socket
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent

import pytest

from harness import Failure, check, until


def rows_of(done, what):
    """Of what `broker-ctl -o json` says."""
    got = json.loads(done.stdout)
    return got.get(what, got) if isinstance(got, dict) else got


class Stage:
    """A broker, and programs that find it by $AMB_URL."""

    def __init__(self, rig, *arguments, env=None):
        self.rig = rig
        self.env = env or {}
        self.broker = rig.broker(*arguments, env=self.env)

    def program(self, name, *words, env=None):
        path = self.rig.build / "tests" / "api" / f"api-{name}"
        return self.rig.start([str(path), *words], terminal=True,
                              env={"AMB_URL": self.broker.unix_url, **self.env, **(env or {})})

    def ctl(self, *words, data=b"", seconds=60):
        return subprocess.run(
            [self.rig.program("broker-ctl"), "--url", self.broker.unix_url, *words], input=data,
            capture_output=True, timeout=seconds, check=False)

    def publish(self, topic, data, *words):
        """To somebody: waits for a subscription."""
        done = self.ctl("pub", topic, "--wait-subscribers", "1", "--timeout", "30", *words, data=data)
        check(done.returncode == 0, f"pub {topic}: {done}")

    def wait_for(self, pattern, count=1):
        """Until so many subscriptions to it are there."""
        def are_there():
            rows = rows_of(self.ctl("-o", "json", "subs"), "subs")
            return sum(row["pattern"] == pattern for row in rows) >= count
        until(30, are_there, f"{count} subscriptions to {pattern}")


def ended(program, status=0, seconds=60):
    """What it printed; it has ended so."""
    lines = program.all_lines(seconds)
    got = program.wait()
    check(got == status, f"{program.name} ended with {got}: {lines}\n{program.log()}")
    return lines


def expect(program, wanted, seconds=30):
    got = program.line(seconds)
    check(got == wanted, f"{program.name}: '{got}' instead of '{wanted}'\n{program.log()}")


def hello(stage):
    """01 publishes what 02 prints."""
    reader = stage.program("02_subscribe")
    stage.wait_for("greetings")
    check(ended(stage.program("01_publish")) == [], "01 prints something")
    expect(reader, "greetings: hello")
    check(reader.is_running(), "02 has ended")
    reader.kill()


def epoll(stage):
    """03 in a loop of its own: messages, and a request, which its callback answers."""
    loop = stage.program("03_epoll")
    stage.publish("sensor.a", b"12345")
    expect(loop, "1 sensor.a 5 bytes")
    asked = stage.ctl("request", "sensor.b", "--text", "x", "--timeout", "30")
    check(asked.returncode == 0 and asked.stdout == b"seen", f"03 does not answer: {asked}")
    expect(loop, "2 sensor.b 1 bytes")
    loop.kill()


def million(stage):
    """04: a million messages, each settled once."""
    lines = ended(stage.program("04_million"), seconds=200)
    check(len(lines) == 1 and lines[0].startswith("1000000 accepted, ") and lines[0].endswith(" ok"),
          f"04: {lines}")


# Memory for one message of 64 MiB instead of four: a quarter of what is to be made in their second.
FEW_SLOTS = ("-o", "limits.max_leased_per_session=100M")


def in_time(limit, play):
    """play() gives a program and what else is to be ended: what the program printed. Some have a time
    limit built in that is short for so much new memory on a busy machine: one that fails after so long
    is tried again, one that fails sooner fails."""
    for _ in range(10):
        begin = time.monotonic()
        program, others = play()
        lines = program.all_lines(60)
        if program.wait() == 0:
            return lines, others
        check(time.monotonic() - begin >= limit, f"{program.name} fails: {lines}\n{program.log()}")
        for other in others:
            other.kill()
    raise Failure("ten times not in time")


def image(stage):
    """05a writes 64 MiB in place, a thread of 05b reads them in place, after its amb_close."""
    stage = Stage(stage.rig, *FEW_SLOTS)

    def play():
        until(30, lambda: not stage.broker.clients(), "the last ones have gone")
        reader = stage.program("05b_map")
        stage.wait_for("camera.*")
        return stage.program("05a_lease"), [reader]
    lines, (reader,) = in_time(1, play)
    check(lines == [], f"05a: {lines}")
    lines = ended(reader)
    check(lines == ["camera.front: first byte 5a, came by mapped"], f"05b: {lines}")
    stage.broker.stop()


def cuda(stage):
    """06 publishes an array from GPU memory and gets it into GPU memory; 07 reads it on the host."""
    if not (stage.rig.build / "tests" / "api" / "api-06_cuda").exists():
        print("06: left out, built without CUDA")
        return
    gpu = {"AMB_CUDA_LIBRARY": str(stage.rig.build / "tests" / "fakecuda" / "libfakecuda.so"),
           "FAKECUDA_MEMORY": "1G"}
    for arguments in ([], ["-o", "memory.cuda.size=256M", "-o", "memory.cuda.devices=0"]):
        own = Stage(stage.rig, *arguments, *FEW_SLOTS, env=gpu)

        def play(own=own):
            host = own.program("07_mixed")
            own.wait_for("weights")
            return own.program("06_cuda"), [host]
        lines, (host,) = in_time(1, play)
        check(lines == ["rank 2 on device 0"], f"06: {lines}")
        line = host.line(30)
        check(line.startswith("1, rank 2, by "), f"07: {line}")
        host.kill()
        own.broker.stop()


def worker(stage):
    """08: done, given back, given up; SIGTERM ends it with nothing left behind."""
    dead = stage.rig.start([stage.rig.program("broker-ctl"), "--url", stage.broker.unix_url, "sub",
                            "$DLQ.>", "--count", "1", "--out-dir", str(stage.rig.folder / "dead"),
                            "--timeout", "60"])
    stage.wait_for("$DLQ.>")
    job = stage.program("08_worker")
    for data in (b"a picture", b"busy", b""):
        stage.publish("jobs.resize", data)
    check(dead.wait(60) == 0, f"no dead letter: {dead.log()}")

    def answered():
        rows = rows_of(stage.ctl("-o", "json", "queues"), "queues")
        row = next(row for row in rows if row["durable"] == "resize")
        return (row["delivered"], row["pending"], row["to_redeliver"], row["dead"]) == (3, 0, 1, 1)
    until(30, answered, "one is done, one comes again, one is dead")
    job.signal(signal.SIGTERM)
    check(ended(job) == [] and job.log().startswith("stopped"), f"08: {job.log()}")
    check("drain" not in job.log(), f"08 does not drain: {job.log()}")


def request(stage):
    """09: nobody answers, and says so; then another 09 does. Each time both ways, one amb_poll."""
    for _ in range(5):
        check(ended(stage.program("09_request")) ==
              ["nobody answers on math.add", "async: nobody is there to respond 0 bytes"],
              "09 without a service")
    service = stage.program("09_request", "serve")
    stage.wait_for("math.add")
    for _ in range(20):
        check(ended(stage.program("09_request")) == ["42", "async: ok 2 bytes"], "09 with a service")
    service.kill()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def reconnect(stage):
    """10 begins without a position, before there is a broker, and outlives one."""
    rig = stage.rig
    first = rig.broker()
    port = first.tcp_url.rsplit(":", 1)[1]
    first.stop()
    reader = rig.start([str(rig.build / "tests" / "api" / "api-10_reconnect")], terminal=True,
                       env={"NODE1_PORT": str(free_port()), "NODE2_PORT": port})
    own = Stage.__new__(Stage)
    own.rig, own.env, own.broker = rig, {}, rig.broker(at=first)
    own.wait_for("prices.>")
    own.publish("prices.a", b"1")
    own.broker.kill()
    until(30, lambda: "lost: " in reader.log(), "10 does not notice the loss")
    own.broker = rig.broker(at=first)
    until(30, lambda: "restored at " in reader.log(), "10 is not back")
    own.wait_for("prices.>")
    own.publish("prices.a", b"2")
    # Another broker: nobody knows how many were missed, and why says so.
    expect(reader, f"gap of {2**64 - 1} (5)")
    check(reader.is_running(), f"10 has ended: {reader.log()}")
    reader.kill()
    own.broker.stop()


def lazy(stage):
    """11: of one layer, a row; of the others nothing."""
    reader = stage.program("11_lazy")
    row = 4096 * 4
    stage.publish("weights.a", b"\0" * 20 * row, "--prop", "layer=embed")
    stage.publish("weights.b", b"\0\0\xc0\x3f" * (20 * row // 4), "--prop", "layer=lm_head")
    expect(reader, "row 7: ok 1.5")
    reader.kill()


def allocator(stage):
    """12 receives into its own slots, and ends when nothing has come for a second."""
    program = stage.program("12_allocator")
    until(30, lambda: stage.ctl("pub", "frames", "--wait-subscribers", "1", "--timeout", "1",
                                data=b"f" * 5000).returncode == 0 or not program.is_running(),
          "no subscription to frames")
    expect(program, "slot 0")
    lines = ended(program)
    check(all(line.startswith("slot ") and 0 <= int(line[5:]) < 64 for line in lines), f"12: {lines}")


def admin(stage):
    """14: what the broker says of itself; without one 69."""
    lines = ended(stage.program("14_admin", stage.broker.unix_url))
    check("version" in json.loads("\n".join(lines)), f"14: {lines}")
    ended(stage.program("14_admin", f"unix://{stage.rig.folder}/nobody"), status=69)


PARTS = [hello, epoll, million, image, cuda, worker, request, reconnect, lazy, allocator, admin]


def test_they_are_unchanged():
    """They are as they were written."""
    folder = HERE / "programs"
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        wanted, name = line.split()
        got = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        check(got == wanted, f"{name} is not the program that was written")


@pytest.mark.parametrize("part", PARTS)
def test_program(rig, part):
    stage = Stage(rig)
    part(stage)
    stage.broker.stop()
