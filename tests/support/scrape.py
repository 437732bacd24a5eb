# SPDX-License-Identifier: Apache-2.0
"""A scrape of a broker's /metrics: its text, and its samples by name and labels."""
import re
import socket

SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


def get(path, target="/metrics", accept=""):
    """The body of the answer on that Unix socket."""
    with socket.socket(socket.AF_UNIX) as conn:
        conn.settimeout(30)
        conn.connect(str(path))
        conn.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n".encode())
        data = b"".join(iter(lambda: conn.recv(65536), b""))
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise ValueError(head.decode(errors="replace"))
    return body.decode()


def samples(text):
    """{(name, labels): value}"""
    found = (SAMPLE.match(line) for line in text.splitlines() if not line.startswith("#"))
    return {(m.group(1), m.group(2) or ""): float(m.group(3)) for m in found}


def total(of, name):
    return sum(value for (metric, _), value in of.items() if metric == name)
