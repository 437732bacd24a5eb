#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What users, roles and trust groups take. Instructions of a message: instructions.py --users.

    trust.py BUILD [--pairs 15] [--users 10000] [--sessions 1000]

Leased messages of 1 MiB from one user to another: `trust = "auto"` against "verify", in pairs, as root. Then a
users file is loaded, and sessions are revoked by a reload that takes a right away.
"""
import argparse
import hashlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from harness import as_user

PUBLISHER, READER = 23451, 23452
SIZE, SECONDS = "1m", 1
ROLES = 20


class Broker:
    def __init__(self, build, folder, config):
        self.build, self.folder, self.file = build, folder, folder / "broker.conf"
        self.log_path, self.url = folder / "log", f"unix://{folder}/socket"
        self.file.write_text(config, encoding="ascii")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([build / "broker/brokerd", "--config", self.file, "--listen",
                                             f"{self.url}?mode=0666"], stdout=subprocess.PIPE, stderr=log)
        if not self.process.stdout.readline().startswith(b"ready"):
            raise SystemExit(self.log())

    def log(self):
        return self.log_path.read_text(encoding="utf-8")

    def hang_up(self, words, count):
        """Seconds from SIGHUP until the log has so many more of these words."""
        due, begin = self.log().count(words) + count, time.monotonic()
        self.process.send_signal(signal.SIGHUP)
        while self.log().count(words) < due:
            if time.monotonic() - begin > 30:
                raise SystemExit(f"nothing of '{words}': {self.log()[-2000:]}")
            time.sleep(0.002)
        return time.monotonic() - begin

    def longest_round_ms(self):
        done = subprocess.run([self.build / "tools/broker-ctl", "--url", self.url, "-o", "json", "status"],
                              capture_output=True, check=True)
        rows = json.loads(done.stdout)
        return int((rows[0] if isinstance(rows, list) else rows)["longest_round_ns"]) / 1e6

    def stop(self):
        self.process.terminate()
        self.process.wait()


def handed_over(build, trust):
    """Messages a second that another user reads."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        broker = Broker(build, folder, f'topics = ( {{ match = ">"; trust = "{trust}"; }} );\n'
                        'memory = { host = { size = "512M"; }; };\n')
        bench = [build / "tools/broker-bench"]
        options = ["--url", broker.url, "--size", SIZE, "--seconds", str(SECONDS), "-o", "json"]
        with subprocess.Popen([*as_user(READER), *bench, "sub", *options], stdout=subprocess.PIPE) as reader:
            time.sleep(0.4)
            subprocess.run([*as_user(PUBLISHER), *bench, "pub", *options, "--lease"], check=True, capture_output=True)
            result = json.loads(reader.communicate(timeout=30)[0])
        broker.stop()
    if result["gaps"] or result["corrupt"] or result["lost_told"]:
        raise SystemExit(f"wrong: {result}")
    return result["msgs_per_s"]


def compare(build, pairs):
    ratios = []
    for turn in range(pairs):
        words = ("auto", "verify") if turn % 2 == 0 else ("verify", "auto")
        rates = {trust: handed_over(build, trust) for trust in words}
        ratios.append(rates["auto"] / rates["verify"])
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"1 MiB to another user: auto to verify {middle:.3f}, middle half {low:.2f} to {high:.2f}, {pairs} pairs",
          flush=True)


def config_of(folder, deny=""):
    roles = ", ".join(f'{{ name = "r{i}"; publish = ( "c{i}.>" ); subscribe = {{ allow = ( "idle", "a{i}.>", "b.%u.>" ); '
                      f'deny = ( "secret.>"{deny} ); }}; }}' for i in range(ROLES))
    return (f'auth = {{ users = "{folder}/users"; }};\nserver = {{ max_connections = 2000; }};\n'
            f'memory = {{ host = {{ size = "256M"; }}; }};\nroles = ( {roles} );\n')


def write_users(folder, count):
    lines = [f"user{i}:plant:r{i % ROLES}:-:-:token/sha256-{hashlib.sha256(b'token%d' % i).hexdigest()}\n"
             for i in range(count)]
    (folder / "users").write_text("".join(lines), encoding="ascii")
    (folder / "users").chmod(0o600)


def load_and_revoke(build, users, sessions):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_users(folder, 100)
        broker = Broker(build, folder, config_of(folder))
        took = []
        for extra in range(5):
            write_users(folder, users + extra)
            took.append(broker.hang_up("in force from now on", 1))
        print(f"{users} users loaded in {statistics.median(took):.3f} s, the slowest in {max(took):.3f}", flush=True)
        (folder / "token").write_text("token42\n", encoding="ascii")
        (folder / "token").chmod(0o600)
        command = [build / "tests/idle-clients-bench", "ambroker", f"{broker.url}?link=stream", str(sessions)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env={**os.environ, "AMB_CREDENTIALS": str(folder / "token")}) as crowd:
            crowd.stdout.readline()
            before = broker.longest_round_ms()
            broker.file.write_text(config_of(folder, ', "idle"'), encoding="ascii")
            seconds = broker.hang_up("ended: rights changed", sessions)
            print(f"{sessions} sessions revoked in {seconds:.3f} s; longest round of the control thread "
                  f"{broker.longest_round_ms():.1f} ms, {before:.1f} before")
            crowd.kill()
        broker.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--users", type=int, default=10000)
    parser.add_argument("--sessions", type=int, default=1000)
    options = parser.parse_args()
    build = options.build.resolve()
    if options.pairs > 1 and os.geteuid() == 0:
        compare(build, options.pairs)
    load_and_revoke(build, options.users, options.sessions)


if __name__ == "__main__":
    main()
