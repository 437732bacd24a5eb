# SPDX-License-Identifier: Apache-2.0
"""One file for all roles: AMB_CONFIG alone configures a broker, a publisher and a subscriber.

    roles_test.py

Three network namespaces stand for three machines, and a fourth one for the switch between them. Each
machine calls its interface net0:

    head  10.79.0.1  brokerd      left  10.79.0.2  publisher      right  10.79.0.3  subscriber
"""
import ctypes.util
import json
import os
import re
import shutil
import subprocess

import pytest
from harness import as_user, check
from machine import need_root, switched

SECONDS = 250
USAGE, DATA, CONFIG, SOFTWARE = 64, 65, 78, 70
NOBODY = 65534
# Variables that would go before the file. Empty ones are as if they were not there.
CLEAN = {"AMB_URL": "", "AMB_CREDENTIALS": "", "AMB_TRUSTED": "", "AMB_SPIN": "", "AMB_CONFIG": "",
         "LC_ALL": "C"}
FILE = """\
# One file for three machines.
server = {{ name = "head"; workers = 2; insecure = true; }};
listen = ( "unix://{folder}/broker.sock", "tcp://net0:4733" );
memory = {{ host = {{ size = "64M"; segment = "16M"; }}; }};
limits = {{ peer_timeout = "60s"; }};
auth = {{ token_file = "{folder}/token"; }};
client = {{
    url = "tcp://10.79.0.9:4733,10.79.0.1";
    link = "{link}";
    credentials = "{folder}/token";
    connect_timeout = "30s";
    reconnect = {{ max = "2s"; }};
}};
transports = {{ trusted = ( "net0" ); {more} }};
"""


@pytest.fixture
def machines(rig):
    need_root("ip")
    return switched(rig, "10.79.0", 3)


def write_config(rig, link="stream", more=""):
    token = rig.folder / "token"
    token.write_text("correct horse\n")
    token.chmod(0o600)
    path = rig.folder / "both.conf"
    path.write_text(FILE.format(folder=rig.folder, link=link, more=more))
    rig.env = {**CLEAN, "AMB_CONFIG": str(path)}
    return path


def play(machines):
    """No argument and no variable says where anything is."""
    head, left, right = machines
    broker = head.start("brokerd")
    urls = broker.expect("ready", 60)[2:]
    check("tcp://10.79.0.1:4733" in urls, f"{urls}")
    subscriber = right.start("broker-ctl", "sub", "a.>", "--count", "3", "--sha256")
    code, text, error = left.run("broker-ctl", "pub", "a.b", "--count", "3", "--size", "70000",
                                 "--wait-subscribers", "1", "--confirm", "delivered", "--hold")
    check(code == 0, f"pub: {code} {text} {error}")
    check("delivered" in text, text)
    lines = subscriber.all_lines(60)
    check(subscriber.wait() == 0 and len(lines) == 3, f"sub: {lines} {subscriber.log()}")
    return broker


def clients_of(head):
    code, text, error = head.run("broker-ctl", "-o", "json", "--url",
                                 f"unix://{head.rig.folder}/broker.sock", "clients")
    check(code == 0, f"clients: {code} {error}")
    return json.loads(text)["clients"]


def finish(broker):
    broker.signal(15)
    check(broker.wait() == 0, broker.log()[-4000:])


def test_one_file_configures_three_machines(rig, machines):
    write_config(rig)
    head, left, right = machines
    broker = play(machines)
    held = right.start("broker-ctl", "sub", "b.>")
    # That it is there is seen by somebody who waits for it.
    code, _, error = left.run("broker-ctl", "pub", "b.c", "--count", "1", "--wait-subscribers", "1")
    check(code == 0, error)
    rows = {row["address"].rsplit(":", 1)[0]: row for row in clients_of(head) if "." in row["address"]}
    check("10.79.0.3" in rows and rows["10.79.0.3"]["link"] == "stream", f"{rows}")
    held.signal(15)
    held.wait()
    finish(broker)


