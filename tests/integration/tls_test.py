# SPDX-License-Identifier: Apache-2.0
"""TLS from end to end: certificates of our own, wrong doors, silent peers, crowds, reloads. Of those who
listen or change bytes on the way tests/trust/wire.py has more, and of bad peers tests/trust/doors.py.

    tls_test.py
"""
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import time

import pytest
from encrypted import Encrypted, Folder
from harness import check, until

SECONDS = 240
USAGE, DATA, NO_BROKER, FORBIDDEN, CONFIG = 64, 65, 69, 77, 78


@pytest.fixture
def folder(rig):
    made = Folder(rig)
    made.make("init", "--name", "localhost", "--name", "127.0.0.1")
    return made


def test_files_of_our_own(rig, folder):
    """Keys are their owner's alone, and nothing is overwritten."""
    for file in ("ca.key", "server.key"):
        check(os.stat(folder(file)).st_mode & 0o777 == 0o600, f"{file} is 0600")
    before = pathlib.Path(folder("ca.key")).read_bytes()
    status, _, error = folder.tls("init")
    check(status == DATA and "is there already, and is left as it is" in error, error)
    check(pathlib.Path(folder("ca.key")).read_bytes() == before, "the authority's key has changed")
    made = folder.make("issue", "cam7")
    check(made["names"] == "cam7" and made["days_left"] in (364, 365), made)
    status, _, error = folder.tls("issue", "cam7")
    check(status == DATA and "is left as it is" in error, error)
    status, _, error = folder.tls("issue", "../cam8")
    check(status == USAGE and "is no name of a file" in error, error)
    pin = next(row["pin"] for row in folder.make("show") if row["file"].endswith("server.pem"))
    old = pathlib.Path(folder("server.pem")).read_bytes()
    for left in ("server.pem.new", ".server.pem.0123456789abcdef"):  # By programs that were killed.
        pathlib.Path(folder(left)).write_text("half")
    renewed = folder.make("renew", "--days", "30")
    check(renewed["pin"] == pin and renewed["days_left"] in (29, 30), renewed)
    check(pathlib.Path(folder("server.pem.1")).read_bytes() == old, "the old one is kept")
    check({pathlib.Path(row["file"]).name for row in folder.make("show")} ==
          {"ca.pem", "cam7.pem", "server.pem"}, "show has each pair")
    pathlib.Path(folder("cam7.pem")).write_text("spoilt\n")
    status, text, error = folder.tls("show")
    check(status == DATA and "cam7.pem" in error and error.count("\n") == 1, f"{status} {error}")
    check({pathlib.Path(row["file"]).name for row in json.loads(text)} == {"ca.pem", "server.pem"}, "show has the others")
    other = Folder(rig, "other")
    status, _, error = other.tls("issue", "cam7")
    check(status == DATA and "ca.pem cannot be read" in error, error)


def let_expire(folder, base):
    """The same certificate, whose time is over since yesterday."""
    subprocess.run(["openssl", "x509", "-in", folder(f"{base}.pem"), "-signkey", folder(f"{base}.key"),
                    "-days", "-1", "-out", folder(f"{base}.pem")],
                   capture_output=True, timeout=30, check=True)


def test_files_that_have_expired(rig, folder):
    """Who is late can renew all the same: the authority first."""
    let_expire(folder, "server")
    left = {pathlib.Path(row["file"]).name: row["days_left"] for row in folder.make("show")}
    check(left["server.pem"] < 0 < left["ca.pem"], left)
    check(folder.make("renew")["days_left"] in (364, 365), "the broker's is renewed")
    let_expire(folder, "ca")
    for command in (("issue", "cam7"), ("renew",)):
        status, _, error = folder.tls(*command)
        check(status == DATA and "ca.pem has expired: renew it first" in error, error)
    folder.make("renew", "ca")
    folder.make("issue", "cam7")


