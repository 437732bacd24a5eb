# SPDX-License-Identifier: Apache-2.0
"""The package's types: mypy --strict finds nothing, the stub of the extension is what the extension has, and
programs of users are judged rightly."""
import os
import subprocess
import sys

import pytest

pytest.importorskip("mypy")
RIGHT = """
import ambroker
with ambroker.Broker(memory={"host": {"size": "64M"}}) as broker, ambroker.connect(broker.url, name="x") as conn:
    sub = conn.subscribe("a.>", start="last", credit_msgs="4K")
    conn.publish("a.b", b"x", props={"lens": "wide"}, ttl=1.5)
    msg = sub.next(timeout=1)
    topic: str = msg.topic
    many: list[ambroker.Message] = sub.next_many(10, 0)
    raw: bytes = msg.read(0, 1)
    count: int = msg.read(into=bytearray(1))
    own: bytearray = conn.subscribe("b", into={"host": lambda size, msg: bytearray(size)}).next()
    for msg in sub:
        memoryview(msg)
    conn.publish_object("c", {"x": 1})
    kept: ambroker.Message = conn.subscribe("c", trust_pickle=True).next().detach()
    print(kept.object())
    with conn.dial("echo") as channel:
        channel.send(b"x", timeout=1)
        size: int = channel.recv_into(bytearray(1))
    for channel in conn.listen("echo"):
        channel.send_object([1])

async def main(url: str) -> None:
    async with ambroker.aio.connect(url, name="y") as conn:
        sub = await conn.subscribe("a.>", start="last")
        pub = await conn.publisher("a.b", confirm="accepted")
        await pub.send(b"x", ttl=1.5)
        async with pub.lease((480, 640), "f4") as array:
            array[:] = 7
        msg: ambroker.Message = await sub.next(1)
        raw: bytes = await conn.read(msg, 0, 1)
        count: int = await conn.read(msg, into=bytearray(1))
        async for msg in sub:
            msg.ack()
        channel = await conn.dial("echo", 1)
        answer: ambroker.Message = await channel.recv(1)
        async for channel in await conn.listen("echo"):
            await channel.send(answer)
"""
WRONG = {
    "conn.publish('a', 'text')": "arg-type",
    "conn.publish('a', b'', tll=1)": "call-arg",
    "conn.subscribe('a', start='lst')": "call-overload",
    "conn.subscribe('a').next().toppic": "attr-defined",
    "conn.request('a', b'').read(into=1)": "call-overload",
    "ambroker.nothing": "attr-defined",
    "ambroker.aio.connect(nmae='x')": "call-arg",
}


def run(arguments, package, folder):
    """What mypy or stubtest says, run beside the package."""
    paths = [str(package), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, check=False, timeout=200,
        cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MYPYPATH": str(package),
                         "MYPY_CACHE_DIR": str(folder / "cache")})
    return done.returncode, done.stdout + done.stderr


def test_the_package_is_strict(package, tmp_path):
    assert run(["mypy", "--strict", "--python-version", "3.11", package / "ambroker"], package, tmp_path)[0] == 0


def test_the_stub_is_what_the_extension_has(package, tmp_path):
    allowed = tmp_path / "allowed"  # Before Python 3.12 a buffer has no method.
    allowed.write_text(r"ambroker\._amb\.(Bytes|Lease|Message)\.__buffer__")
    code, said = run(["mypy.stubtest", "--allowlist", allowed, "--ignore-unused-allowlist", "ambroker._amb"],
                     package, tmp_path)
    assert code == 0, said


def test_programs_are_judged(package, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(RIGHT, encoding="utf-8")
    code, said = run(["mypy", "--strict", program], package, tmp_path)
    assert code == 0, said
    lines = ["import ambroker", "conn = ambroker.connect()", *WRONG]
    program.write_text("\n".join(lines), encoding="utf-8")
    _, said = run(["mypy", "--strict", program], package, tmp_path)
    for number, error in enumerate(WRONG.values(), 3):
        assert any(line.startswith(f"program.py:{number}: error") and f"[{error}]" in line
                   for line in said.splitlines()), said


def test_all_names_of_the_extension_are_exported(ambroker):
    errors = {name for name, value in vars(ambroker._amb).items()
              if isinstance(value, type) and issubclass(value, Exception)}
    assert errors <= set(ambroker.__all__) and len(errors) > 30
    assert all(hasattr(ambroker, name) for name in ambroker.__all__)
