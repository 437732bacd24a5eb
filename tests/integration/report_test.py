# SPDX-License-Identifier: Apache-2.0
"""broker-ctl report: its archive is whole, private, and has none of the secrets of a broker.

Each place that can have a secret gets a word of its own, and each word is looked for in the archive: as it is,
in base64, in hexadecimal, and the parts of keys."""
import base64
import io
import json
import os
import pathlib
import signal
import stat
import subprocess
import tarfile
import tempfile

import pytest
from harness import check, until

USAGE, DATA, SOFTWARE = 64, 65, 70
FOLDER = "ambroker-report/"
VIEWS = ("status", "workers", "topics", "subs", "queues", "clients", "closed", "memory", "metrics", "transports", "paths",
         "quotas", "doctor", "topo", "blocked", "errors", "loss")
COUNTED = ("status", "workers", "topics", "subs", "queues", "clients", "closed", "metrics", "errors", "loss")
SECONDS = 120


@pytest.fixture
def folder():
    """In memory: there a broker makes its counters file by itself."""
    with tempfile.TemporaryDirectory(prefix="amb-report-", dir="/dev/shm") as name:
        yield pathlib.Path(name)


def report(rig, *arguments, code=0, env=None, cwd=None):
    done = subprocess.run([rig.program("broker-ctl"), "report", *map(str, arguments)], capture_output=True, timeout=60,
                          check=False, stdin=subprocess.DEVNULL, cwd=cwd or rig.folder,
                          env={**os.environ, **rig.env, **(env or {})})
    check(done.returncode == code, f"{arguments}: {done}")
    return done


