#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docker/compose.yaml has its two containers do, done by two processes here: its broker's
options, its client's script. Images are not built.

    compose_test.py BUILD_FOLDER"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def main():
    build = os.path.abspath(sys.argv[1])
    with open(os.path.join(ROOT, "docker/compose.yaml"), encoding="utf-8") as file:
        text = file.read()
    broker, client = text.split("\n  client:\n")
    options = re.findall(r'"([^"]*)"', re.search(r"command: \[(.*?)\]", broker, re.S).group(1))
    script = re.search(r"command:\n      - \|\n((?:        .*\n)+)", client).group(1)
    script = re.sub(r"^ {8}", "", script, flags=re.M).replace("$$", "$")
    assert re.search("broker-ctl .*sub ", script) and re.search("broker-ctl .*pub ", script), script
    with tempfile.TemporaryDirectory(prefix="amb-compose-") as folder:
        for i, option in enumerate(options):
            options[i] = re.sub("^tcp://.*", "tcp://127.0.0.1:0", option)
            options[i] = re.sub("^unix:///run/ambroker", f"unix://{folder}", options[i])
        with open(f"{folder}/log", "w", encoding="utf-8") as log:
            brokerd = subprocess.Popen([f"{build}/broker/brokerd", *options], stderr=log,
                                       stdout=subprocess.PIPE, text=True)
        try:
            urls = brokerd.stdout.readline().split()[1:]
            tcp = next(url for url in urls if url.startswith("tcp:"))
            env = dict(os.environ, AMB_URL=tcp, PATH=f"{build}/tools:{os.environ['PATH']}")
            done = subprocess.run(["/bin/sh", "-ec", script.replace("tcp://broker:4733", tcp)],
                                  env=env, timeout=120, text=True, capture_output=True)
            print(done.stdout, done.stderr)
            assert done.returncode == 0, f"the client's script ends with {done.returncode}"
            assert len(re.findall(r"^messages +1000$", done.stdout, re.M)) == 2
            # What the file's head says of views.
            command = re.search(r"exec broker (broker-ctl .*)", text).group(1).split()
            unix = next(url for url in urls if url.startswith("unix:"))
            subprocess.run(command, env=dict(env, AMB_URL=unix), check=True, timeout=60)
        finally:
            brokerd.terminate()
            code = brokerd.wait(60)
        assert code == 0, f"brokerd ends with {code}"
    print("passed")


if __name__ == "__main__":
    main()
