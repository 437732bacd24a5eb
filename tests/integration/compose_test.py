# SPDX-License-Identifier: Apache-2.0
"""What docker/compose.yaml has its containers do, done by processes here: the script that makes keys, its
broker's options, its client's script. tests/system/images.sh does it in containers.

    compose_test.py"""
import os
import pathlib
import re
import signal
import subprocess

from harness import check

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docker/compose.yaml").read_text(encoding="utf-8")


def service(name):
    return re.search(rf"\n  {name}:\n((?:    .*\n)+)", TEXT).group(1)


def script(name):
    text = re.search(r"command:\n      - \|\n((?:        .*\n)+)", service(name)).group(1)
    return re.sub(r"^ {8}", "", text, flags=re.M).replace("$$", "$")


def run(rig, text, env):
    done = subprocess.run(["/bin/sh", "-euc", text], env=env, timeout=120, text=True, capture_output=True, check=False)
    check(done.returncode == 0, f"{done.stdout} {done.stderr}")
    return done.stdout


def test_compose(rig):
    keys = rig.folder / "keys"
    for name in ("broker", "client"):
        (keys / name).mkdir(parents=True)
    env = dict(os.environ, PATH=f"{rig.build}/tools:{os.environ['PATH']}")
    # Here the names of the certificate are this machine's, and the files are this user's.
    make = script("keys").replace("/keys/", f"{keys}/").replace("--name broker", "")
    make = make.replace("4733:4733", f"{os.geteuid()}:{os.getegid()}")
    run(rig, make, env)
    check(not list(keys.glob("**/ca.key")), "the authority's key is kept")
    check({path.name for path in (keys / "client").iterdir()} == {"ca.pem", "token"}, "what the client has")
    token = (keys / "client/token").read_text()
    check(re.fullmatch("[0-9a-f]{64}", token), token)
    run(rig, make, env)
    check((keys / "client/token").read_text() == token, "made once")

    options = re.findall(r'"([^"]*)"', re.search(r"command: \[(.*?)\]", service("broker"), re.S).group(1))
    for i, option in enumerate(options):
        option = re.sub("^tls://.*", "tls://127.0.0.1:0", option)
        option = re.sub("^unix:///run/ambroker", f"unix://{rig.folder}", option)
        options[i] = option.replace("=/keys/", f"={keys}/broker/")
    brokerd = rig.start([rig.program("brokerd"), "--config", ROOT / "etc/broker.conf", *options])
    urls = brokerd.expect("ready")[1:]
    tls = next(url for url in urls if url.startswith("tls:"))
    env |= {"AMB_URL": tls, "AMB_CA": f"{keys}/client/ca.pem", "AMB_CREDENTIALS": f"{keys}/client/token"}
    text = script("client")
    check(re.search("broker-ctl .*sub ", text) and re.search("broker-ctl .*pub ", text), text)
    said = run(rig, text, env)
    check(len(re.findall(r"^messages +1000$", said, re.M)) == 2, said)
    # Without the token nobody is let in, and nobody is known without the authority.
    for name in ("AMB_CREDENTIALS", "AMB_CA"):
        less = {key: value for key, value in env.items() if key != name}
        done = subprocess.run(["broker-ctl", "pub", "a", "b"], env=less, timeout=60, capture_output=True, check=False)
        check(done.returncode in (69, 77), f"without {name}: {done}")
    # What the file's head says of views.
    command = re.search(r"exec broker (broker-ctl .*)", TEXT).group(1).split()
    unix = next(url for url in urls if url.startswith("unix:"))
    subprocess.run(command, env=dict(env, AMB_URL=unix), check=True, timeout=60)
    done = subprocess.run(command, env=env, timeout=60, capture_output=True, check=False)
    check(done.returncode == 77, done)
    brokerd.signal(signal.SIGTERM)
    check(brokerd.wait(60) == 0, brokerd.log())


def test_the_client_waits_for_health_and_nothing_sleeps():
    check("condition: service_healthy" in service("client"), "waits for health")
    check("sleep" not in TEXT, "it sleeps")


def test_the_image_is_of_this_version():
    version = re.search(r"project\(ambroker VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    check(f"ARG VERSION={version}\n" in (ROOT / "docker/Dockerfile").read_text(), version)


def test_each_image_ends_as_the_same_user():
    """By number: a name is none to Kubernetes' runAsNonRoot, nor to files that are mounted."""
    files = sorted(path for path in (ROOT / "docker").iterdir() if path.name.endswith("Dockerfile"))
    check(len(files) == 3, files)
    for file in files:
        text = file.read_text(encoding="utf-8")
        users = re.findall(r"^USER (.*)$", text, re.M)
        check(users[-1:] in ([], ["4733:4733"]) and (users or "FROM ${BASE}\n" in text), f"{file.name}: {users}")
    check("useradd --uid 4733 --gid 4733" in files[0].read_text(encoding="utf-8"), "the user itself")