def parts(archive):
    """Name and bytes of each file of an archive."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
        members = tar.getmembers()
        for member in members:
            check(member.isreg() and member.mode == 0o600 and member.uid == 0 and member.name.startswith(FOLDER), member)
        return {member.name[len(FOLDER):]: tar.extractfile(member).read() for member in members}


def broker_in(rig, folder, *arguments, env=None):
    broker = rig.start([rig.program("brokerd"), "--dev", "--listen", f"unix://{folder}/s", *arguments], env=env)
    broker.expect("ready")
    return broker, f"unix://{folder}/s"


def publish(rig, url, topic, text, **options):
    process = rig.client("broker-ctl", "--url", url, "pub", topic, text, "--stats", "--hold", **options)
    while not process.line().startswith("messages"):
        pass
    return process


def test_what_is_in_it(rig, folder):
    broker, url = broker_in(rig, folder)
    publish(rig, url, "hall.a", "x")
    config = folder / "broker.conf"
    config.write_text("limits = { max_topics = 77; };\n")
    done = report(rig, "--url", url, "--config", config, cwd=folder)
    name = done.stdout.decode().strip()
    check(name.startswith("ambroker-report-2") and name.endswith(".tar"), name)
    path = folder / name
    check(stat.S_IMODE(path.stat().st_mode) == 0o600, "its mode")
    found = parts(path.read_bytes())
    check({f"views/{view}.json" for view in VIEWS} <= found.keys(), found.keys())
    check(json.loads(found["views/topics.json"])["topics"][0]["topic"] == "hall.a", found["views/topics.json"])
    check(len(json.loads(found["views/metrics.json"])["metrics"]) > 50, "the metrics")
    check(json.loads(found["views/doctor.json"])["doctor"], "the doctor")
    versions, system = json.loads(found["versions.json"]), json.loads(found["system.json"])
    check(versions["broker_ctl"] == versions["broker"] and versions["ucx_of_broker"], versions)
    check(system["kernel"]["release"] == os.uname().release and system["processors"]["online"] >= 1, system)
    check(any(line.startswith("MemTotal") for line in system["memory"]), system)
    check(any(line.startswith("Max open files") for line in system["broker"]["limits"]), system)
    check(b"max_topics = 77" in found["config.txt"] and b"no message, no token" in found["README.txt"], found["README.txt"])
    check(b"has not answered" not in found["README.txt"], found["README.txt"])
    # Other programs read it, too.
    listed = subprocess.run(["tar", "-tf", path], capture_output=True, text=True, check=True).stdout.split()
    check(set(listed) == {FOLDER + part for part in found}, listed)


def test_nothing_is_overwritten(rig, folder):
    broker, url = broker_in(rig, folder)
    path = folder / "report.tar"
    path.write_text("theirs")
    done = report(rig, "--url", url, path, code=DATA)
    check(b"--force overwrites it" in done.stderr and path.read_text() == "theirs", done)
    report(rig, "--url", url, path, "--force")
    check(stat.S_IMODE(path.stat().st_mode) == 0o600 and "README.txt" in parts(path.read_bytes()), "the new one")
    other = folder / "other"
    other.write_text("theirs")
    link = folder / "link.tar"
    link.symlink_to(other)
    for options in ((), ("--force",)):
        report(rig, "--url", url, link, *options, code=DATA)
    check(other.read_text() == "theirs", "behind a link")
    report(rig, "--url", url, folder / "none" / "report.tar", code=SOFTWARE)
    check(sorted(name.name for name in folder.iterdir() if "tar" in name.name) == ["link.tar", "report.tar"], "what is left")


def test_standard_output(rig, folder):
    broker, url = broker_in(rig, folder)
    check("README.txt" in parts(report(rig, "--url", url, "-").stdout), "an archive")
    done = subprocess.run(f"{rig.program('broker-ctl')} report --url {url} - > /dev/full", shell=True, capture_output=True,
                          text=True, timeout=60, check=False)
    check(done.returncode == SOFTWARE and done.stderr.count("broker-ctl: ") >= 1, done)


def test_a_broker_that_does_not_answer(rig, folder):
    broker, url = broker_in(rig, folder)
    publisher = publish(rig, url, "hall.a", "x")
    until(10, lambda: b"hall.a" in subprocess.run([rig.program("broker-ctl"), "--file", f"{folder}/s.counters", "topics"],
                                                  capture_output=True, check=False).stdout, "no figures yet")
    broker.signal(signal.SIGSTOP)
    done = report(rig, "--url", url, "--timeout", "500ms", "-")
    check(b"so views are of its counters file" in done.stderr, done.stderr)
    found = parts(done.stdout)
    there = {name[6:-5] for name in found if name.startswith("views/")}
    check(there == set(COUNTED), there)
    check(b"hall.a" in found["views/topics.json"] and b"The broker has not answered" in found["README.txt"], found["README.txt"])
    check(b"views/doctor.json is not there: a counters file does not have that" in found["README.txt"], found["README.txt"])
    publisher.kill()
    broker.kill()
    found = parts(report(rig, "--url", url, "-").stdout)
    check(b"is gone; last active" in found["README.txt"] and "views/topics.json" in found, found["README.txt"])
    found = parts(report(rig, "--file", f"{folder}/s.counters", "-").stdout)
    check(b"is gone; last active" in found["README.txt"] and "views/topics.json" in found, found["README.txt"])


def test_without_any_broker(rig, folder):
    done = report(rig, "--url", f"unix://{folder}/none", "-")
    found = parts(done.stdout)
    check({"README.txt", "system.json", "versions.json"} <= found.keys(), found.keys())
    check(not any(name.startswith("views/") for name in found), found.keys())
    check(b"there are no views" in found["README.txt"] and b"No such file" in found["README.txt"], found["README.txt"])


def test_lines_that_are_wrong(rig, folder):
    (folder / "random").write_bytes(os.urandom(100000))
    report(rig, "--file", folder / "random", "-", code=DATA)
    report(rig, "--url", "nonsense:", folder / "report.tar", code=USAGE)
    report(rig, "a", "b", code=USAGE)
    check(b"takes its name without an option" in report(rig, "-o", folder / "x.tar", code=USAGE).stderr, "-o")
    check([name.name for name in folder.iterdir()] == ["random"], "what is left")
    (folder / "wrong.conf").write_text('auth = { token = "canary-of-a-wrong-file"; nonsense = 1; };\n')
    found = parts(report(rig, "--url", f"unix://{folder}/none", "--config", folder / "wrong.conf", "-").stdout)
    check("config.txt" not in found and b"config.txt is not there" in found["README.txt"], found["README.txt"])
    check(not any(b"canary" in text for text in found.values()), "the secret of a wrong file")


# ---- secrets ----

class Secrets:
    """Words that must be nowhere, by their place."""

    def __init__(self):
        self.words = {}

    def word(self, place):
        self.words[place] = f"canary-{place}-{len(self.words)}-{os.urandom(6).hex()}"
        return self.words[place]

    def file(self, path, place, mode=0o600):
        """A file with a secret in it, and nothing else."""
        path.write_text(self.word(place) + "\n")
        path.chmod(mode)
        return path

    def contents(self, place, path):
        """Each line of a file of secrets, but for the frames of PEM."""
        for number, line in enumerate(path.read_text().splitlines()):
            if len(line) > 20 and not line.startswith("-----"):
                self.words[f"{place}:{number}"] = line.strip()

    def check_absent(self, archive):
        texts = {"the archive": archive, **parts(archive)}
        for place, word in self.words.items():
            forms = (word.encode(), base64.b64encode(word.encode()), word.encode().hex().encode(), word[::-1].encode())
            for name, text in texts.items():
                for form in forms:
                    check(form not in text, f"the secret of {place} is in {name}")


def test_no_secret_is_in_it(rig, folder):
    """Of a broker with a token by its configuration, by its command line, and by a file, with certificates."""
    secrets = Secrets()
    certificates = folder / "certificates"
    certificates.mkdir()
    subprocess.run([rig.program("broker-ctl"), "tls", "init", "--dir", certificates, "--name", "127.0.0.1"], check=True,
                   capture_output=True, timeout=60)
    for name in ("ca.key", "server.key"):
        secrets.contents(name, certificates / name)
    token_file = secrets.file(folder / "token", "auth.token_file")
    http_file = secrets.file(folder / "http.key", "http.token_file")
    credentials = folder / "camera.key"
    subprocess.run([rig.program("broker-ctl"), "key", "new", credentials, "--user", "camera"], check=True,
                   capture_output=True, timeout=30)
    secrets.contents("credentials", credentials)
    environment = {name: secrets.word(name) for name in
                   ("AMB_TOKEN", "AMB_PASSWORD", "UCX_CANARY", "CANARY", "NVIDIA_CANARY", "LD_CANARY", "XDG_CANARY")}
    config = folder / "broker.conf"
    common = (f'tls = {{ certificate = "{certificates}/server.pem"; key = "{certificates}/server.key"; }};\n'
              f'http = {{ token_file = "{http_file}"; }};\n')
    config.write_text(f'auth = {{ token = "{secrets.word("auth.token")}"; }};\n{common}')
    config.chmod(0o600)
    with_file = folder / "file.conf"
    with_file.write_text(f'auth = {{ token_file = "{token_file}"; }};\n{common}')
    for number, (place, options) in enumerate((
        ("config", ("--config", config)),
        ("file", ("--config", with_file)),
        ("line", ("-o", f"auth.token={secrets.word('command line')}", "--config", config)),
    )):
        here = folder / f"run-{number}"
        here.mkdir()
        broker, url = broker_in(rig, here, "--listen", "tls://127.0.0.1:0", *map(str, options), env=environment)
        payload = secrets.word(f"payload {place}")
        publish(rig, url, "hall.a", payload, env=environment)
        holder = rig.client("broker-ctl", "--url", url, "--credentials", token_file, "--client-name", "holder", "sub", "hall.>",
                            "--stats", env=environment)
        archive = report(rig, "--url", url, "--credentials", token_file, "--config", options[options.index("--config") + 1],
                         "-", env=environment).stdout
        secrets.check_absent(archive)
        found = parts(archive)
        check("config.txt" in found and "views/clients.json" in found, found.keys())
        check(b"AMB_TOKEN" in found["system.json"], "names of variables")
        broker.signal(signal.SIGSTOP)
        secrets.check_absent(report(rig, "--url", url, "--timeout", "300ms", "--config", config, "-", env=environment).stdout)
        broker.signal(signal.SIGCONT)
        for process in (holder, broker):
            process.kill()


def test_no_secret_of_users_is_in_it(rig, folder):
    secrets = Secrets()
    users, key = folder / "users", folder / "admin.key"
    subprocess.run([rig.program("broker-ctl"), "user", "add", "admin", "--file", users, "--role", "admin", "--new-key", key],
                   check=True, capture_output=True, timeout=30)
    secrets.contents("key of a user", key)
    for number, line in enumerate(users.read_text().splitlines()):
        for word in line.split():
            if len(word) > 20:
                secrets.words[f"users:{number}"] = word
    config = folder / "broker.conf"
    config.write_text(f'auth = {{ users = "{users}"; }};\n'
                      'roles = ( { name = "admin"; publish = ( ">" ); subscribe = ( ">" ); admin = "operate"; } );\n')
    broker, url = broker_in(rig, folder, "--config", str(config))
    archive = report(rig, "--url", url, "--credentials", key, "--config", config, "-").stdout
    found = parts(archive)
    check("views/clients.json" in found, found["README.txt"])
    secrets.check_absent(archive)
    check(len(secrets.words) >= 1, "no secret was looked for")


def test_no_secret_of_a_reload_is_in_it(rig, folder):
    """Tokens that a reload and a command have refused stand in errors and events of the broker by their keys alone."""
    secrets = Secrets()
    config = folder / "broker.conf"

    def write(text):
        config.write_text(text + "\n")
        config.chmod(0o600)

    write(f'auth = {{ token = "{secrets.word("first")}"; }};')
    broker, url = broker_in(rig, folder, "--config", str(config))
    for number, text in enumerate((
        f'auth = {{ token = "{secrets.word("too long")}{"x" * 300}"; }};',
        f'auth = {{ token = {secrets.word("no text")}; }};',
        f'auth = {{ token = "{secrets.word("beside")}"; nonsense = "{secrets.word("unknown key")}"; }};',
        f'auth = {{ token = [ "{secrets.word("a list")}" ]; }};',
    ), 1):
        write(text)
        broker.signal(signal.SIGHUP)
        until(10, lambda: broker.log().count("reload refused") == number, f"{text} is refused")
    write(f'auth = {{ token = "{secrets.word("fine")}"; }};')
    for place, rest, code in (("set", "", 0), ("set too long", "x" * 300, USAGE)):
        done = subprocess.run([rig.program("broker-ctl"), "--url", url, "config", "set", f"auth.token={secrets.word(place)}{rest}"],
                              capture_output=True, timeout=30, check=False, stdin=subprocess.DEVNULL)
        check(done.returncode == code, done)
    write(f'auth = {{ token = "{secrets.word("last")}"; }};')
    archive = report(rig, "--url", url, "--config", config, "-").stdout
    found = parts(archive)
    check(b"auth.token: too long" in found["views/errors.json"], found["views/errors.json"])
    secrets.check_absent(archive)
