# SPDX-License-Identifier: Apache-2.0
"""Requests to a broker's HTTP, byte by byte: no library in between makes them whole."""
import contextlib
import re
import socket

from harness import check, until

CONNECTIONS = 64
GET = "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n"


class Answer:
    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        check(lines[0].startswith("HTTP/1.1 "), f"no answer of HTTP: {data[:80]}")
        self.status = int(lines[0].split()[1])
        self.headers = dict((key.lower(), value.strip()) for key, value in
                            (line.split(":", 1) for line in lines[1:]))


class Door:
    """Of a broker's HTTP: its Unix socket, or an address of TCP."""

    def __init__(self, path=None, port=None):
        self.path, self.port = path, port
        self.host = "broker" if path else f"127.0.0.1:{port}"

    def connect(self):
        if self.path:
            conn = socket.socket(socket.AF_UNIX)
            conn.settimeout(30)
            conn.connect(str(self.path))
        else:
            conn = socket.create_connection(("127.0.0.1", self.port), 30)
        return conn

    def raw(self, data):
        """All that comes until the door closes."""
        with self.connect() as conn:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                conn.sendall(data)
            out = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := conn.recv(65536):
                    out += piece
            return out

    def get(self, target, host=None, method="GET", more=""):
        request = f"{method} {target} HTTP/1.1\r\nHost: {host or self.host}\r\n{more}\r\n"
        return Answer(self.raw(request.encode()))


def tcp(rig, *more):
    broker = rig.broker("-o", "http.listen=tcp://127.0.0.1:0", *more)
    url = until(5, lambda: re.search(r"http://127\.0\.0\.1:(\d+)", broker.log()), "an address in the log")
    return Door(port=int(url.group(1))), broker


def metric(door, name):
    """None: the answer has no such line, as one that is refused."""
    found = re.search(rf"^{name} (\d+)$", door.get("/metrics").body.decode(), re.M)
    return int(found.group(1)) if found else None
