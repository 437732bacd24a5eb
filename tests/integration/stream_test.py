# SPDX-License-Identifier: Apache-2.0
"""Streams of events of a brokerd: their figures, their limits, and readers that are slow or leave."""
import contextlib
import json
import signal
import socket
import time

import pytest
from http_doors import Door, metric, tcp
from halt import halted
from harness import check, until

STREAMS = 16
HEADERS = {"content-type": "text/event-stream", "cache-control": "no-store", "x-content-type-options": "nosniff"}


@pytest.fixture
def unix(rig):
    broker = rig.broker()
    return Door(path=f"{broker.socket}.http"), broker


class Stream:
    """An open stream, and its views as its events make them."""

    def __init__(self, door, query, more=""):
        self.conn = door.connect()
        self.conn.sendall(f"GET /v1/events?{query} HTTP/1.1\r\nHost: {door.host}\r\n{more}\r\n".encode())
        self.file = self.conn.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while line := self.file.readline().strip():
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()
        self.text, self.views, self.columns, self.last = b"", {}, {}, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.conn.close()

    def chunk(self):
        """b"": the end."""
        size = int(self.file.readline() or b"0", 16)
        data = self.file.read(size)
        self.file.readline()
        return data

    def event(self):
        """(kind, data); None at the end. Comments are left out."""
        while True:
            while b"\n\n" not in self.text:
                data = self.chunk()
                if not data:
                    return None
                self.text += data
            one, _, self.text = self.text.partition(b"\n\n")
            if one.startswith(b":"):
                continue
            kind, data = one.decode().split("\n")
            self.last = json.loads(data.removeprefix("data: "))
            self.take(kind.removeprefix("event: "))
            return kind.removeprefix("event: "), self.last

    def take(self, kind):
        self.columns = self.last.get("columns", self.columns)
        for name, change in self.last["views"].items():
            view = self.views[name] = {} if kind == "full" else self.views[name]
            for key in change.get("gone", []):
                del view[key]
            for key, columns in change.get("set", {}).items():
                view.setdefault(key, {}).update(columns)

    def wait(self, condition, text):
        for _ in range(20):
            if condition(self):
                return
            check(self.event(), f"the stream has ended: {text}")
        check(False, f"{text}: {self.views}")


def views_of(door, view):
    return json.loads(b"".join(chunks(door.get(f"/v1/{view}").body)))[view]


def chunks(body):
    while body:
        size, _, body = body.partition(b"\r\n")
        yield body[: int(size, 16)]
        body = body[int(size, 16) + 2:]


def publish(rig, broker, topic, count):
    done = rig.client("broker-ctl", "pub", topic, "--count", str(count), "--size", "10", "--url", broker.url("ring"))
    check(done.wait() == 0, done.log())


def test_a_stream_is_whole_first_and_then_says_what_changes(rig, unix):
    door, broker = unix
    publish(rig, broker, "a.b", 5)
    publish(rig, broker, "<img+onerror=alert(1)\"&'", 1)
    until(10, lambda: len(views_of(door, "topics")) == 2, "the topics")
    with Stream(door, "view=status&view=topics&sort=messages&top=10") as stream:
        check(stream.status == 200 and HEADERS.items() <= stream.headers.items(), stream.headers)
        kind, data = stream.event()
        check(kind == "full" and data["columns"]["topics"]["messages"][0] == "ambroker_topic_messages_total", data)
        stream.wait(lambda s: s.views["topics"]["a.b|normal|"].get("messages") == 5, "five messages")
        check("<img+onerror=alert(1)\"&'|normal|" in stream.views["topics"], stream.views)
        publish(rig, broker, "a.b", 2)
        stream.wait(lambda s: s.views["topics"]["a.b|normal|"]["messages"] == 7, "seven messages")
        kind, data = stream.event()
        check(kind == "delta" and "topics" not in data["views"], f"nothing changes: {data}")
        check(set(data["views"]["status"]["set"][""]) == {"uptime_s"}, data)
        publish(rig, broker, "c", 1)
        stream.wait(lambda s: "c|normal|" in s.views["topics"], "a new topic")
        until(5, lambda: broker.ask("topics"), "figures are up to date")
        rows = {f"{row['topic']}|{row['priority']}|{row['tenant']}": row for row in views_of(door, "topics")}
        stream.wait(lambda s: s.views["topics"] == rows, "the figures of the view")


def test_rows_are_cut_and_say_so(rig, unix):
    door, broker = unix
    for topic in ("a", "b", "c"):
        publish(rig, broker, topic, 1)
    until(10, lambda: len(views_of(door, "topics")) == 3, "the topics")
    with Stream(door, "view=topics&sort=topic&top=2&view=workers") as stream:
        _, data = stream.event()
        check(set(data["views"]["topics"]["set"]) == {"a|normal|", "b|normal|"}, data)
        check(data["views"]["topics"]["cut"] is True and "cut" not in data["views"]["workers"], data)


