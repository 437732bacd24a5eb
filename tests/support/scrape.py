# SPDX-License-Identifier: Apache-2.0
"""A scrape of a broker's /metrics: its text, and its samples by name and labels."""
import re
import socket

SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


class Refused(ValueError):
    """Another answer than 200, or none."""


def opened(path, target, accept="", seconds=30):
    """A connection to that Unix socket whose first bytes are the answer's."""
    conn = socket.socket(socket.AF_UNIX)
    conn.settimeout(seconds)
    try:
        conn.connect(str(path))
        conn.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n".encode())
    except OSError:
        conn.close()
        raise
    return conn


def get(path, target="/metrics", accept="", seconds=30):
    """The body of the answer on that Unix socket."""
    with opened(path, target, accept, seconds) as conn:
        data = b"".join(iter(lambda: conn.recv(65536), b""))
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise Refused(head.decode(errors="replace"))
    return (whole(body) if b"transfer-encoding: chunked" in head.lower() else body).decode()


def whole(body):
    """Of a body that comes in chunks; the last of them, which is empty, is there."""
    parts, size = [], -1
    while size != 0:
        length, _, body = body.partition(b"\r\n")
        size = int(length, 16)
        if body[size:size + 2] != b"\r\n":
            raise ValueError("the body is cut")
        parts.append(body[:size])
        body = body[size + 2:]
    return b"".join(parts)


def samples(text):
    """{(name, labels): value}"""
    found = (SAMPLE.match(line) for line in text.splitlines() if not line.startswith("#"))
    return {(m.group(1), m.group(2) or ""): float(m.group(3)) for m in found}


def total(of, name):
    return sum(value for (metric, _), value in of.items() if metric == name)
