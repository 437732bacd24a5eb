# SPDX-License-Identifier: Apache-2.0
"""The plant with two tenants of docs/security.md, command by command; and what a reload does to tenants."""
import pathlib
import re
import signal
import subprocess
import sys

from harness import check, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "trust"))
from led import ALL, Broker  # noqa: E402

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
PART = PAGE[PAGE.index("### A plant with two tenants"):PAGE.index("\n## Quotas")]
BLOCKS = re.findall(r"^```\n(.*?)^```", PART, re.M | re.S)
COMMANDS = re.findall(r"^\| `(.*?)` \|", PART, re.M)
FORBIDDEN, CONFIG = 77, 78


class Plant:
    """The page's example in a folder, and its broker."""

    def __init__(self, rig):
        self.rig, self.url = rig, None
        (rig.folder / "tls").mkdir()
        subprocess.run([rig.program("broker-ctl"), "tls", "init", "--dir", rig.folder / "tls",
                        "--name", "127.0.0.1"], check=True, capture_output=True, timeout=30)
        config, self.keys, lines = BLOCKS
        self.users = rig.folder / "users"
        self.users.touch(0o600)
        (rig.folder / "broker.conf").write_text(self.here(config))
        self.broker = rig.broker("--config", rig.folder / "broker.conf", "-o", "server.workers=2",
                                 "--listen", "tls://127.0.0.1:0", tcp=False)
        self.url = self.broker.tls_url
        made = [self.run(line).stdout.strip() for line in self.keys.splitlines()]
        lines = [line.replace("key/...", key) for line, key in zip(lines.splitlines(), made)]
        self.users.write_text("".join(f"{line}\n" for line in lines))
        self.broker.signal(signal.SIGHUP)
        until(10, lambda: "in force from now on: auth.users" in self.broker.log(), "users")

    def here(self, text):
        return text.replace("/etc/ambroker", str(self.rig.folder)).replace("tls://0.0.0.0:4733",
                                                                           "tls://127.0.0.1:0")

    def words(self, command):
        """The page's command with this test's addresses, as a shell line."""
        line = self.here(command).replace("tls://broker.example:4733", self.url or "")
        return line.replace("broker-ctl", self.rig.program("broker-ctl"), 1)

    def run(self, command, data=""):
        return subprocess.run(self.words(command), shell=True, cwd=self.rig.folder, input=data,
                              text=True, capture_output=True, timeout=60, check=False)

    def start(self, command):
        return self.rig.start(["sh", "-c", f"cd {self.rig.folder} && {self.words(command)}"])


def test_a_plant_with_two_tenants(rig):
    plant = Plant(rig)
    wall, guest, publish, *views = COMMANDS
    reader, other = plant.start(wall), plant.start(guest)
    until(20, lambda: len(plant.broker.ask("subs")) == 2, "two subscriptions")
    done = plant.run(publish, "a picture")
    check(done.returncode == 0, f"{done}")
    check(reader.line() == "a picture" and reader.wait() == 0, reader.log())
    check(other.wait(30) != 0 and other.all_lines() == [], f"the lab hears nothing: {other.log()}")
    own, none, all_of, refused = (plant.run(view) for view in views)
    check("cam.cam7.front" in own.stdout and "plant" in own.stdout, f"{own}")
    check(none.returncode == 0 and "cam7" not in none.stdout and "plant" not in none.stdout, f"{none}")
    check("cam.cam7.front" in all_of.stdout and "plant" in all_of.stdout, f"{all_of}")
    check(refused.returncode == FORBIDDEN and "of the whole broker" in refused.stderr, f"{refused}")
    plant.broker.stop()