def test_questions_that_are_none_are_refused(unix):
    door, broker = unix
    for query in ("", "view=nothing", "view=metrics", "view=", "top=1", "view=topics&view=topics", "view=topics&top=0",
                  "view=topics&top=1001", "view=topics&sort=nothing", "view=topics&match=a..b", "view=topics&what=1",
                  "view=topics%20top=5", "view", "view=topics&match=%00"):
        check(door.get(f"/v1/events?{query}").status == 400, query)
    check(door.get("/v1/events/?view=status").status == 404, "no such path")
    check(door.get("/v1/events?view=status", method="POST").status == 405, "POST")
    answer = door.get("/v1/events?view=status", method="HEAD")
    check(answer.status == 200 and answer.body == b"", f"HEAD: {answer.status} {answer.body}")
    check(metric(door, "ambroker_http_streams") == 0 and broker.is_running(), "none is open")


def test_the_seventeenth_is_refused_and_room_comes_back(unix):
    door, _ = unix
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(Stream(door, f"view=status&view=workers&top={1 + i % 4}")) for i in range(STREAMS)]
        check(all(stream.event()[0] == "full" for stream in streams), "all are served")
        check(metric(door, "ambroker_http_streams") == STREAMS, "they are counted")
        answer = door.get("/v1/events?view=status")
        check((answer.status, answer.body) == (503, b"16 streams of events are open\n"), answer.body)
        # Other answers are there all the same.
        check(door.get("/healthz").status == 200, "a probe")
        check(all(stream.event()[0] == "delta" for stream in streams), "all go on")
        streams[3].conn.shutdown(socket.SHUT_RDWR)
        until(5, lambda: metric(door, "ambroker_http_streams") == STREAMS - 1, "one has left")
        with Stream(door, "view=status") as again:
            check(again.event()[0] == "full", "there is room")
    until(5, lambda: metric(door, "ambroker_http_streams") == 0, "all have left")


def test_a_reader_that_takes_nothing_is_ended(rig, unix):
    door, broker = unix
    patterns = [f"{'long' * 40}.{i}" for i in range(1000)]
    rig.client("broker-ctl", "sub", *patterns, "--url", broker.url("ring"))
    until(60, lambda: len(broker.ask("subs")) == 1000, "the subscriptions")
    before = metric(door, "ambroker_http_streams_ended_total")
    with Stream(door, "view=subs&top=1000") as slow, Stream(door, "view=subs&top=1000&view=status") as fast:
        check(slow.status == 200 and len(fast.event()[1]["views"]["subs"]["set"]) == 1000, "both have begun")
        for _ in range(20):
            check(fast.event(), "the other one goes on")
            if metric(door, "ambroker_http_streams") == 1:
                break
        check(metric(door, "ambroker_http_streams_ended_total") == before + 1, "it is counted")
        with contextlib.suppress(ConnectionResetError, ValueError):
            while slow.chunk():
                pass


def test_half_a_head_takes_no_stream(unix):
    door, _ = unix
    with door.connect() as half:
        half.sendall(b"GET /v1/events?view=status HTTP/1.1\r\nHost: a\r\n")
        check(metric(door, "ambroker_http_streams") == 0, "there is none yet")
        half.sendall(b"\r\n")
        check(half.recv(100).startswith(b"HTTP/1.1 200"), "now there is")


def test_a_reader_that_has_said_all_gets_what_there_is(unix):
    door, _ = unix
    with door.connect() as conn:
        conn.sendall(b"GET /v1/events?view=status HTTP/1.1\r\nHost: a\r\n\r\n")
        conn.shutdown(socket.SHUT_WR)
        data = b""
        while piece := conn.recv(65536):
            data += piece
        check(b"event: full" in data and b"event: delta" not in data, data[-80:])


def test_a_stream_ends_with_the_broker_and_the_next_one_is_whole(rig, unix):
    door, broker = unix
    publish(rig, broker, "a", 3)
    with Stream(door, "view=status&view=topics") as stream:
        epoch = stream.event()[1]["views"]["status"]["set"][""]["epoch"]
        broker.stop()
        while stream.event():
            pass  # Its end is one that its reader understands: the last chunk.
    again = rig.broker(at=broker)
    with Stream(door, "view=status&view=topics") as stream:
        kind, data = stream.event()
        check(kind == "full" and data["views"]["status"]["set"][""]["epoch"] != epoch, data)
        check("a|normal|" not in stream.views["topics"], "another life")
    again.kill()


