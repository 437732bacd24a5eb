# SPDX-License-Identifier: Apache-2.0
"""docs/security.md: each command of its blocks, and each whole one between back-ticks, is run by a test,
with folders and addresses of the test's own; each configuration is taken. HERE says which section this
file has, ELSEWHERE which test has another.

    security_page_test.py
"""
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest
from harness import check, until

SECONDS = 200
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
SECTIONS = {part.splitlines()[0]: part for part in re.split(r"^(?=##+ )", PAGE, flags=re.M)}
HERE = ("## Certificates of one's own", "## Two commands", "## The broker", "## The client", "## Users", "## Rights",
        "## Administration", "## Memory", "## Tenants", "## Quotas")
ELSEWHERE = {"## A worked example: one machine, two users": "tests/integration/security_example_test.py",
             "### A plant with two tenants": "tests/integration/tenants_test.py",
             "### A fence": "tests/integration/fence_test.py"}
# Commands whose name alone is meant, with the test that runs them in full.
NAMES = {"broker-ctl", "broker-ctl tls", "broker-ctl user add"}
TOOLS = {"tools/dev/check-hardening": "tests/dev/hardening_test.py", "tools/sbom.sh": "tests/integration/sbom_test.py",
         "tools/dev/same-bytes.sh": "tests/integration/processes.cmake"}
FORBIDDEN = 77
INLINE = re.compile(r"`((?:broker-ctl|brokerd|ucx-fence|tools/)[^`]*)`")


def blocks(heading, kind=""):
    return re.findall(rf"^```{kind}\n(.*?)^```$", SECTIONS[heading], re.S | re.M)


class Place:
    """The page's folders, as folders of the test."""

    def __init__(self, rig):
        self.rig, self.url = rig, "tls://localhost:0"
        self.places = {"/etc/ambroker": "etc", "/run/ambroker": "run", "/var/log/ambroker": "log"}
        for name in self.places.values():
            (rig.folder / name).mkdir()
        (rig.folder / "etc" / "tls").mkdir()
        programs = {os.path.dirname(rig.program(name)) for name in ("brokerd", "broker-ctl")}
        self.env = {"PATH": os.pathsep.join([*programs, os.environ["PATH"]]), "LC_ALL": "C", "HOME": str(rig.folder),
                    "XDG_STATE_HOME": str(rig.folder / "state"), "XDG_RUNTIME_DIR": str(rig.folder / "run")}

    def here(self, text):
        for old, new in self.places.items():
            text = text.replace(old, str(self.rig.folder / new))
        return text.replace("tls://0.0.0.0:4733", "tls://127.0.0.1:0").replace("tls://broker.example:4733", self.url)

    def run(self, text, code=0, data="", **env):
        """The page's lines by a shell, in the test's folder: what they print."""
        done = subprocess.run(["bash", "-euc", self.here(text)], cwd=self.rig.folder, env={**self.env, **env}, input=data,
                              text=True, capture_output=True, timeout=60, check=False)
        check(done.returncode == code, f"{text}: {done}")
        return done.stdout

    def start(self, line, **env):
        return self.rig.start(["bash", "-c", f"cd {self.rig.folder} && exec env {self.here(line)}"], env={**self.env, **env})

    def authority(self):
        tls = self.rig.folder / "etc" / "tls"
        self.run(f"broker-ctl tls init --dir {tls} --name localhost --name 127.0.0.1")
        (self.rig.folder / "ca.pem").write_bytes((tls / "ca.pem").read_bytes())
        return tls

    def token(self):
        """A file with a token, and its digest."""
        file = self.rig.folder / "token"
        file.write_text("of-a-test\n")
        file.chmod(0o600)
        return file, hashlib.sha256(b"of-a-test").hexdigest()

    def users(self, *lines):
        file = self.rig.folder / "etc" / "users"
        file.write_text("".join(f"{line}\n" for line in lines))
        file.chmod(0o600)

    def broker(self, config):
        (self.rig.folder / "etc" / "broker.conf").write_text(self.here(config))
        broker = self.rig.broker("--config", self.rig.folder / "etc" / "broker.conf", "--listen", "tls://127.0.0.1:0",
                                 tcp=False, env=self.env)
        self.url = broker.tls_url.replace("127.0.0.1", "localhost")
        self.env["AMB_URL"] = broker.unix_url
        return broker

    def is_taken(self, config):
        path = self.rig.folder / "etc" / "tried.conf"
        path.write_text(self.here(config))
        self.run(f"brokerd --dev --config {path} --test-config")


