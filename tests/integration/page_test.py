# SPDX-License-Identifier: Apache-2.0
"""The page of a brokerd: who gets it, by what key, and broker-ctl page. tests/system/page.py looks at it with a
browser."""
import contextlib
import gzip
import http.client
import re
import signal
import socket
import subprocess
import time

import pytest
from http_doors import Door, metric, tcp
from harness import check, until

BEARER = "Authorization: Bearer secret\r\n"


def key_file(rig):
    path = rig.folder / "key"
    path.write_text("secret\n")
    path.chmod(0o600)
    return path


def page(rig, broker, *more, **options):
    """broker-ctl page as a process, and the address that it prints."""
    process = rig.client("broker-ctl", "page", *more, "--url", broker.url("ring"), **options)
    url = re.fullmatch(r"http://(127\.0\.0\.1):(\d+)(/\?key=[0-9a-f]{32})", process.line().strip())
    return process, int(url.group(2)), url.group(3)


def cookie_of(answer):
    return f"Cookie: x=y; {answer.headers['set-cookie'].split(';')[0]}\r\n"


def is_page(answer):
    return answer.status == 200 and b"<!doctype html>" in answer.body and b"</html>" in answer.body


def test_on_a_unix_socket_it_is_there(rig):
    broker = rig.broker()
    door = Door(path=f"{broker.socket}.http")
    plain = door.get("/")
    if plain.status == 404 and b"built without the page" in plain.body:
        pytest.skip("built without the page")
    packed = door.get("/", more="Accept-Encoding: gzip, deflate\r\n")
    check(is_page(plain) and plain.headers["content-type"] == "text/html; charset=utf-8", plain.headers)
    check(packed.headers["content-encoding"] == "gzip" and gzip.decompress(packed.body) == plain.body, "gzip")
    check(len(packed.body) <= 60 * 1024, f"{len(packed.body)} bytes")
    policy = plain.headers["content-security-policy"]
    check("default-src 'none'" in policy and policy.count("'sha256-") == 4 and "unsafe" not in policy, policy)
    check("set-cookie" not in plain.headers, "nobody has asked for a cookie")
    # Nothing is fetched from elsewhere, and the page has no figure of its own.
    own = plain.body.split(b"<script>")[-1]
    check(b"http://" not in own and b"https://" not in own and b"innerHTML" not in own, "its own script")


def test_a_key_of_the_command_works_once(rig):
    door, broker = tcp(rig)
    process, port, target = page(rig, broker)
    check(process.wait() == 0 and port == door.port, process.log())
    for path in ("/", "/v1/topics", "/v1/events?view=status", "/?key=", "/?key=" + "0" * 32, f"/v1/topics{target[1:]}"):
        check(door.get(path).status == 401, path)
    first = door.get(target)
    check(is_page(first), first.status)
    check(re.fullmatch(r"ambroker-[0-9a-f]{8}=[0-9a-f]{80}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict",
                       first.headers["set-cookie"]), first.headers)
    check(door.get(target).status == 401, "a second time")
    cookie = cookie_of(first)
    for path in ("/", "/v1/topics", "/v1/transports", "/metrics/per-object?kind=topics"):
        check(door.get(path, more=cookie).status == 200, path)
    check(door.get("/v1/topics", more=cookie[:-5] + "0000\r\n").status == 401, "another cookie")
    check(door.get("/", host="evil.example", more=cookie).status == 403, "another host")
    check(door.get("/", more=cookie).headers.get("set-cookie") is None, "no second one")


def test_a_cookie_outlives_the_broker_with_a_token_file(rig):
    key = key_file(rig)
    door, broker = tcp(rig, "-o", f"http.token_file={key}")
    check(is_page(door.get("/", more=BEARER)), "a token opens it, too")
    _, _, target = page(rig, broker)
    cookie = cookie_of(door.get(target))
    broker.stop()
    rig.broker("-o", f"http.listen=tcp://127.0.0.1:{door.port}", "-o", f"http.token_file={key}", at=broker)
    check(door.get("/v1/topics", more=cookie).status == 200, "the same token")
    check(door.get(target).status == 401, "a key is of one life")


def test_keys_are_bounded(rig):
    door, broker = tcp(rig)
    targets = [page(rig, broker)[2] for _ in range(17)]
    check(door.get(targets[0]).status == 401, "the eldest one has gone")
    check(all(is_page(door.get(target)) for target in targets[1:]), "16 are out")