def test_who_is_at_the_door(rig, folder):
    """By authority, by pin, by name; and the sentence for each broker that is another one."""
    broker = Encrypted(rig, folder)
    broker.works()
    broker.works(url=broker.url.replace("127.0.0.1", "localhost"))
    broker.works(url=broker.url + "?link=stream")
    shown = {row["name"]: (row["protocol"], row["suite"]) for row in broker.broker.ask("clients")}
    check(shown == {"asker": ("", "")}, f"a client by a Unix socket: {shown}")
    held = rig.client("broker-ctl", "--url", broker.url, "--client-name", "encrypted", "sub", "a",
                      env=broker.env)
    until(20, lambda: broker.broker.ask("subs"), "it has subscribed")
    shown = {row["name"]: (row["protocol"], row["suite"]) for row in broker.broker.ask("clients")}
    check(shown["encrypted"] == ("TLS 1.3", "TLS_AES_128_GCM_SHA256"), shown)
    rows = [row for row in broker.broker.ask("paths") if row["name"] == "encrypted"
            and row["class"] == "large"]
    check(len(rows) == 2 and all("encryption" in row["expected_by"] and row["expected_rate_bytes"] > 0
                                 for row in rows), rows)
    held.kill()
    other = Folder(rig, "other")
    pins = {}
    for name in (folder, other):
        if name is other:
            other.make("init", "--name", "localhost")
        pins[name] = next(row["pin"] for row in name.make("show") if "server" in row["file"])
    broker.works(url=f"{broker.url}?pin={pins[folder]}", env={"AMB_CA": ""})
    broker.fails(NO_BROKER, ["has another public key than the pin says"],
                 url=f"{broker.url}?pin={pins[other]}")
    broker.fails(NO_BROKER, ["the broker's certificate is unknown", "AMB_CA"],
                 env={"AMB_CA": other("ca.pem")})
    broker.fails(USAGE, ["AMB_CA", "cannot be read"], env={"AMB_CA": folder("none.pem")})
    broker.fails(FORBIDDEN, ["not authenticated"], env={"AMB_CREDENTIALS": folder("ca.pem")})
    broker.broker.stop()
    broker = Encrypted(rig, other)
    broker.fails(NO_BROKER, ["is for localhost, and not for 127.0.0.1"])
    broker.works(url=broker.url.replace("127.0.0.1", "localhost"))
    broker.broker.stop()


def test_wrong_doors(rig, folder):
    broker = Encrypted(rig, folder)
    tcp = broker.broker.tcp_url
    broker.fails(NO_BROKER, ["is it a tls:// listener?"], url=f"tcp://127.0.0.1:{broker.port}")
    broker.fails(NO_BROKER, ["is it a tcp:// listener?"], url=tcp.replace("tcp:", "tls:"))
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"AMBK" + bytes(60), b"\xff" * 5000):
        with broker.connect() as plain:
            plain.sendall(garbage)
            try:
                check(plain.recv(100) == b"", "plain bytes at an encrypted door get no answer")
            except ConnectionResetError:
                pass
    broker.says("the client does not speak TLS")
    status = broker.broker.ask("status")
    check(status["tls_plain"] == 4 and status["tls_handshakes"] == 0, status)
    for options, words in ((["-tls1_2"], "alert protocol version"),
                           (["-tls1_3", "-alpn", "h2"], "alert no application protocol"),
                           (["-tls1_3", "-alpn", "amb/1", "-CAfile", folder("ca.pem")],
                            "Verify return code: 0 (ok)")):
        done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{broker.port}",
                               *options], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=20, check=False)
        text = (done.stdout + done.stderr).decode(errors="replace")
        check(words in text, f"{options}: nothing of '{words}' in {text}")
    broker.works()
    broker.broker.stop()


def test_certificates_of_clients(rig, folder):
    """Required instead of a token; a revoked one does not come in after a reload."""
    broker = Encrypted(rig, folder, clients="required", token=False)
    folder.make("issue", "cam7")
    cam7 = {"AMB_CERTIFICATE": folder("cam7.pem"), "AMB_KEY": folder("cam7.key")}
    broker.works(env=cam7)
    broker.fails(FORBIDDEN, ["wants a certificate, and there is none"])
    other = Folder(rig, "other")
    other.make("init")
    other.make("issue", "cam7")
    broker.fails(FORBIDDEN, ["does not know the authority of our certificate"],
                 env={"AMB_CERTIFICATE": other("cam7.pem"), "AMB_KEY": other("cam7.key")})
    os.chmod(folder("cam7.key"), 0o640)
    broker.fails(USAGE, ["environment AMB_KEY: client.key: ", "can be read by others"], env=cam7)
    broker.broker.stop()


