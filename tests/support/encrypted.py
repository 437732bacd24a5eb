# SPDX-License-Identifier: Apache-2.0
"""A brokerd with an encrypted listener, and the certificates that it takes.

    broker = Encrypted(rig, made(rig))
    broker.works()
    rig.client("broker-ctl", "--url", broker.url, ..., env=broker.env)
"""
import json
import os
import socket
import subprocess

from harness import check, port_of, until

TOKEN = "canary-token-5f0e"


class Folder:
    """Certificates made by broker-ctl tls."""

    def __init__(self, rig, name="tls"):
        self.rig = rig
        self.path = rig.folder / name
        self.path.mkdir()

    def __call__(self, file):
        return str(self.path / file)

    def tls(self, *arguments):
        done = subprocess.run([self.rig.program("broker-ctl"), "-o", "json", "tls", *arguments,
                               "--dir", str(self.path)], capture_output=True, timeout=30, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def make(self, *arguments):
        status, text, error = self.tls(*arguments)
        check(status == 0, f"tls {arguments}: {status} {error}")
        return json.loads(text)


def made(rig):
    """A folder with the certificates of a broker on 127.0.0.1."""
    folder = Folder(rig)
    folder.make("init", "--name", "127.0.0.1")
    return folder


class Encrypted:
    """A brokerd with an encrypted listener, and what reaches it."""

    def __init__(self, rig, folder, *options, clients=None, token=True, env=None, prefix=()):
        self.rig, self.folder = rig, folder
        self.token = rig.folder / "token"
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)
        arguments = ["--listen", "tls://127.0.0.1:0", "-o", f"tls.certificate={folder('server.pem')}",
                     "-o", f"tls.key={folder('server.key')}", "-o", "log.level=debug"]
        if token:
            arguments += ["-o", f"auth.token_file={self.token}"]
        if clients is not None:
            arguments += ["-o", f"tls.clients={clients}", "-o", f"tls.ca={folder('ca.pem')}"]
        self.broker = rig.broker(*arguments, *map(str, options), env=env, prefix=prefix)
        self.url = self.broker.tls_url
        self.port = port_of(self.url)
        self.env = {"AMB_CA": folder("ca.pem"), "AMB_CREDENTIALS": str(self.token)}  # a client needs it

    def ctl(self, *arguments, url=None, env=None, data=b"x", seconds=30):
        done = subprocess.run([self.rig.program("broker-ctl"), "--url", url or self.url,
                               *map(str, arguments)], input=data, capture_output=True,
                              timeout=seconds, check=False, env={**os.environ, **self.env, **(env or {})})
        return done.returncode, done.stdout, done.stderr.decode(errors="replace")

    def works(self, **options):
        status, _, text = self.ctl("pub", "fine", "--count", 1, "--size", 10, **options)
        check(status == 0, f"a message over TLS: {status} {text}")

    def fails(self, status, words, **options):
        got, _, text = self.ctl("pub", "fine", "--count", 1, "--size", 10, "--timeout", 5, **options)
        check(got == status, f"{options}: {got}, not {status}: {text}")
        for word in words:
            check(word in text, f"{options}: nothing of '{word}' in: {text}")
        check("\n" not in text.strip("\n"), f"more than a sentence: {text}")

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def says(self, words, seconds=20):
        until(seconds, lambda: words in self.broker.log(), f"it says '{words}'")
