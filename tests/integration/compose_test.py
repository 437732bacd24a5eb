# SPDX-License-Identifier: Apache-2.0
"""What docker/compose.yaml has its two containers do, done by two processes here: its broker's
options, its client's script. Images are not built.

    compose_test.py"""
import os
import pathlib
import re
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_compose(rig):
    text = (ROOT / "docker/compose.yaml").read_text(encoding="utf-8")
    broker, client = text.split("\n  client:\n")
    options = re.findall(r'"([^"]*)"', re.search(r"command: \[(.*?)\]", broker, re.S).group(1))
    script = re.search(r"command:\n      - \|\n((?:        .*\n)+)", client).group(1)
    script = re.sub(r"^ {8}", "", script, flags=re.M).replace("$$", "$")
    assert re.search("broker-ctl .*sub ", script) and re.search("broker-ctl .*pub ", script)
    for i, option in enumerate(options):
        options[i] = re.sub("^tcp://.*", "tcp://127.0.0.1:0", option)
        options[i] = re.sub("^unix:///run/ambroker", f"unix://{rig.folder}", options[i])
    brokerd = rig.start([rig.program("brokerd"), *options])
    urls = brokerd.expect("ready")[1:]
    tcp = next(url for url in urls if url.startswith("tcp:"))
    env = dict(os.environ, AMB_URL=tcp, PATH=f"{rig.build}/tools:{os.environ['PATH']}")
    done = subprocess.run(["/bin/sh", "-ec", script.replace("tcp://broker:4733", tcp)],
                          env=env, timeout=120, text=True, capture_output=True, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    assert len(re.findall(r"^messages +1000$", done.stdout, re.M)) == 2
    # What the file's head says of views.
    command = re.search(r"exec broker (broker-ctl .*)", text).group(1).split()
    unix = next(url for url in urls if url.startswith("unix:"))
    subprocess.run(command, env=dict(env, AMB_URL=unix), check=True, timeout=60)
    brokerd.signal(signal.SIGTERM)
    assert brokerd.wait(60) == 0