def test_silent_peers_are_closed_at_the_deadline(rig, folder):
    broker = Encrypted(rig, folder, "-o", "server.handshake_timeout=1s")
    before = len(os.listdir(f"/proc/{broker.broker.pid}/fd"))
    silent = [broker.connect() for _ in range(20)]
    for at, peer in enumerate(silent):
        peer.sendall((b"", b"\x16", b"\x16\x03\x01\x02\x00\x01")[at % 3])
    slow = broker.connect()
    began = time.monotonic()
    hello = iter(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200))
    while time.monotonic() - began < 10:
        try:
            slow.sendall(bytes([next(hello)]))
        except OSError:
            break
        if select.select([slow], [], [], 0.1)[0]:
            break
    check(0.5 < time.monotonic() - began < 8, "a byte now and then does not keep a connection")
    for peer in silent:
        peer.settimeout(20)
        try:
            check(peer.recv(100) == b"", "a silent peer got an answer")
        except ConnectionResetError:
            pass
        peer.close()
    slow.close()
    broker.works()
    until(20, lambda: len(os.listdir(f"/proc/{broker.broker.pid}/fd")) <= before + 1,
          "their descriptors are closed")
    broker.broker.stop()


def test_a_crowd_in_handshakes_pushes_out_its_own(rig, folder):
    """More connections than may be half open, all silent: an honest client comes in all the same."""
    broker = Encrypted(rig, folder, "-o", "server.handshake_timeout=30s")
    crowd = []
    for _ in range(700):
        crowd.append(broker.connect())
    broker.works()
    for peer in crowd:
        peer.close()
    broker.works()
    broker.broker.stop()


def a_hello():
    """The first bytes of a client of another make."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = subprocess.Popen(["openssl", "s_client", "-tls1_3", "-alpn", "amb/1", "-connect",
                                   f"127.0.0.1:{listener.getsockname()[1]}"],
                                  stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        peer, _ = listener.accept()
        hello = peer.recv(4096)
        peer.close()
        client.kill()
        client.wait()
        client.stdin.close()
    check(hello[:1] == b"\x16", "it begins with a handshake")
    return hello


def test_hellos_that_come_faster_than_handshakes_are_done(rig, folder):
    """Each costs a signature. They wait in the kernel, and not as descriptors of the broker."""
    broker = Encrypted(rig, folder)
    fds = f"/proc/{broker.broker.pid}/fd"
    hello, crowd, most = a_hello(), [], 0
    before = len(os.listdir(fds))
    for number in range(8000):
        peer = socket.socket()
        peer.setblocking(False)
        peer.connect_ex(("127.0.0.1", broker.port))
        crowd.append(peer)
        if number % 200 == 199:
            for peer in crowd[-400:]:
                try:
                    peer.sendall(hello)
                except OSError:
                    pass
            for peer in crowd[-800:-600]:
                peer.close()
            most = max(most, len(os.listdir(fds)))
    check(most <= before + 512 + 3 * 64, f"{most} descriptors, of which {before} were open before")
    for peer in crowd:
        peer.close()
    broker.works()
    broker.broker.stop()


def test_a_file_has_all_that_a_client_needs(rig, folder):
    """AMB_CONFIG alone: URL, authority, the client's own certificate and key."""
    broker = Encrypted(rig, folder, clients="required", token=False)
    folder.make("issue", "cam7")
    config = rig.folder / "client.conf"
    text = (f'client = {{ url = "{broker.url}"; ca = "{folder("ca.pem")}";\n'
            f'    certificate = "{folder("cam7.pem")}"; key = "{folder("cam7.key")}"; }};\n')

    def publish(content):
        config.write_text(content)
        environment = {**os.environ, "AMB_CONFIG": str(config), "AMB_URL": "", "AMB_CA": ""}
        done = subprocess.run([rig.program("broker-ctl"), "pub", "fine", "--timeout", "5"],
                              input=b"x", capture_output=True, timeout=30, check=False,
                              env=environment)
        return done.returncode, done.stderr.decode()

    status, error = publish(text)
    check(status == 0, error)
    status, error = publish(text.replace("cam7.key", "none.key"))
    check(status == USAGE and f"{config}:2: client.key: " in error, f"{status} {error}")
    status, error = publish(text.replace("certificate", 'server_name = "other.example"; certificate'))
    check(status == NO_BROKER and "not for other.example" in error, f"{status} {error}")
    broker.broker.stop()