@pytest.fixture
def place(rig):
    return Place(rig)


def hears(place, broker, line, writer, **env):
    """A `sub` of the page gets what the writer, a file, publishes."""
    before = len(broker.ask("subs"))
    process = place.start(line, **env)
    until(20, lambda: len(broker.ask("subs")) > before or not process.is_running(), f"{line}: it has subscribed")
    place.run("broker-ctl pub cam.cam7.x --wait-subscribers 1", data="a picture", AMB_CREDENTIALS=str(writer))
    check(process.line() == "a picture", f"{line}: {process.log()}")
    process.kill()


def test_each_command_has_a_test():
    with_blocks = {heading for heading in SECTIONS if "\n```" in SECTIONS[heading]}
    check(with_blocks == {*HERE, *ELSEWHERE}, f"{with_blocks ^ {*HERE, *ELSEWHERE}}")
    for heading, file in ELSEWHERE.items():
        check(heading in (ROOT / file).read_text(encoding="utf-8"), f"{file} reads {heading}")
    for heading, text in SECTIONS.items():
        for command in map(" ".join, map(str.split, INLINE.findall(text))):
            tool = command.split()[0]
            if tool in TOOLS:
                check(pathlib.Path(tool).name.split(".")[0] in (ROOT / TOOLS[tool]).read_text(encoding="utf-8"), tool)
            elif heading not in ELSEWHERE and not tool.startswith(("tools/", "ucx-fence")):
                check(command in NAMES or command in ASKED or command in RUN, f"{heading}: no test runs {command}")


# Commands of the text (the doctor warns: this socket's folder is on a disk) that a broker with the page's users answers, and their statuses.
ASKED = {"broker-ctl doctor": 1, "broker-ctl clients": 0, "broker-ctl subs": 0, "broker-ctl status": 0, "broker-ctl reload": 0,
         "broker-ctl paths": 0, "broker-ctl quotas": 0, "broker-ctl quotas cam7": 0,
         "broker-ctl user test cam7 publish cam.8.x": FORBIDDEN}
RUN = {"broker-ctl tls show"}  # in the first block


def test_certificates(place):
    commands, = blocks("## Certificates of one's own")
    said = place.run(commands)
    tls = place.rig.folder / "etc" / "tls"
    named = re.findall(r"`([\w.]+)`", "".join(re.findall(r"^\| (`.*?) \|", SECTIONS["## Certificates of one's own"], re.M)))
    for file in (*named, "server.pem.1"):
        check((tls / file).exists(), f"{file} is not there")
        check(not file.endswith(".key") or (tls / file).stat().st_mode & 0o777 == 0o600, f"the mode of {file}")
    check(len(named) == 6 and "sha256/" in said, f"{named} {said}")


def test_two_commands(place):
    first, second = blocks("## Two commands")[0].splitlines()
    broker = place.start(first)
    url = broker.expect("ready", 60)[1]
    made = place.rig.folder / "state" / "ambroker" / "dev"
    check(made.stat().st_mode & 0o777 == 0o700, "the folder's mode")
    (place.rig.folder / "dev.cred").write_bytes((made / "dev.cred").read_bytes())
    (place.rig.folder / "dev.cred").chmod(0o600)
    process = place.start(second, AMB_URL=url)
    place.run("AMB_CREDENTIALS=dev.cred broker-ctl pub a.b --wait-subscribers 1", data="hello", AMB_URL=url)
    check(process.line() == "hello", process.log())
    process.kill()


