# SPDX-License-Identifier: Apache-2.0
"""The snippets of the pages on Python, those of a page one after the other in one program, and the
programs of docs/examples/python."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = DOCS / "examples" / "python"
LINES_MAX = 25
WAIT = 60
BROKER = "import ambroker\nbroker = ambroker.Broker(memory={'host': {'size': '256M'}})\n"
ALONE = ("address", "cuda", "lameduck", "publish", "reconnect", "subscribe")  # whose tests are further down
PRINTED = {
    "admin": "True ['asker']",
    "arrays": "(3, 4) float32 66.0 {'lens': b'wide'}",
    "cas": "b'bob: 17'",
    "confirm": "not yet\ndone with",
    "deadletters": "orders 1: nonsense: it is no order, after 1",
    "echo": "b'hello'",
    "epoll": "lengths [0, 1, 2]",
    "events": "subscribers: 1",
    "filter": "b'150'",
    "hello": "greetings: hello, from Python; settled 1 of 1",
    "history": "{'start': 'first'} b'0'\n{'start': 'last'} b'4'\n"
               "{'start': 'last_n', 'start_at': 2} b'3'\n{'start': 'seq', 'start_at': 4} b'3'",
    "into": "[b'landed']",
    "keep": "b'abcde'",
    "keyed": "16 orders, 4 customers with one member each",
    "lastvalues": "rome 12\nparis 10\noslo 3\nnow oslo 4",
    "latest": "100 frames, the last one 99",
    "lazy": "1000000 b'\\x01\\x01\\x01\\x01'",
    "lease": "7.0",
    "loop": "10",
    "map": "camera.front: 67108864 bytes of image/raw, 67108864 of them 5a, by mapped",
    "million": "in order",
    "mixed": "1.5, rank 2, in host memory",
    "named": "readings 1 to 3\nthere is one of that name\nreadings 4 to 6\nthere is one of that name",
    "objects": "0.5 10000.0",
    "position": "b'10'\nb'11' b'12'",
    "priority": "low: report\nhigh: stop!\nlow: report\nlow: report",
    "request": "b'HELLO'\nnobody answers there",
    "resume": "[b'1', b'2', b'3', b'4']",
    "room": "20000 of each of 3",
    "ttl": "b'later'",
    "worker": "given up after 2: b'bad'",
}


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


def test_docs_notebook_is_its_script_and_runs(environment, tmp_path):
    pytest.importorskip("numpy")
    script, maker = DOCS / "tour.py", DOCS.parent / "tools" / "dev" / "notebook.py"
    assert subprocess.run([sys.executable, maker, "--check", script], check=False).returncode == 0
    cells = json.loads((DOCS / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 8 and sum("assert" in one for one in code) >= 5
    program = tmp_path / "notebook.py"
    program.write_text("\n".join(code), encoding="utf-8")
    assert "the sum is 10.0" in run(program, environment)
    other = tmp_path / "tour.py"
    other.write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    assert subprocess.run([sys.executable, maker, "--check", other], stderr=subprocess.DEVNULL,
                          check=False).returncode == 1


def test_docs_echo_is_short():
    """The server and client of docs/ucx-py.md, as ported from a point-to-point library."""
    text = (DOCS / "ucx-py.md").read_text(encoding="utf-8")
    echo = re.search(r"^```python\n(.*?)^```", text, re.M | re.S)[1]
    assert "listen" in echo and "dial" in echo
    assert len([line for line in echo.splitlines() if line.strip()]) <= 20


def test_docs_examples_are_all_here():
    programs = sorted(EXAMPLES.glob("*.py"))
    assert {path.stem for path in programs} == set(PRINTED) | set(ALONE)
    for path in programs:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES_MAX, path


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_docs_examples_run(environment, rig, tmp_path, name):
    pytest.importorskip("numpy")
    config = tmp_path / "broker.conf"
    config.write_text('topics = ( { match = "values.>"; retain = { keys = 100; }; }, '
                      '{ match = ">"; retain = { messages = 100; }; } );\n')
    broker = rig.broker("--config", config)
    assert run(EXAMPLES / f"{name}.py", {**environment, "AMB_URL": broker.url()}) == PRINTED[name]


def test_docs_example_address(ambroker, environment):
    try:
        address = ambroker.interface_address()
    except ambroker.Invalid as error:
        pytest.skip(str(error))
    assert run(EXAMPLES / "address.py", environment) == f"tcp://{address}:4733"
    with pytest.raises(ambroker.Invalid, match="no such"):
        ambroker.interface_address("no such")


class Program:
    """An example that goes on until Ctrl-C."""

    def __init__(self, name, environment):
        self.child = subprocess.Popen([sys.executable, "-u", EXAMPLES / f"{name}.py"], stdout=subprocess.PIPE,
                                      text=True, env=environment)
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.child.stdout))
        self.reader.start()

    def expect(self, line, meanwhile=lambda: None):
        end = time.monotonic() + WAIT
        while line not in (said.strip() for said in self.lines):
            assert time.monotonic() < end and self.child.poll() is None, self.lines
            meanwhile()
            time.sleep(0.02)

    def end(self):
        self.child.send_signal(signal.SIGINT)
        assert self.child.wait(WAIT) == 0
        self.reader.join()
        self.child.stdout.close()
        return self.lines[-1]


def test_docs_example_lameduck(environment, rig):
    broker = rig.broker()
    environment["AMB_URL"] = broker.url()
    program = Program("lameduck", environment)
    while not [row for row in broker.ask("topics") if row["topic"] == "ticks"]:
        time.sleep(0.02)
    broker.signal(signal.SIGTERM)
    program.expect("the broker will end")
    broker.wait()
    rig.broker(at=broker)
    program.expect("there is another one")
    count, word = program.end().split()
    assert int(count) > 0 and word == "ticks"


def test_docs_example_reconnect(ambroker, environment, rig):
    broker = rig.broker()
    environment["AMB_URL"] = broker.url()
    program = Program("reconnect", environment)

    def publish():
        with ambroker.connect(broker.url()) as conn:
            conn.publish("prices.tea", b"2")

    program.expect("prices.tea: 2", publish)
    broker.kill()
    broker = rig.broker(at=broker)
    program.expect("restored")
    program.expect("nobody knows how many were missed", publish)
    program.end()


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