def test_a_user_that_changes_tenants_leaves_all_behind(rig):
    broker = Broker(rig, {"a": ("plant", "all", "-"), "b": ("lab", "all", "-")}, {"all": ALL},
                    'topics = ( { match = ">"; retain = { messages = 8; }; } );')
    a, b = broker.client("a"), broker.client("b")
    a.say("pub", 0, "t", "robot")
    a.say("send", 0, "of-the-plant", 5000)
    a.say("sub", 1, "t", "durable=d", "ack=1", "start=first")
    broker.users["a"] = ("lab", "all", "-")
    broker.reload()
    until(20, lambda: "rights changed" in a.refuses("", "pub", 1, "t"), "its session ends")
    a.say("close")
    a.connect(0)
    a.say("sub", 0, ">", "start=first")
    a.say("sub", 1, "t", "durable=d", "ack=1", "start=first")
    b.say("pub", 0, "t", "robot")
    b.say("send", 0, "of-the-lab", 5000)
    check(a.messages(0, 500) == [("t", "of-the-lab")], "topics of its tenant alone")
    check(a.messages(1, 500) == [("t", "of-the-lab")], "a durable name of its own")
    broker.users["a"] = ("plant", "all", "-")
    broker.reload()
    until(20, lambda: "rights changed" in a.refuses("", "pub", 1, "t"), "its session ends")
    a.say("close")
    a.connect(0)
    a.say("sub", 0, ">", "start=first")
    check(a.messages(0, 500) == [("t", "of-the-plant")], "a tenant's topics wait for it")
    broker.stop()


def test_unknown_tenants_change_nothing(rig):
    broker = Broker(rig, {"a": ("plant", "all", "-")}, {"all": ALL},
                    'tenants = ( { name = "plant"; } );')
    a = broker.client("a")
    broker.users["b"] = ("lab", "all", "-")
    broker.reload('users:2: no tenant is called "lab"')
    a.say("pub", 0, "t")
    broker.more = 'tenants = ( { name = "plant"; }, { name = "lab"; } );'
    broker.reload()
    broker.client("b").say("pub", 0, "t")
    broker.roles["fast"] = "ucx = true;"
    broker.reload("transports.share_process: role \"fast\" has ucx")
    broker.more += "\ntransports = { share_process = true; };"
    broker.reload()
    a.say("pub", 1, "u")
    broker.stop()


def test_ucx_and_two_tenants_do_not_start(rig):
    users = rig.folder / "users"
    users.write_text("a:plant:fast:-:-:uid/1\nb:lab:-:-:-:uid/2\n")
    users.chmod(0o600)
    config = rig.folder / "broker.conf"
    config.write_text(f'auth = {{ users = "{users}"; }};\nroles = ( {{ name = "fast"; ucx = true; }} );\n')
    done = subprocess.run([rig.program("brokerd"), "--config", config, "--listen",
                           f"unix://{rig.folder}/none.sock"], capture_output=True, text=True,
                          timeout=30, check=False)
    check(done.returncode == CONFIG and "transports.share_process" in done.stderr, f"{done}")
    check(not (rig.folder / "none.sock").exists(), "no socket is opened")


def test_without_users_there_are_no_tenants(rig):
    broker = rig.broker()
    done = subprocess.run([rig.program("broker-ctl"), "--url", broker.unix_url, "pub", "t"],
                          input="x", text=True, capture_output=True, timeout=30, check=False)
    check(done.returncode == 0, f"{done}")
    rows = {row["topic"]: row["tenant"] for row in broker.ask("topics")}
    check(rows.get("t") == "", f"{rows}")
    broker.stop()


def test_tenants_have_names_when_users_come(rig):
    """What was made before is the operators', and is shown so."""
    config, users = rig.folder / "broker.conf", rig.folder / "users"
    config.write_text("")
    users.write_text("a:plant:-:-:-:uid/1\n")
    users.chmod(0o600)
    broker = rig.broker("--config", config, tcp=False)

    def shown():
        broker.asker = None  # A session of before ends with the reload.
        return {row["topic"]: row["tenant"] for row in broker.ask("topics")}

    done = subprocess.run([rig.program("broker-ctl"), "--url", broker.unix_url, "pub", "t"],
                          input="x", text=True, capture_output=True, timeout=30, check=False)
    check(done.returncode == 0 and shown().get("t") == "", f"{done}: {shown()}")
    config.write_text(f'auth = {{ users = "{users}"; }};\n')
    broker.signal(signal.SIGHUP)
    until(20, lambda: "in force from now on" in broker.log(), "other users are in force")
    until(20, lambda: shown().get("t") == "$", "the tenant of before has a name")
    broker.stop()
