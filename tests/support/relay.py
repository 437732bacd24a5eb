# SPDX-License-Identifier: Apache-2.0
"""Somebody between a client and a broker, who passes bytes on, listens to them and may change some.

    relay = Relay(port, ear=Ear([b"canary"]))
    relay = Relay(port, change=Change("flip", place=9000, seed=1), to_broker=True, alpn=b"amb-link/1")
"""
import collections
import random
import socket
import threading

PIECE = 65536
HELLO = 4096  # bytes in which a ClientHello names its protocol
CIPHERTEXT, CHANGE_CIPHER_SPEC = 23, 20  # types of records


class Ear:
    """Counts what it looks for in the bytes of each connection and direction."""

    def __init__(self, wanted):
        self.found = collections.Counter({word: 0 for word in wanted})
        self.bytes = 0
        self._tails = {}
        self._lock = threading.Lock()
        self._keep = max(map(len, wanted)) - 1

    def hear(self, stream, piece):
        before = self._tails.get(stream, b"")
        both = before + piece
        counts = {word: both.count(word) - before.count(word) for word in self.found}
        self._tails[stream] = both[-self._keep:]
        with self._lock:
            self.bytes += len(piece)
            self.found.update(counts)


class Change:
    """One change to one direction of a connection, at the byte `place` of it or behind that. By kind:

    flip     one bit is another one           record lost      a whole record does not come
    drop     some bytes do not come           record twice     it comes twice
    double   some bytes come twice            records swapped  it comes behind the next one
    insert   other bytes come                 replay           the last 2,000 bytes come once more
    cut      nothing more comes
    """

    KINDS = ("flip", "drop", "double", "insert", "cut", "record lost", "record twice",
             "records swapped", "replay")

    def __init__(self, kind, place, seed):
        self.kind, self.place = kind, place
        self.random = random.Random(seed)
        self.passed = 0  # bytes of the original that have gone on
        self.is_done = self.is_cut = False
        self.held = b""  # a record that waits for the next one
        self.part = b""
        self.last = b""

    def feed(self, piece):
        """What goes on in the place of these bytes: whole records, until the change is done."""
        if self.is_cut:
            return b""
        if self.is_done:
            return piece
        out = b""
        self.part += piece
        while not self.is_done and len(self.part) >= 5:
            size = 5 + int.from_bytes(self.part[3:5], "big")
            if len(self.part) < size:
                break
            record, self.part = self.part[:size], self.part[size:]
            out += self._record(record)
        if self.is_done and not self.is_cut:
            out, self.part = out + self.part, b""
        return out

    def _record(self, record):
        at, self.passed = self.passed, self.passed + len(record)
        if self.held:
            record, self.held, self.is_done = record + self.held, b"", True
        elif self.passed > self.place:
            record = self._changed(record, max(self.place - at, 0))
        self.last = (self.last + record)[-2000:]
        return record

    def _changed(self, record, at):
        if self.kind.startswith("record"):
            if record[0] == CHANGE_CIPHER_SPEC:
                return record  # means nothing in TLS 1.3, and may come or not
            if self.kind == "records swapped":
                self.held = record
                return b""
            self.is_done = True
            return b"" if self.kind == "record lost" else record * 2
        self.is_done = True
        if at in (1, 2) and record[0] != CIPHERTEXT:
            at = 5  # a version that nobody looks at (RFC 8446, 5.1)
        count = self.random.choice((1, 2, 3, 17))
        if self.kind == "flip":
            return record[:at] + bytes([record[at] ^ 1 << self.random.randrange(8)]) + record[at + 1:]
        if self.kind == "drop":
            return record[:at] + record[at + count:]
        if self.kind == "double":
            return record[:at + count] + record[at:]
        if self.kind == "insert":
            return record[:at] + self.random.randbytes(count) + record[at:]
        if self.kind == "replay":
            return record + (self.last or record)
        self.is_cut = True
        return record[:at]


class Relay:
    """ear: hears everything. change: is made to the first connection of the protocol `alpn` (any: None),
    to what goes to the broker or to what comes from it; nobody gets in behind it."""

    def __init__(self, port, ear=None, change=None, to_broker=True, alpn=None, scheme="tls"):
        self.port, self.ear, self.change = port, ear, change
        self.to_broker, self.alpn = to_broker, alpn
        self.connections = 0
        self.sizes = []  # bytes of each connection: [protocol, to the broker, from it]
        self.has_changed, self.has_ended = threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"{scheme}://127.0.0.1:{self.listener.getsockname()[1]}"
        self._sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                broker = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                return
            self._sockets += [client, broker]
            number, self.connections = self.connections, self.connections + 1
            threading.Thread(target=self._serve, args=(client, broker, number), daemon=True).start()

    def _serve(self, client, broker, number):
        """The thread for what goes to the broker; another one has what comes back."""
        first = b""
        try:
            while first[:1] in (b"", b"\x16") and b"amb" not in first and len(first) < HELLO:
                piece = client.recv(PIECE)
                if not piece:
                    break
                first += piece
        except OSError:
            pass
        named = [alpn for alpn in (b"amb-link/1", b"amb/1") if alpn in first]
        protocol = named[0] if named else b""
        size = [protocol, 0, 0]
        self.sizes.append(size)
        change = self.change if self.alpn in (None, protocol) else None
        if change is not None:
            self.change = None
        to_broker = change if self.to_broker else None
        back = None if self.to_broker else change
        threading.Thread(target=self._pass, args=(broker, client, (number, 2), size, b"", back, to_broker),
                         daemon=True).start()
        self._pass(client, broker, (number, 1), size, first, to_broker, back)

    def _pass(self, source, target, stream, size, piece, change, theirs):
        """theirs: the change in the other direction, whose victim is our source."""
        try:
            while True:
                piece = piece or source.recv(PIECE)
                if not piece:
                    break
                size[stream[1]] += len(piece)
                if self.ear is not None:
                    self.ear.hear(stream, piece)
                self._send(target, piece, change)
                piece = b""
            target.shutdown(socket.SHUT_WR)
        except OSError:
            if change is not None and self.has_changed.is_set():
                self.has_ended.set()  # the victim takes nothing more
        if theirs is not None and self.has_changed.is_set():
            self.has_ended.set()

    def _send(self, target, piece, change):
        if change is None:
            target.sendall(piece)
            return
        piece = change.feed(piece)
        if (change.is_done or change.held) and not self.has_changed.is_set():
            self.close_door()
            self.has_changed.set()
        target.sendall(piece)
        if change.is_cut:
            target.shutdown(socket.SHUT_WR)

    def close_door(self):
        """close() alone would leave it open to one more: a thread is in accept()."""
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()

    def close(self):
        self.close_door()
        for peer in self._sockets:
            peer.close()
