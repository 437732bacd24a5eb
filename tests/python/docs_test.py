# SPDX-License-Identifier: Apache-2.0
"""The snippets of the pages on Python, those of a page one after the other in one program, and the
programs of docs/examples/python."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = DOCS / "examples" / "python"
LINES_MAX = 25
WAIT = 60
BROKER = "import ambroker\nbroker = ambroker.Broker(memory={'host': {'size': '256M'}})\n"
PAIR = ("publish", "subscribe")
PRINTED = {
    "admin": "True ['asker']",
    "arrays": "(3, 4) float32 66.0 {'lens': b'wide'}",
    "cas": "b'bob: 17'",
    "confirm": "not yet\ndone with",
    "echo": "b'hello'",
    "events": "subscribers: 1",
    "filter": "b'150'",
    "history": "{'start': 'first'} b'0'\n{'start': 'last'} b'4'\n"
               "{'start': 'last_n', 'start_at': 2} b'3'\n{'start': 'seq', 'start_at': 4} b'3'",
    "into": "[b'landed']",
    "latest": "100 frames, the last one 99",
    "lazy": "1000000 b'\\x01\\x01\\x01\\x01'",
    "lease": "7.0",
    "loop": "10",
    "million": "in order",
    "objects": "0.5 10000.0",
    "position": "b'10'\nb'11' b'12'",
    "request": "b'HELLO'\nnobody answers there",
    "resume": "[b'1', b'2', b'3', b'4']",
    "ttl": "b'later'",
    "worker": "given up after 2: b'bad'",
}


@pytest.fixture
def environment(build, package):
    """Of a program: the package, and the broker of the build."""
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "AMBROKER_BIN": str(build / "broker")}


def run(program, environment):
    done = subprocess.run([sys.executable, "-X", "dev", program], capture_output=True, text=True,
                          timeout=WAIT, check=False, env=environment)
    # On a busy machine the broker may wait for the program, which is logged, and turns of a loop are slow,
    # which asyncio says in this mode.
    said = [line for line in done.stderr.splitlines() if not line.startswith(("slow: ", "Executing <"))]
    assert (done.returncode, said) == (0, [])
    return done.stdout.strip()


@pytest.mark.parametrize("page, count", [("python", 8), ("ucx-py", 2)])
def test_docs_snippets_run(environment, tmp_path, page, count):
    pytest.importorskip("numpy")
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(snippets) == count
    if "ambroker.Broker(" not in snippets[0]:
        snippets.insert(0, BROKER)
        snippets.append("broker.close()")
    program = tmp_path / "snippets.py"
    program.write_text("\n".join(snippets), encoding="utf-8")
    assert run(program, environment) == ""


def test_docs_echo_is_short():
    """The server and client of docs/ucx-py.md, as ported from a point-to-point library."""
    text = (DOCS / "ucx-py.md").read_text(encoding="utf-8")
    echo = re.search(r"^```python\n(.*?)^```", text, re.M | re.S)[1]
    assert "listen" in echo and "dial" in echo
    assert len([line for line in echo.splitlines() if line.strip()]) <= 20


def test_docs_examples_are_all_here():
    programs = sorted(EXAMPLES.glob("*.py"))
    assert {path.stem for path in programs} == set(PRINTED) | set(PAIR)
    for path in programs:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES_MAX, path


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_docs_examples_run(environment, rig, tmp_path, name):
    pytest.importorskip("numpy")
    config = tmp_path / "broker.conf"
    config.write_text('topics = ( { match = ">"; retain = { messages = 100; }; } );\n')
    broker = rig.broker("--config", config)
    assert run(EXAMPLES / f"{name}.py", {**environment, "AMB_URL": broker.url()}) == PRINTED[name]


def test_docs_examples_publish_and_subscribe(environment, broker):
    environment["AMB_URL"] = broker.url()
    reader = subprocess.Popen([sys.executable, EXAMPLES / "subscribe.py"], stdout=subprocess.PIPE,
                              text=True, env=environment)
    os.set_blocking(reader.stdout.fileno(), False)
    end, said = time.monotonic() + WAIT, ""
    while not said:  # It does not say when it has subscribed.
        assert time.monotonic() < end and reader.poll() is None
        run(EXAMPLES / "publish.py", environment)
        said = reader.stdout.readline()
    assert said.startswith("greetings ") and said.endswith("b'hello'\n")
    reader.send_signal(signal.SIGINT)
    assert reader.wait(WAIT) == 0
    reader.stdout.close()