def test_a_port_leads_to_a_unix_socket(rig):
    broker = rig.broker()
    process, port, target = page(rig, broker)
    door = Door(port=port)
    for path in ("/", "/metrics", "/healthz", "/?key=" + "0" * 32):
        check(door.get(path).status == 401, path)
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}"):
        check(door.get(target, host=host).status == 403, host)
    check(door.get(target, method="POST").status == 405, "POST")
    check(door.raw(b"x" * 9000).startswith(b"HTTP/1.1 431"), "9 KiB of head")
    check(door.raw(b"GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n").startswith(b"HTTP/1.1 405"), "a NUL")
    first = door.get(target)
    check(first.status == 200 and first.headers["refresh"] == "0; url=/", first.headers)
    check(door.get(target).status == 401, "a second time")
    cookie = cookie_of(first)
    check(is_page(door.get("/", more=cookie)), "the page")
    check(door.get("/v1/status", host=f"localhost:{port}", more=cookie).status == 200, "by its other name")
    # Behind a request nothing more is heard.
    request = f"GET /healthz HTTP/1.1\r\nHost: {door.host}\r\n{cookie}\r\n"
    check(door.raw((request * 3).encode()).count(b"HTTP/1.1 ") == 1, "one answer")
    process.signal(signal.SIGTERM)
    check(process.wait() == 0, process.log())
    with pytest.raises(ConnectionRefusedError):
        door.connect()


def test_a_port_outlives_the_broker(rig):
    broker = rig.broker()
    _, port, target = page(rig, broker)
    door = Door(port=port)
    cookie = cookie_of(door.get(target))
    broker.stop()
    answer = door.get("/v1/events?view=status", more=cookie)
    check(answer.headers["content-type"] == "text/event-stream" and answer.body == b"retry: 1000\n\n", answer.body)
    check(door.get("/", more=cookie).status == 503, "it says so")
    rig.broker(at=broker)
    check(is_page(door.get("/", more=cookie)), "it is there again")


def test_a_port_takes_as_many_connections_as_the_broker(rig):
    broker = rig.broker()
    process, port, target = page(rig, broker)
    door = Door(port=port)
    cookie = cookie_of(door.get(target))
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(door.connect()).sendall(b"GET /")
        check(is_page(door.get("/", more=cookie)), "half requests make room")
    # A large answer whose reader is slow comes whole.
    with door.connect() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(f"GET / HTTP/1.1\r\nHost: {door.host}\r\n{cookie}\r\n".encode())
        answer = http.client.HTTPResponse(slow)
        answer.begin()
        body = b""
        while piece := answer.read(2000):
            body += piece
            if len(body) < 20000:
                time.sleep(0.02)
        check(body.endswith(b"</html>\n"), f"{len(body)} bytes")
    used = process.cpu_seconds()
    time.sleep(1)
    check(process.cpu_seconds() - used < 0.05, "it waits")


def test_with_users_the_page_is_on_the_socket_alone(rig):
    users = rig.folder / "users"
    users.write_text("")
    users.chmod(0o600)
    config = rig.folder / "broker.conf"
    config.write_text("")
    door, broker = tcp(rig, "--config", str(config))
    _, _, target = page(rig, broker)
    config.write_text(f'auth = {{ users = "{users}"; }};\n')
    broker.signal(signal.SIGHUP)
    until(10, lambda: "in force from now on: auth.users" in broker.log() or None, "it is in force")
    until(10, lambda: door.get("/").status == 403, "no names on TCP")
    check(door.get(target).status == 403, "whatever the key")


def run_page(rig, url, *more):
    return subprocess.run([rig.program("broker-ctl"), "page", "--url", url, *more], capture_output=True, text=True,
                          timeout=30, check=False)


def test_where_there_is_no_page_it_says_why(rig):
    broker = rig.broker("-o", "http.listen=none")
    done = run_page(rig, broker.url("ring"))
    check(done.returncode != 0 and "http.listen" in done.stderr and not done.stdout, done.stderr)
    door, broker = tcp(rig)
    done = run_page(rig, broker.url("ring"), "--port", "0")
    check(done.returncode == 69 and "Unix socket" in done.stderr, done.stderr)
    done = run_page(rig, broker.url("ring"), "--port", "65536")
    check(done.returncode == 64, done.stderr)
    check(metric(door, "ambroker_http_requests_total") is not None, "alive")
    broker = rig.broker()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_page(rig, broker.url("ring"), "--port", str(taken.getsockname()[1]))
        check(done.returncode == 69 and "in use" in done.stderr, done.stderr)


def test_where_no_listener_could_be_opened_users_are_not_blamed(rig):
    taken = rig.folder / f"broker-{rig.started}.sock.http"
    taken.mkdir()  # where the broker would have its socket
    broker = rig.broker()
    done = run_page(rig, broker.url("ring"))
    check(done.returncode != 0 and "no listener for the page" in done.stderr, done.stderr)