def test_reloads(rig, folder):
    """Another certificate is in use from the next handshake on; a spoilt one changes nothing."""
    config = rig.folder / "broker.conf"
    token = rig.folder / "token"
    text = (f'tls = {{ certificate = "{folder("server.pem")}"; key = "{folder("server.key")}"; }};\n'
            f'auth = {{ token_file = "{token}"; }};\n')
    config.write_text(text)
    broker = Encrypted(rig, folder, "--config", str(config))
    holder = rig.client("broker-ctl", "--url", broker.url, "sub", "stays.>", "--count", 1,
                        env=broker.env)
    until(20, lambda: broker.broker.ask("subs"), "it has subscribed")

    def reload(words):
        said = broker.broker.log().count(words)
        broker.broker.signal(signal.SIGHUP)
        until(20, lambda: broker.broker.log().count(words) > said, f"it says '{words}'")

    reload("the configuration is valid and unchanged")
    listener = rig.client("broker-ctl", "--url", broker.broker.unix_url, "sub", "$SYS.tls.>",
                          "--count", 1)
    until(20, lambda: len(broker.broker.ask("subs")) == 2, "somebody listens to events")
    folder.make("renew", "--days", "10")
    doctor = {row["check"]: row for row in broker.broker.ask("doctor")
              if row["state"] == "warning" and row["check"].startswith("tls")}
    check("is newer than what is in use" in doctor["tls certificate"]["finding"], doctor)
    reload("in force from now on: files of tls")
    broker.works()
    event = json.loads(listener.line())
    check(event["key"] == "certificate" and event["days_left"] in (9, 10), event)
    broker.says(f"server.pem expires in {event['days_left']} days")
    good = pathlib.Path(folder("server.pem")).read_bytes()
    pathlib.Path(folder("server.pem")).write_bytes(good[:300])
    reload("reload refused, the configuration in force stays")
    broker.says("server.pem has")
    broker.works()
    pathlib.Path(folder("server.pem")).write_bytes(good)
    os.chmod(folder("server.key"), 0o644)
    reload("reload refused, the configuration in force stays")
    os.chmod(folder("server.key"), 0o600)
    broker.works()
    reload("in force from now on: files of tls")  # Of the same bytes, and of another time.
    found = [row["finding"] for row in broker.broker.ask("doctor") if "newer" in row["finding"]]
    check(not found, f"what is in use is no newer than itself: {found}")
    status, _, text = broker.ctl("pub", "stays.a")
    check(status == 0 and holder.wait() == 0, f"a session from before: {text} {holder.log()}")
    broker.broker.stop()


def test_starts_that_are_refused(rig, folder):
    """Exit 78, and no socket was opened."""
    listen = ("--listen", "tls://127.0.0.1:0")
    own = ("-o", f"tls.certificate={folder('server.pem')}", "-o", f"tls.key={folder('server.key')}")
    for arguments, words in (
            ((*listen, "-o", "tls.clients=none"),  # With nothing said --dev makes all of it.
             "tls.certificate: is missing: tls://127.0.0.1:0 needs it"),
            ((*listen, *own), "would let in everybody: set auth.users, auth.token_file"),
            ((*listen, *own, "-o", "tls.clients=required"), "tls.ca: is missing"),
            ((*listen, *own, "-o", "tls.clients=required", "-o", "tls.ca=/none"),
             "/none cannot be read"),
            ((*listen, own[0], own[1], "-o", f"tls.key={folder('ca.key')}", "-o", "auth.token=a"),
             "does not fit the certificate")):
        done = subprocess.run([rig.program("brokerd"), "--dev", *arguments], capture_output=True,
                              timeout=30, check=False)
        text = done.stderr.decode()
        check(done.returncode == CONFIG and words in text, f"{arguments}: {done.returncode} {text}")
