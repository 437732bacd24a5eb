# SPDX-License-Identifier: Apache-2.0
"""The door of HTTP of a brokerd: what it answers, to whom, and what it does with requests that are none."""
import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import tempfile
import time

import pytest
from http_doors import CONNECTIONS, GET, Answer, Door, metric, tcp
from halt import halted
from harness import check, until

PROGRESS_S = 10
SILENT_S = 10
HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
           "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"}


@pytest.fixture
def unix(rig):
    broker = rig.broker()
    return Door(path=f"{broker.socket}.http"), broker


def test_each_path_has_its_answer_and_its_headers(unix):
    door, _ = unix
    for path, body in (("/healthz", b"ok\n"), ("/readyz", b"ok\n")):
        answer = door.get(path)
        check((answer.status, answer.body) == (200, body), f"{path}: {answer.status} {answer.body}")
        check(HEADERS.items() <= answer.headers.items(), f"{path}: {answer.headers}")
    plain = door.get("/metrics")
    check(plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8", plain.headers)
    check(b"\nambroker_clients 0\n" in plain.body, plain.body[:400])
    check(HEADERS.items() <= plain.headers.items(), plain.headers)
    open_form = door.get("/metrics", more="Accept: application/openmetrics-text;version=1.0.0\r\n")
    check(open_form.headers["content-type"].startswith("application/openmetrics-text"), open_form.headers)
    check(open_form.body.endswith(b"\n# EOF\n"), open_form.body[-80:])
    head = door.get("/metrics", method="HEAD")
    check(head.status == 200 and head.body == b"", f"HEAD: {head.status}, {len(head.body)} bytes")
    check(int(head.headers["content-length"]) > 1000, head.headers)


def test_requests_that_are_none_are_refused(unix):
    door, broker = unix
    refused = metric(door, "ambroker_http_requests_refused_total")
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "FOO"):
        answer = door.get("/metrics", method=method)
        check(answer.status == 405 and answer.headers["allow"] == "GET, HEAD", f"{method}: {answer.status}")
        check(HEADERS.items() <= answer.headers.items(), f"{method}: {answer.headers}")
    for target in ("/x", "/metrics/", "/../etc/passwd", "/%2e%2e/metrics", "//metrics", "/METRICS", "*"):
        check(door.get(target).status == 404, target)
    for size, status in ((7000, 200), (9000, 431), (40000, 431), (300000, 431)):
        answer = door.get("/healthz", more=f"X-Long: {'a' * size}\r\n")
        check(answer.status == status, f"a head of {size} bytes: {answer.status}")
    check(door.get("/" + "a" * 9000).status == 431, "a path of 9000 bytes")
    for data in (b"GET /healthz\0 HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: a\0b\r\n\r\n",
                 b"GET\0/healthz HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                 b"GET /healthz\r\n\r\n", b"GET /healthz HTTP/1.1\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost\r\n\r\n"):
        check(Answer(door.raw(data)).status == 400, data)
    check(Answer(door.raw(b"GET /healthz HTTP/9.9\r\nHost: a\r\n\r\n")).status == 505, "another version")
    check(door.raw(b"\xff\xfe\xfd\r\n\r\n") == b"", "a line that is none is closed")
    check(metric(door, "ambroker_http_requests_refused_total") >= refused + 17, "refusals are counted")
    check(b"passwd" not in door.get("/../etc/passwd").body, "a path is in the answer")
    check(broker.is_running() and door.get("/healthz").status == 200, "alive")


def test_a_request_has_one_answer(unix):
    """What stands behind the first one is not looked at."""
    door, _ = unix
    data = door.raw((GET.format("/healthz", "a") * 3).encode())
    check(data.count(b"HTTP/1.1 ") == 1, data)
    body = door.raw(b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc")
    check(body.count(b"HTTP/1.1 ") == 1, body)


def test_on_tcp_host_is_a_name_of_ours(rig):
    door, _ = tcp(rig, "-o", "http.hosts=metrics.example")
    for host in (door.host, "localhost", f"localhost:{door.port}", "[::1]", "192.0.2.1", socket.gethostname(),
                 "Metrics.Example:80"):
        check(door.get("/healthz", host=host).status == 200, host)
    for host in ("evil.example", "127.0.0.1.evil.example", "metrics.example.evil", "a b", "metrics.example/x"):
        for path in ("/healthz", "/readyz", "/metrics", "/nothing"):
            check(door.get(path, host=host).status == 403, f"{host} {path}")
    check(door.get("/healthz", more="Host: evil.example\r\n").status == 400, "two hosts")
    check(Answer(door.raw(b"GET /healthz HTTP/1.0\r\n\r\n")).status == 400, "no host")


def test_a_unix_socket_asks_for_no_host(unix):
    door, _ = unix
    check(door.get("/healthz", host="anything.example").status == 200, "any host")
    check(Answer(door.raw(b"GET /healthz HTTP/1.0\r\n\r\n")).status == 200, "no host")


def test_connections_without_a_head_make_room(unix):
    """64 of them cost their peer nothing, and keep no probe out: the eldest one goes."""
    door, broker = unix
    before = metric(door, "ambroker_http_turned_away_total")
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(door.connect()) for _ in range(CONNECTIONS)]
        for conn in held:
            conn.sendall(b"GET /heal")
        for _ in range(3):
            check(door.get("/healthz").status == 200, "a probe")
        # Those that were there last are served, too.
        held[-1].sendall(b"thz HTTP/1.1\r\nHost: a\r\n\r\n")
        check(held[-1].recv(4096).startswith(b"HTTP/1.1 200"), "the last one")
        with contextlib.suppress(ConnectionResetError):
            check(held[0].recv(4096) == b"", "the eldest one is closed")
    until(5, lambda: metric(door, "ambroker_http_turned_away_total") > before, "it is counted")
    until(5, lambda: metric(door, "ambroker_http_connections") == 1, "all others are gone")
    check(broker.is_running(), "alive")


def test_blank_lines_are_no_head(unix):
    """libmicrohttpd waits behind them for a request, so they must not make one of it."""
    door, broker = unix
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(door.connect()) for _ in range(CONNECTIONS)]
        for conn in held:
            conn.sendall(b"\r\n\r\n")
        for _ in range(20):
            check(door.get("/healthz").status == 200, "a probe")
        held[-1].sendall(GET.format("/healthz", "a").encode())
        check(held[-1].recv(4096).startswith(b"HTTP/1.1 200"), "a request behind them")
        held[-2].sendall(b"GET /healthz\0 HTTP/1.1\r\nHost: a\r\n\r\n")
        check(held[-2].recv(4096).startswith(b"HTTP/1.1 400"), "a NUL behind them")
    # Nor does a head that is too long, and stays so, hold a place.
    with contextlib.ExitStack() as stack:
        for piece in (b"\r\n" * 5000, b"GET /" + b"a" * 10000):
            for _ in range(CONNECTIONS // 2):
                conn = stack.enter_context(door.connect())
                conn.sendall(piece)
                check(conn.recv(4096).startswith(b"HTTP/1.1 431"), "it is told at once")
        check(door.get("/healthz").status == 200, "a probe")
    check(broker.is_running(), "alive")


def test_connections_with_a_request_are_limited(unix):
    """None of those goes for another: the 65th is told."""
    door, broker = unix
    patterns = [f"{'long' * 20}.{i}" for i in range(1000)]
    many = broker.rig.client("broker-ctl", "sub", *patterns, "--url", broker.url("ring"))
    until(30, lambda: len(broker.ask("subs")) == 1000, "the subscriptions")
    before = metric(door, "ambroker_http_turned_away_total")
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            conn = stack.enter_context(door.connect())
            conn.sendall(GET.format("/v1/subs", "a").encode())
            check(conn.recv(1), "its answer has begun")
        check(door.get("/healthz").status == 503, "one too many")
    until(15, lambda: (metric(door, "ambroker_http_turned_away_total") or 0) > before, "one was turned away")
    many.signal(signal.SIGTERM)


def test_half_a_request_is_closed_after_ten_seconds(unix):
    """One that says nothing, one that stops, and one that says a byte now and then: the time is that of a head,
    not that between two bytes."""
    door, _ = unix
    before = metric(door, "ambroker_http_stopped_total")
    with door.connect() as silent, door.connect() as stopped, door.connect() as slow:
        began = time.monotonic()
        stopped.sendall(b"GET /healthz HTTP/1.1\r\n")
        text = iter(b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 4000)
        slow.setblocking(False)
        while True:
            try:
                slow.send(bytes([next(text)]))
                if slow.recv(10) == b"":
                    break
            except BlockingIOError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                break
            check(time.monotonic() - began < 2 * PROGRESS_S + 20, "a slow one is not closed")
            time.sleep(0.25)
        lasted = time.monotonic() - began
        check(lasted >= PROGRESS_S - 0.5, f"closed after {lasted:.1f} s")
        for conn in (silent, stopped):
            with contextlib.suppress(ConnectionResetError):
                check(conn.recv(100) == b"", "closed without an answer")
    check(metric(door, "ambroker_http_stopped_total") >= before + 3, "they are counted")


def test_heads_that_are_there_are_answered_however_late(unix):
    """The time is the client's for its head, not the broker's for its answer."""
    door, broker = unix
    with contextlib.ExitStack() as stack:
        conns = [stack.enter_context(door.connect()) for _ in range(8)]
        until(5, lambda: metric(door, "ambroker_http_connections") == 9, "all are accepted")
        with halted(broker.pid, "amb-observer"):
            for conn in conns:
                conn.sendall(GET.format("/healthz", "a").encode())
            time.sleep(PROGRESS_S + 1)
        for conn in conns:
            check(conn.recv(4096).startswith(b"HTTP/1.1 200"), "an answer")


def test_a_thread_that_hangs_is_told(unix):
    door, broker = unix
    check(door.get("/healthz").status == 200, "before")
    with halted(broker.pid, "amb-worker-0"):
        began = time.monotonic()
        answer = until(SILENT_S + 10, lambda: unavailable(door, "/healthz"), "a stopped worker is not told")
        lasted = time.monotonic() - began
        check(answer.body.startswith(b"worker 0 has not turned for 1"), answer.body)
        check(lasted >= SILENT_S - 1, f"told after {lasted:.1f} s already")
    until(10, lambda: door.get("/healthz").status == 200, "it turns again")


def unavailable(door, path):
    answer = door.get(path)
    return answer if answer.status == 503 else None


def test_a_drain_is_not_ready_and_healthy(rig):
    broker = rig.broker("-o", "limits.drain_timeout=20s")
    door = Door(path=f"{broker.socket}.http")
    # One reads nothing of what is there, so the drain goes on.
    slow = rig.client("broker-ctl", "sub", "a", "--url", broker.url("ring"), "--credit", "1")
    until(10, lambda: broker.ask("subs"), "the subscriber")
    slow.signal(signal.SIGSTOP)
    done = rig.client("broker-ctl", "pub", "a", "--count", "1000", "--size", "1000", "--url", broker.url("ring"))
    done.wait()
    check(door.get("/readyz").status == 200, "before")
    broker.signal(signal.SIGTERM)
    until(10, lambda: door.get("/readyz").body == b"it drains\n", "it drains")
    check(door.get("/readyz").status == 503 and door.get("/healthz").status == 200, "both")


def test_a_flood_of_questions_keeps_no_client_out(unix):
    door, _ = unix
    before = metric(door, "ambroker_connections_accepted_total")
    began = time.monotonic()
    for _ in range(1000):
        check(door.get("/readyz").status == 200, "ready")
    came = metric(door, "ambroker_connections_accepted_total") - before
    check(came <= time.monotonic() - began + 2, f"{came} connections")


def test_a_door_whose_socket_is_gone_is_not_ready(unix):
    door, broker = unix
    os.unlink(broker.socket)
    answer = until(5, lambda: unavailable(door, "/readyz"), "it is tried again")
    check(b"No such file" in answer.body, answer.body)
    check(door.get("/healthz").status == 200, "a restart is not what it needs")


def test_the_socket_is_like_the_brokers_and_goes_with_it(rig):
    broker = rig.broker(socket_query="?mode=0666")
    path = f"{broker.socket}.http"
    check(stat.S_IMODE(os.stat(path).st_mode) == 0o666, "its mode")
    broker.signal(signal.SIGTERM)
    check(broker.wait() == 0 and not os.path.exists(path), "it is removed")
    # One that was killed leaves it, and the next one takes it over.
    broker = rig.broker(socket_query="?mode=0600")
    path = f"{broker.socket}.http"
    broker.kill()
    again = rig.broker(at=broker)
    check(Door(path=path).get("/readyz").status == 200, "taken over")
    check(again.is_running(), "alive")


def private_file(rig, name, text):
    path = rig.folder / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_with_users_it_is_the_owners(rig):
    users = private_file(rig, "users", "")
    broker = rig.broker("-o", f"auth.users={users}", tcp=False, socket_query="?mode=0666")
    check(stat.S_IMODE(os.stat(f"{broker.socket}.http").st_mode) == 0o600, "its mode")


def test_none_is_none(rig):
    broker = rig.broker("-o", "http.listen=none")
    check(not os.path.exists(f"{broker.socket}.http"), "there is a socket")


def has_name(door, path, more):
    return b"a.b" in door.get(path, more=more).body


def test_names_need_a_key_on_tcp(rig):
    key = private_file(rig, "key", "secret\n")
    door, broker = tcp(rig, "-o", f"http.token_file={key}")
    done = rig.client("broker-ctl", "pub", "a.b", "--count", "5", "--size", "9", "--url", broker.url("ring"))
    check(done.wait() == 0, done.log())
    for path in ("/v1/topics", "/metrics/per-object?kind=topics"):
        for more in ("", "Authorization: Bearer wrong\r\n", "Authorization: Basic secret\r\n"):
            answer = door.get(path, more=more)
            check(answer.status == 401 and answer.headers["www-authenticate"] == "Bearer", f"{path} {more}")
            check(b"a.b" not in answer.body, answer.body)
        bearer = "Authorization: Bearer secret\r\n"
        # Its figures are copied ten times a second.
        until(10, functools.partial(has_name, door, path, bearer), f"{path} has no a.b")
        wrong = path + ("&" if "?" in path else "?")
        for query in ("match=a..b", "match=a%00", "sort=nothing", "top=0", "top=x", "what=1", "match=a%20b"):
            check(door.get(wrong + query, more=bearer).status == 400, wrong + query)
    check(door.get("/v1/nothing", more=bearer).status == 404, "no such view")
    check(door.get("/metrics/per-object?kind=workers", more=bearer).status == 400, "no such kind")
    check(door.get("/metrics").status == 200, "open")


def test_off_loopback_names_are_not_there(rig):
    key = private_file(rig, "key", "secret\n")
    door, _ = tcp(rig, "-o", "http.insecure=true", "-o", f"http.token_file={key}")
    check(door.get("/v1/topics", more="Authorization: Bearer secret\r\n").status == 403, "a key in clear")


def test_users_that_a_reload_brings_close_names(rig):
    users = private_file(rig, "users", "")
    key = private_file(rig, "key", "secret\n")
    config = rig.folder / "broker.conf"
    config.write_text("")
    counters = rig.folder / "counters"
    door, broker = tcp(rig, "-o", f"http.token_file={key}", "-o", f"server.counters_file={counters}", "--config",
                       str(config))
    bearer = "Authorization: Bearer secret\r\n"
    check(door.get("/v1/topics", more=bearer).status == 200, "before")
    check(stat.S_IMODE(counters.stat().st_mode) == 0o640, "the group reads the counters")
    config.write_text(f'auth = {{ users = "{users}"; }};\n')
    broker.signal(signal.SIGHUP)
    until(10, lambda: "in force from now on: auth.users" in broker.log() or None, "it is in force")
    for path in ("/v1/topics", "/metrics/per-object?kind=topics"):
        until(10, lambda path=path: door.get(path, more=bearer).status == 403, path)
    check(door.get("/metrics").status == 200, "no names are there")
    until(10, lambda: stat.S_IMODE(counters.stat().st_mode) == 0o600, "so have the counters")


class Reloads:
    """A broker whose `http` is what its file says."""

    def __init__(self, rig, http):
        self.rig, self.config = rig, rig.folder / "broker.conf"
        self.write(http)
        self.broker = rig.broker("--config", self.config)

    def write(self, http):
        self.config.write_text(f"http = {{ {http} }};\n")

    def reload(self, http, words=None):
        """words: of a refusal."""
        self.write(http)
        done = subprocess.run([self.rig.program("broker-ctl"), "--url", self.broker.unix_url, "config", "reload"],
                              capture_output=True, text=True, timeout=30, check=False)
        check(done.returncode == (0 if words is None else 78) and (words or "") in done.stderr, f"{done}")
        return done.stdout

    def tcp(self):
        """The port that was opened last, by the log."""
        return Door(port=int(re.findall(r"http: tcp://[0-9.]+:(\d+)", self.broker.log())[-1]))


def is_refused(door):
    try:
        door.connect().close()
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    return False


def test_listeners_change_while_it_runs(rig):
    socket_path, loopback = rig.folder / "own.http", '"tcp://127.0.0.1:0"'
    world = Reloads(rig, f"listen = ( {loopback} );")
    first, unix_door = world.tcp(), Door(path=socket_path)
    check(first.get("/healthz").status == 200, "at start")
    changes = world.reload(f'listen = ( "unix://{socket_path}?mode=0600", {loopback} );')
    check("http.listen" in changes and "live" in changes, changes)
    until(10, lambda: not is_refused(unix_door) and unix_door.get("/healthz").status == 200, "a new one")
    check(stat.S_IMODE(socket_path.stat().st_mode) == 0o600, "its mode")
    check(world.tcp().port == first.port and first.get("/healthz").status == 200, "one that stays has its port")
    # A request that is under way where its listener goes is answered.
    with first.connect() as conn:
        conn.sendall(b"GET /healthz HTTP/1.1\r\n")
        world.reload(f'listen = ( "unix://{socket_path}?mode=0660" );')
        until(10, lambda: is_refused(first), "one that goes")
        conn.sendall(f"Host: {first.host}\r\n\r\n".encode())
        check(conn.recv(100).startswith(b"HTTP/1.1 200"), "it is answered")
    check(stat.S_IMODE(socket_path.stat().st_mode) == 0o660, "another mode")
    # What cannot be changes nothing.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        world.reload(f'listen = ( "tcp://127.0.0.1:0", "tcp://127.0.0.1:{taken.getsockname()[1]}" );', "in use by pid")
    own = f'"unix://{socket_path}?mode=0660"'
    world.reload(f'listen = ( {own}, "unix://{socket_path}?mode=0600" );', "in use by pid")
    world.reload(f'listen = ( {own}, "unix://{socket_path}2?group=amb-no-such-group" );', "no such group")
    check(not pathlib.Path(f"{socket_path}2").exists(), "one that is refused leaves its socket")
    world.reload('listen = ( "tcp://0.0.0.0:0" );', "http.insecure")
    check(unix_door.get("/healthz").status == 200, "the former one")
    world.reload('listen = ( "tcp://0.0.0.0:0" ); insecure = true;')
    everywhere = until(10, lambda: None if is_refused(world.tcp()) else world.tcp(), "off loopback")
    check(everywhere.get("/healthz").status == 200 and everywhere.get("/v1/topics").status == 403, "the open paths alone")
    until(10, lambda: not socket_path.exists(), "the socket's file")
    # None, and the one beside the broker's socket.
    beside = Door(path=f"{world.broker.socket}.http")
    world.reload('listen = "none";')
    until(10, lambda: is_refused(everywhere), "none")
    check(is_refused(beside), "none")
    world.reload("")
    until(10, lambda: not is_refused(beside), "auto")
    check(beside.get("/readyz").status == 200, "it is ready")


def test_keys_and_limits_change_while_it_runs(rig):
    keys = [private_file(rig, name, f"{name}\n") for name in ("one", "two")]
    listen = 'listen = ( "tcp://127.0.0.1:0" );'
    world = Reloads(rig, f'{listen} token_file = "{keys[0]}";')
    door = world.tcp()

    def answer(key, path="/v1/topics"):
        return door.get(path, more=f"Authorization: Bearer {key}\r\n").status
    check((answer("one"), answer("two")) == (200, 401), "at start")
    world.reload(f'{listen} token_file = "{keys[1]}";')
    until(10, lambda: (answer("one"), answer("two")) == (401, 200), "another file")
    pathlib.Path(keys[1]).write_text("three\n")
    changes = world.reload(f'{listen} token_file = "{keys[1]}";')
    check("http.token_file" in changes and "three" not in changes, changes)
    until(10, lambda: (answer("two"), answer("three")) == (401, 200), "other bytes in the same file")
    objects = "/metrics/per-object?kind=topics"
    check(answer("three", objects) == 200, "objects")
    world.reload(f'{listen} token_file = "{keys[1]}"; objects = 0;')
    until(10, lambda: answer("three", objects) == 404, "no objects")
    world.reload(f'{listen} token_file = "{keys[1]}"; hosts = ( "broker.example" );')
    until(10, lambda: door.get("/healthz", host="broker.example").status == 200, "another name")
    world.reload(listen)
    until(10, lambda: door.get("/healthz", host="broker.example").status == 403, "it is gone")


def test_views_are_json(unix):
    door, _ = unix
    for view in ("workers", "topics", "subs", "queues", "clients", "closed", "errors", "loss", "metrics", "status"):
        answer = Answer(door.raw(f"GET /v1/{view} HTTP/1.0\r\n\r\n".encode()))  # in one piece
        check(answer.headers["content-type"] == "application/json", answer.headers)
        body = json.loads(answer.body)
        check(view == "status" and "clients" in body or view in body, f"{view}: {body}")
        check(isinstance(body["units"], dict), f"{view}: {body}")


def run_broker(rig, *options):
    with tempfile.TemporaryDirectory(dir=rig.folder) as folder:
        return subprocess.run([rig.program("brokerd"), "--dev", "--listen", f"unix://{folder}/s", *options],
                              capture_output=True, text=True, timeout=30, check=False)


def test_listeners_that_cannot_be_end_the_start(rig):
    done = run_broker(rig, "-o", "http.listen=tcp://0.0.0.0:0")
    check(done.returncode == 78 and "http.insecure" in done.stderr, done.stderr)
    done = run_broker(rig, "-o", "http.listen=tls://127.0.0.1:0")
    check(done.returncode == 78 and "not encrypted" in done.stderr, done.stderr)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_broker(rig, "-o", f"http.listen=tcp://127.0.0.1:{taken.getsockname()[1]}")
        check(done.returncode == 69 and f"in use by pid {os.getpid()}" in done.stderr, done.stderr)
    # With auto it is left out, and the broker starts.
    folder = rig.folder / "taken"
    folder.mkdir()
    (folder / "s.http").write_text("not a socket")
    process = rig.start([rig.program("brokerd"), "--dev", "--listen", f"unix://{folder}/s"])
    process.expect("ready")
    check("http: none: " in process.log(), process.log())


def test_off_loopback_needs_a_word(rig):
    broker = rig.broker("-o", "http.listen=tcp://0.0.0.0:0", "-o", "http.insecure=true")
    port = int(until(5, lambda: re.search(r"http://0\.0\.0\.0:(\d+)", broker.log()), "an address in the log").group(1))
    check(Door(port=port).get("/metrics").status == 200, "there")


def test_it_burns_no_processor_when_nobody_asks(rig):
    broker = rig.broker()
    door = Door(path=f"{broker.socket}.http")
    with door.connect() as idle:
        idle.sendall(b"GET /")
        before = broker.cpu_seconds("amb-observer")
        time.sleep(2)
        used = broker.cpu_seconds("amb-observer") - before
        check(used < 0.02, f"{used:.3f} s of a processor in 2 s with half a request")