def test_broker_and_clients(place):
    tls = place.authority()
    config, = blocks("## The broker")
    place.users()
    place.is_taken(config)
    token, digest = place.token()
    place.users(f"web:plant:all:-:-:token/sha256-{digest}")
    broker = place.broker(config + 'roles = ( { name = "all"; publish = ( ">" ); subscribe = ( ">" ); } );')
    by_name, by_pin = blocks("## The client")[0].splitlines()
    rows = json.loads(place.run(f"broker-ctl -o json tls show --dir {tls}"))
    pin = next(row["pin"] for row in rows if row["file"].endswith("server.pem")).removeprefix("?pin=")
    hears(place, broker, by_name, token, AMB_CREDENTIALS=str(token))
    by_pin = re.sub(r"sha256/[\w+/]+=", pin, by_pin).replace("tls://10.0.0.7:4733", place.url)
    hears(place, broker, by_pin, token, AMB_CREDENTIALS=str(token))
    broker.stop()


def test_users_rights_and_what_the_text_asks(place):
    place.authority()
    place.places["ca.pem"] = "ca.pem"
    made, = (block.splitlines() for block in blocks("## Users") if "key new" in block)
    lines, = (block.splitlines() for block in blocks("## Users") if "camera:small" in block)
    roles, = blocks("## Rights")
    config, = blocks("## The broker")
    quotas = blocks("## Quotas")[0].split("tenants")[0]
    more = roles.replace("roles = (", 'roles = ( { name = "viewer"; publish = ( ">" ); subscribe = ( ">" ); admin = "read"; },', 1) + quotas
    place.users()
    broker = place.broker(config + more)
    new, shape, sub = made
    key = place.run(new).strip()
    check(re.fullmatch(r"key/MCowBQYDK2VwAyEA[\w+/]{43}=", key) and re.fullmatch(r"key/MCow[\w+/]{55}=", shape), f"{key} {shape}")
    token, digest = place.token()
    filled = [re.sub(r"(?<=sha256-)\w+\.\.\.", digest, re.sub(r"key/\w+\.\.\.", key, line)) for line in lines]
    check(not any("..." in line for line in filled), f"{filled}")
    place.users(*filled)
    place.run("broker-ctl reload")
    for command, code in ASKED.items():
        place.run(command, code)
    place.users(*(line.replace("camera", "viewer") for line in filled))
    place.run("broker-ctl reload")
    hears(place, broker, sub, token)
    broker.stop()


def test_the_audit_log_is_moved_away(place):
    """The page's lines for logrotate: what they run makes brokerd open another file."""
    rotate, = blocks("## Administration")
    audit = place.rig.folder / "log" / "audit.jsonl"
    (place.rig.folder / "etc" / "broker.conf").write_text(f'log = {{ audit = "{audit}"; }};\n')
    broker = place.rig.broker("--config", place.rig.folder / "etc" / "broker.conf", env=place.env)
    (place.rig.folder / "systemctl").write_text(f'#!/bin/sh\n[ "$*" = "kill -s USR1 ambroker" ] && kill -s USR1 {broker.popen.pid}\n')
    (place.rig.folder / "systemctl").chmod(0o755)
    place.env["PATH"] = f"{place.rig.folder}:{place.env['PATH']}"
    check(place.here(rotate).splitlines()[0].split()[0] == str(audit), "the page's file")
    place.run("broker-ctl status", AMB_URL=broker.unix_url)
    until(10, lambda: audit.stat().st_size > 0, "it writes")
    audit.rename(f"{audit}.1")
    script = re.search(r"postrotate\n(.*?)endscript", rotate, re.S).group(1)
    place.run(script)
    until(10, audit.exists, "another file")
    place.run("broker-ctl status", AMB_URL=broker.unix_url)
    until(10, lambda: audit.stat().st_size > 0, "it writes there")
    broker.stop()


def test_configurations_are_taken(place):
    place.users()
    for heading in ("## Rights", "## Memory", "## Tenants", "## Quotas", "## Users"):
        config = blocks(heading)[0]
        check(shlex.split(config, comments=True), heading)
        place.is_taken(config)