def test_the_link_of_the_file_is_asked_for(rig, machines):
    """UCX, over the interface that both sides trust by the same line."""
    if not all(machine.has_sys for machine in machines):
        pytest.skip("no /sys of a namespace's own: UCX sees no interface there")
    write_config(rig, link="ucx", more='port_range = "5000-5100"; tcp = "on";')
    head, left, right = machines
    broker = play(machines)
    held = right.start("broker-ctl", "sub", "b.>")
    code, _, error = left.run("broker-ctl", "pub", "b.c", "--count", "1", "--wait-subscribers", "1")
    check(code == 0, error)
    rows = {row["address"].rsplit(":", 1)[0]: row for row in clients_of(head) if "." in row["address"]}
    check(rows.get("10.79.0.3", {}).get("link") == "ucx", f"{rows}")
    table = (subprocess.run([*right.prefix, "cat", "/proc/net/tcp"], capture_output=True, check=True)
             .stdout.decode())
    listening = [int(row.split()[1].split(":")[1], 16) for row in table.splitlines()[1:]
                 if row.split()[3] == "0A"]
    check(listening and all(5000 <= port <= 5100 for port in listening), f"{listening}")
    held.signal(15)
    held.wait()
    finish(broker)


# ---- on this machine alone ----


@pytest.fixture
def bare(rig):
    """Nothing of the environment goes before a file."""
    rig.env = dict(CLEAN)
    return rig


def run(rig, *arguments, env=None, prefix=()):
    done = subprocess.run([*prefix, rig.program("broker-ctl"), *map(str, arguments)],
                          capture_output=True, timeout=60, check=False,
                          env={**os.environ, **rig.env, **(env or {})})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_wrong_file_is_refused_with_its_line(bare):
    folder = bare.folder
    path = folder / "wrong.conf"
    cases = (
        ('client = {\n  timout = "5s"; };', ":2: client.timout: unknown key (did you mean client.timeout?)"),
        ("client = {\n\n  timeout = 5; };", ":3: client.timeout: a time needs a unit"),
        ("client = {\n  url = ;\n};", ":2: syntax error"),
        ('client = { url = "http://x"; };', ":1: client.url: "),
        ('client = { link = "warp"; };', ":1: client.link: unknown word"),
        ('\n\ntransports = { tcp = "maybe"; };', ":3: transports.tcp: unknown word"),
        ('transports = { trusted = ( "no-such-one" ); };\nclient = { url = "tcp://127.0.0.1:1"; };',
         ":1: transports.trusted: no such interface"),
        ('@include "none.conf"\n', "none.conf: cannot be read"),
    )
    for text, expected in cases:
        path.write_text(text)
        code, _, error = run(bare, "status", env={"AMB_CONFIG": str(path)})
        check(code == USAGE and expected in error, f"{text}: {code} {error}")
        if "url" not in text and "trusted" not in text: # These two need a connection to be wrong.
            code, _, error = run(bare, "config", "--config", path)
            check(code == DATA and expected in error, f"config: {text}: {code} {error}")
    os.mkfifo(folder / "fifo")
    for name, expected in (("none.conf", "No such file"), ("", "is a directory"),
                           ("fifo", "is not a regular file")):
        code, _, error = run(bare, "status", env={"AMB_CONFIG": f"{folder}/{name}"})
        check(code == USAGE and expected in error, f"{name}: {code} {error}")


def test_a_file_that_may_not_be_read(bare):
    path = bare.folder / "secret.conf"
    path.write_text("client = { };\n")
    path.chmod(0)
    prefix = as_user(NOBODY) if os.geteuid() == 0 and shutil.which("setpriv") else ()
    if os.geteuid() == 0 and not prefix:
        pytest.skip("root reads everything, and there is no setpriv")
    done = subprocess.run([*prefix, "test", "-x", bare.program("broker-ctl")], check=False)
    if done.returncode != 0:
        pytest.skip("nobody may not run the programs of this build")
    code, _, error = run(bare, "status", env={"AMB_CONFIG": str(path)}, prefix=prefix)
    check(code == USAGE and "secret.conf: cannot be read: Permission denied" in error, f"{code} {error}")


def test_a_program_with_more_rights_than_its_user_looks_at_no_variable(bare):
    """Its user would say whom it trusts, and which files it reads."""
    need_root("setpriv")
    program = bare.folder / "ctl"
    shutil.copy(bare.program("broker-ctl"), program)
    program.chmod(0o4755)
    path = bare.folder / "client.conf"
    path.write_text('client = { name = "of the file"; };\n')
    env = {"AMB_URL": "unix:///user", "AMB_CREDENTIALS": "/user", "AMB_CA": "/user", "AMB_SPIN": "1ms",
           "AMB_CERTIFICATE": "/user", "AMB_KEY": "/user", "AMB_TRUSTED": "lo", "AMB_UCX_LIBRARY": "/user",
           "AMB_CONFIG": str(path)}
    done = subprocess.run([*as_user(NOBODY), program, "config", "--origin"], capture_output=True, timeout=60,
                          check=False, env={**os.environ, **env})
    if done.returncode in (126, 127) or b"cannot open shared object" in done.stderr:
        pytest.skip("nobody may not run the programs of this build")
    text = done.stdout.decode()
    check(done.returncode == 0 and "client.url" in text, f"{done}")
    strange = [line for line in text.splitlines() if not line.endswith("# default")]
    check(not strange, f"{strange}")
    program.chmod(0o755)
    done = subprocess.run([*as_user(NOBODY), program, "config", "--origin"], capture_output=True, timeout=60,
                          check=False, env={**os.environ, **env})
    check(done.stdout.count(b"# environment AMB_") == 8, f"{done}")