def test_it_costs_nothing_when_nobody_listens(unix):
    door, broker = unix
    with Stream(door, "view=status&view=topics") as stream:
        for _ in range(3):
            stream.event()
        before = broker.cpu_seconds("amb-observer")
        for _ in range(3):
            stream.event()
        used = broker.cpu_seconds("amb-observer") - before
        check(used < 0.3, f"{used:.3f} s of a processor in 3 s with one stream")
    until(5, lambda: metric(door, "ambroker_http_streams") == 0, "it has left")
    before = broker.cpu_seconds("amb-observer")
    time.sleep(2)
    used = broker.cpu_seconds("amb-observer") - before
    check(used < 0.02, f"{used:.3f} s of a processor in 2 s with none")


def test_lanes_are_told_and_asked_for_once(rig, unix):
    door, broker = unix
    rig.client("broker-ctl", "sub", "a", "--url", broker.url("ring"), "--client-name", "reader <b>")
    until(10, lambda: any(row["name"] == "reader <b>" for row in broker.ask("clients")), "the client")
    rows = json.loads(door.get("/v1/transports").body)["transports"]
    check(any(row["name"] == "reader <b>" and row["link"] == "ring" for row in rows), rows)
    rows = json.loads(door.get("/v1/paths?name=reader%20%3Cb%3E").body)["paths"]
    check(rows and all(row["name"] == "reader <b>" for row in rows), rows)
    for path in ("transports?x=1", "paths", "paths?name=", "paths?name=%00", "paths?match=a", "paths?name=" + "a" * 200,
                 "paths?name=" + "a" * 64):  # No client has a name so long.
        check(door.get(f"/v1/{path}").status == 400, path)
    check(door.get("/v1/paths?name=" + "a" * 63).status == 200, "a name that a client may have")
    check(door.get("/v1/doctor").status == 404, "no such view")


def test_a_control_thread_that_hangs_holds_up_nobody(rig, unix):
    door, broker = unix
    check(door.get("/v1/transports").status == 200, "before")
    with halted(broker.pid, "amb-control"):
        with Stream(door, "view=status") as stream:
            began = time.monotonic()
            with door.connect() as waiting:
                waiting.sendall(b"GET /v1/paths?name=x HTTP/1.1\r\nHost: a\r\n\r\n")
                check(stream.event()[0] == "full" and stream.event(), "a stream goes on")
                check(door.get("/metrics").status == 200, "so do metrics")
                check(waiting.recv(100).startswith(b"HTTP/1.1 503"), "it is told")
            check(8 <= time.monotonic() - began <= 25, "after ten seconds")
    until(10, lambda: door.get("/v1/paths?name=x").status == 200, "it answers again")
    broker.signal(signal.SIGTERM)
    check(broker.wait() == 0, "it ends")


def test_a_broker_ends_while_it_is_asked(rig, unix):
    door, broker = unix
    check(door.get("/v1/transports").status == 200, "before")
    with contextlib.ExitStack() as stack:
        with halted(broker.pid, "amb-control"):
            for i in range(4):
                conn = stack.enter_context(door.connect())
                conn.sendall(f"GET /v1/paths?name={i} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            until(5, lambda: metric(door, "ambroker_http_connections") == 5, "they wait")
            broker.signal(signal.SIGTERM)
        check(broker.wait() == 0, broker.log()[-2000:])


def test_a_reload_closes_ways(rig):
    """Another token, or users: streams over TCP end, and those of the broker's own user go on."""
    key, users, config = rig.folder / "key", rig.folder / "users", rig.folder / "broker.conf"
    key.write_text("first\n")
    users.write_text("")
    for path in (key, users):
        path.chmod(0o600)
    config.write_text("")
    door, broker = tcp(rig, "-o", f"http.token_file={key}", "--config", str(config))
    bearer = "Authorization: Bearer {}\r\n"
    with Stream(door, "view=status", bearer.format("first")) as stream:
        check(stream.event() and stream.event(), "it goes on")
        key.write_text("second\n")
        broker.signal(signal.SIGHUP)
        while ended(stream):
            pass
    check(door.get("/v1/status", more=bearer.format("first")).status == 401, "the former token")
    with Stream(door, "view=status", bearer.format("second")) as stream:
        check(stream.event(), "the new one")
        config.write_text(f'auth = {{ users = "{users}"; }};\n')
        broker.signal(signal.SIGHUP)
        while ended(stream):
            pass
    check(door.get("/v1/events?view=status", more=bearer.format("second")).status == 403, "no names on TCP")


def ended(stream):
    """False: it has."""
    with contextlib.suppress(ConnectionResetError, ValueError):
        return stream.event()
    return False