def values(text):
    """Of broker-ctl config --origin: key to (value, origin)."""
    rows = re.findall(r"^([\w.]+) = ([^#]*?); # ([^\n]*)$", text, re.M)
    check(len(rows) == text.count(" # ") and rows, text)
    return {key: (value, origin) for key, value, origin in rows}


def test_each_value_has_its_origin(bare):
    path = write_config(bare)
    lines = path.read_text().splitlines()
    here = {name: f"{path}:{1 + next(i for i, line in enumerate(lines) if name in line)}"
            for name in ("link", "workers", "trusted", "reconnect")}
    env = {"AMB_CREDENTIALS": "/from/environment", "AMBROKER_LOG_LEVEL": "warn"}
    code, text, error = run(bare, "--url", "unix:///option", "config", "--role", "client", "--origin",
                            env=env)
    check(code == 0, error)
    client = values(text)
    check(client["client.url"] == ('"unix:///option"', "--url"), f"{client}")
    check(client["client.link"] == ('"stream"', here["link"]), f"{client}")
    check(client["client.credentials"] == ('"/from/environment"', "environment AMB_CREDENTIALS"), f"{client}")
    check(client["client.reconnect.max"] == ('"2s"', here["reconnect"]), f"{client}")
    check(client["client.timeout"] == ('"5s"', "default"), f"{client}")
    check(client["transports.trusted"] == ('( "net0" )', here["trusted"]), f"{client}")
    check(not any(key.startswith(("server", "listen")) for key in client), f"{client}")

    path.write_text(path.read_text().replace("net0", "lo"))
    code, text, error = run(bare, "config", "--role", "broker", "--origin", "--", "-o", "limits.window=4M",
                            env=env)
    check(code == 0, error)
    broker = values(text)
    check(broker["server.workers"] == ("2", here["workers"]), f"{broker}")
    check(broker["log.level"] == ('"warn"', "environment AMBROKER_LOG_LEVEL"), f"{broker}")
    check(broker["limits.window"] == ('"4M"', "-o limits.window"), f"{broker}")
    check(broker["server.spin"] == ('"auto"', "default"), f"{broker}")
    check(not any(key.startswith("client") for key in broker), f"{broker}")

    code, text, _ = run(bare, "-o", "json", "config", "--role", "broker", "--origin")
    rows = {row["key"]: row for row in json.loads(text)}
    check(code == 0 and rows["server.workers"] == {"key": "server.workers", "value": "2",
                                                   "origin": here["workers"]}, f"{rows}")
    code, text, _ = run(bare, "config", "--config", path)
    check(code == 0 and "#" not in text and 'client.link = "stream";\n' in text, text)
    for arguments in (("--role", "judge"), ("word",), ("--role",)):
        code, _, error = run(bare, "config", *arguments)
        check(code == USAGE and error, f"{arguments}: {code} {error}")
    path.write_text("server = {\n  wokers = 1; };")
    code, _, error = run(bare, "config", "--role", "broker")
    check(code == DATA and ":2: server.wokers: unknown key" in error, f"{code} {error}")
    path.write_text("server = {\n  wokers = 1;\n  workers = 300; };")
    code, _, error = run(bare, "config", "--role", "broker")
    check(code == DATA and len(error.splitlines()) == 2 and ":3: server.workers: out of range" in error, error)
    code, _, error = run(bare, "config", "--role", "client")  # not looked at
    check(code == 0, f"{code} {error}")


def test_text_that_is_no_utf_8_is_in_json_too(bare):
    path = bare.folder / "latin.conf"
    path.write_bytes(b'client = { name = "caf\xe9"; credentials = "/\xed\xa0\x80"; };\n')
    folder = os.fsencode(bare.folder) + b"/\xff"
    os.mkdir(folder)
    shutil.copy(path, folder + b"/client.conf")
    code, text, error = run(bare, "-o", "json", "config", "--origin", env={"AMB_CONFIG": str(path)})
    check(code == 0, error)
    rows = {row["key"]: row for row in json.loads(text)}
    check(rows["client.name"] == {"key": "client.name", "value": '"caf."', "origin": f"{path}:1"}, f"{rows}")
    check(rows["client.credentials"]["value"] == '"/..."', f"{rows}")
    done = subprocess.run([bare.program("broker-ctl"), "-o", "json", "config", "--origin", "--config",
                           folder + b"/client.conf"], capture_output=True, timeout=60, check=False)
    own = [row["origin"] for row in json.loads(done.stdout) if row["key"] == "client.name"]
    check(own == [f"{bare.folder}/./client.conf:1"], f"{own}")


IGNORE = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_broker_file_is_judged_whatever_the_environment_adds(bare):
    """A parent that ignores the ends of its children, and words of the dynamic linker."""
    path = bare.folder / "wrong.conf"
    path.write_text("server = {\n  wokers = 1; };")
    words = ("config", "--role", "broker", "--config", path)
    preload = {"LD_PRELOAD": "/nowhere/libnone.so"}
    for env, prefix in (({}, ("python3", "-c", IGNORE)), (preload, ())):
        code, _, error = run(bare, *words, env=env, prefix=prefix)
        check(code == DATA and ":2: server.wokers: unknown key" in error, f"{env}: {code} {error}")
    path.write_text("server = {\n  workers = 1; };")
    code, text, error = run(bare, *words, env=preload)
    check(code == 0 and "server.workers = 1;" in text, f"{code} {error}")


def maps_of(process):
    with open(f"/proc/{process.pid}/maps", encoding="ascii", errors="replace") as maps:
        return maps.read()


def test_libconfig_comes_with_a_file_alone(bare):
    broker = bare.broker()
    path = bare.folder / "client.conf"
    path.write_text(f'client = {{ url = "{broker.unix_url}"; }};\n')
    for env, is_there in (({"AMB_URL": broker.unix_url}, False), ({"AMB_CONFIG": str(path)}, True)):
        process = bare.start([bare.program("broker-ctl"), "sub", "a.>", "--reconnect"], env=env)
        code, _, error = run(bare, "pub", "a.b", "--count", 1, "--wait-subscribers", 1, env=env)
        check(code == 0, error)
        check(("libconfig.so" in maps_of(process)) == is_there, f"{env}: {maps_of(process)}")
        process.signal(15)
        process.wait()
    check("libconfig.so" not in maps_of(broker), "a broker without a file has libconfig")
    broker.stop()


def test_without_libconfig_a_file_cannot_be_read(bare):
    """In a namespace of mounts where that library is empty."""
    need_root("mount")
    names = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, check=False).stdout.decode()
    paths = {os.path.realpath(path) for path in re.findall(r"libconfig\.so\S* .*=> (\S+)", names)}
    if not paths:
        pytest.skip(f"ldconfig knows no libconfig, {ctypes.util.find_library('config')} may be elsewhere")
    hide = " && ".join(f"mount --bind /dev/null {path}" for path in sorted(paths))
    prefix = ("unshare", "--mount", "sh", "-c", f'{hide} && exec "$@"', "sh")
    broker = bare.broker()
    path = bare.folder / "client.conf"
    path.write_text(f'client = {{ url = "{broker.unix_url}"; }};\n')
    code, _, error = run(bare, "status", env={"AMB_CONFIG": str(path)}, prefix=prefix)
    check(code == USAGE and f"{path.name}: cannot be read without libconfig: " in error, f"{code} {error}")
    code, _, error = run(bare, "status", env={"AMB_URL": broker.unix_url}, prefix=prefix)
    check(code == 0, f"{code} {error}")
    done = subprocess.run([*prefix, bare.program("brokerd"), "--config", str(path), "-t"],
                          capture_output=True, timeout=60, check=False, env={**os.environ, **bare.env})
    check(done.returncode == CONFIG and b"without libconfig" in done.stderr, f"{done}")
    broker.stop()


def test_options_and_environment_go_first(bare):
    broker = bare.broker()
    path = bare.folder / "client.conf"
    path.write_text('client = { url = "unix:///nowhere/file"; };\n')
    env = {"AMB_CONFIG": str(path)}
    code, _, error = run(bare, "status", env=env)
    check(code == 69 and "/nowhere/file" in error, f"{code} {error}")
    code, _, error = run(bare, "status", env={**env, "AMB_URL": broker.unix_url})
    check(code == 0, error)
    code, _, error = run(bare, "--url", broker.unix_url, "status", env={**env, "AMB_URL": "unix:///no"})
    check(code == 0, error)
    broker.stop()
