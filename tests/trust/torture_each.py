#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each allocation and each call of libssl fails once in a command: over 300 commands of broker-ctl and brokerd,
with files and with a broker, on each link.

    torture_each.py BUILD [--rounds N] [--part N] [--step N] [--seed N] [--only NAME]

A command ends with a status of its own, and with a sentence where that is not 0. With the address sanitizer
it leaves no memory. Files are the old or the new ones, never half. The broker that is asked goes on, and has all
back in the end.

--rounds N: that many numbers of each command (1), at random; --step N: each Nth instead, 1 for all of them.
--part N: each Nth command (1). --only NAME: commands whose line has that text.
"""
import itertools
import pathlib
import random
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "stress"))
from encrypted import Encrypted, made
from harness import SKIPPED, Failure, check, main, until
from torture import ENDS, KINDS, Torture, turns

USAGE, CONFIG = 64, 78
VIEWS = ("status", "topics", "subs", "queues", "clients", "workers", "metrics", "memory", "transports", "paths", "quotas",
         "doctor", "topo", "blocked", "topics kept.*", "subs >", "clients *", "paths 1", "queues d1")
FORMS = ("table", "json", "jsonl", "csv")
MESSAGES = (
    "pub a.b --count 1 --size 0", "pub a.b --count 20 --size 100", "pub a.b --size 300K", "pub a.b --file FILE --prop kind=x",
    "pub a.b --count 3 --size 3000 --confirm delivered", "pub a.b --count 2 --confirm accepted --stats",
    "pub a.b --count 3 --name robot", "pub a.b --count 3 --key k --priority high --ttl 1", "pub a.b --count 2 --reconnect",
    "sub kept.> --start first --count 3", "sub kept.a --start last:2 --count 2 --sha256", "sub kept.> --start first --count 3 --stats",
    "sub kept.a --start first --count 3 --out-dir OUT", "sub kept.> --start seq:1 --count 2 -o json",
    "sub kept.a --start first --count 1 --filter FILTER", "sub kept.> --start first --count 2 --save SAVED",
    "sub kept.a --start first --count 2 --durable d1 --ack explicit", "sub kept.a --start first --count 1 --group g",
    "sub kept.a --start first --count 2 --durable d2 --ack cumulative --ack-wait 1", "sub kept.> --start first --count 1 --policy latest",
    "sub kept.a --start first --count 1 --durable d3 --ack explicit --nak", "request ask --text what",
    "reply other --text x --timeout 0.05", "reload", "block nobody --yes", "unblock nobody", "user test nobody publish a",
)
FILES = (
    ("brokerd", "--config broker.conf --test-config"), ("brokerd", "--config broker.conf --print-config"),
    ("brokerd", "--config wrong.conf --test-config"), ("brokerd", "--dev --print-config"), ("brokerd", "--dev --test-config"),
    ("brokerd", "--config broker.conf -o server.workers=2 -o limits.window=1M --print-config"), ("brokerd", "--help"),
    ("brokerd", "--version"), ("broker-ctl", "--help"), ("broker-ctl", "help sub"), ("broker-ctl", "completion bash"),
    ("broker-ctl", "tls init --dir new --name 127.0.0.1 --name a.example"), ("broker-ctl", "tls issue cam7 --dir tls"),
    ("broker-ctl", "tls issue cam8 --dir tls --name spiffe://plant/cam8"), ("broker-ctl", "tls renew --dir tls"),
    ("broker-ctl", "tls show --dir tls"), ("broker-ctl", "tls show --dir tls -o json"), ("broker-ctl", "key new k.cred --user k"),
    ("broker-ctl", "key new k.cred --user k --ca tls/ca.pem --url tls://a.example:4733"), ("broker-ctl", "key show old.cred"),
    ("broker-ctl", "user add b --role camera --credential uid/7 --file users"), ("broker-ctl", "user add b --new-key n.cred --file users"),
    ("broker-ctl", "user set a --off --file users"), ("broker-ctl", "user set a --quota small --until 2030-01-01 --file users"),
    ("broker-ctl", "user rm a --file users"), ("broker-ctl", "user list --file users"), ("broker-ctl", "user list -o json --file users"),
    ("broker-ctl", "user show a --file users"), ("broker-ctl", "config show --config broker.conf"),
    ("broker-ctl", "config show --config broker.conf -o json"), ("broker-ctl", "config show --config wrong.conf"),
    ("broker-ctl", "context"), ("broker-ctl", "context show one"), ("broker-ctl", "context use one"), ("broker-ctl", "context rm one"),
    ("broker-ctl", "context add two --url tcp://a.example:4733"), ("broker-ctl", "address"), ("broker-ctl", "address -o json"),
)


class Alone:
    """Commands that need no broker, each in a fresh copy of a folder."""

    def __init__(self, rig, torture):
        self.rig, self.torture = rig, torture
        self.template, self.place = rig.folder / "template", rig.folder / "place"
        self.template.mkdir()
        ctl = rig.program("broker-ctl")
        for words in ("tls init --dir tls --name 127.0.0.1", "key new old.cred --user a", "context add one --url unix:///none"):
            self.command([ctl, *words.split()], self.template)
        users = self.template / "users"
        users.write_text("# ours\na:plant:camera:small:-:uid/1\n")
        users.chmod(0o600)
        text = ('tls = { certificate = "tls/server.pem"; key = "tls/server.key"; ca = "tls/ca.pem"; clients = "optional"; };\n'
                'listen = ( "unix://PLACE/s", "tls://127.0.0.1:0", "tcp://127.0.0.1:0" );\nauth = { users = "users"; };\n'
                'roles = ( { name = "camera"; publish = ( "cam.%u.>" ); subscribe = { allow = ( ">" ); deny = ( "x.>" ); }; } );\n'
                'quotas = ( { name = "small"; topics = 3; in_bytes = "1M"; } );\ntenants = ( { name = "plant"; } );\n'
                'topics = ( { match = "cam.>"; trust_group = "g"; retain = { messages = 3; }; } );\n').replace("PLACE", str(self.place))
        (self.template / "broker.conf").write_text(text)
        (self.template / "wrong.conf").write_text(text.replace("messages = 3", "messages = -3"))

    def command(self, words, folder):
        environment = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "PATH": "/usr/bin:/bin", "LC_ALL": "C",
                       **self.torture}
        return subprocess.run(words, cwd=folder, env=environment, capture_output=True, timeout=60, check=False)

    def run(self, program, words):
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.template, self.place)
        return self.command([self.rig.program(program), *words.split()], self.place)

    def look(self):
        """Files that were there are whole: another command takes them. Keys are no one else's."""
        users = (self.place / "users").read_bytes()
        check(users.startswith(b"# ours\n") and users.endswith(b"\n") and (self.place / "users").stat().st_mode & 0o777 == 0o600,
              f"users: {users}")
        for file in self.place.rglob("*.key"):
            check(file.stat().st_mode & 0o777 == 0o600, f"{file} has another mode")


def scenarios(rig, alone, broker):
    """(name, a function that runs it, one that looks at what it leaves)."""
    for program, words in FILES:
        yield f"{program} {words}", lambda program=program, words=words: alone.run(program, words), alone.look
    doors = {"ring": broker.broker.unix_url, "stream": f"{broker.broker.unix_url}?link=stream", "tcp": broker.broker.tcp_url,
             "tls": broker.url}
    lines = [f"{view} -o {form}" for view, form in itertools.product(VIEWS, FORMS)]
    places = {"FILE": str(rig.folder / "file"), "OUT": str(rig.folder / "out"), "SAVED": str(rig.folder / "saved")}
    for (door, url), line in itertools.product(doors.items(), (*lines, *MESSAGES)):
        if door == "tcp" and line not in MESSAGES[:22]:
            continue  # by plain TCP nobody administers
        words = [places.get(word, word).replace("FILTER", "kind = 'x'") for word in line.split()]
        more = () if "--timeout" in line else ("--timeout", "5")
        yield f"{door}: {line}", lambda url=url, words=words, more=more: subprocess.run(
            [rig.program("broker-ctl"), "--url", url, *words, *more], capture_output=True, timeout=60, check=False,
            env={**rig.env, **broker.env, **alone.torture, "PATH": "/usr/bin:/bin"}, input=b"x"), lambda: None


def torture_one(name, run, look, torture, options, dice, counts):
    torture.arm(0, 0)
    done = run()
    first, _ = torture.seen()
    check(done.returncode in ENDS | {1, CONFIG}, f"{name}: without a failure: {done}")
    for kind, what in enumerate(KINDS):
        if first[kind] == 0:
            continue
        numbers = turns(first[kind], int(options["step"]), options, dice) if "step" in options else \
            [dice.randrange(1, first[kind] + 1) for _ in range(int(options.get("rounds", 1)))]
        for number in numbers:
            torture.arm(kind, number)
            done = run()
            failed = torture.seen()[1]
            said = done.stderr.decode(errors="replace")
            if "AddressSanitizer: CHECK failed: sanitizer_" in said:
                continue  # the sanitizer itself had no memory, as for a new thread
            # A file of a context that cannot be read is wrong usage, whatever the reason.
            check(done.returncode in ENDS | {1, CONFIG} or (done.returncode == USAGE and "no memory" in said),
                  f"{name}: {what}, number {number}: {done.returncode} {said[-6000:]}")
            # With 1 the findings of a doctor are its word.
            check(done.returncode == 0 or said.strip() or (done.returncode == 1 and done.stdout.strip()),
                  f"{name}: {what}, number {number}: {done.returncode}, and no word")
            look()
            counts["runs"] += 1
            counts["failed"] += failed
            counts["well"] += failed and done.returncode == 0


def test(rig, options):
    try:
        rig.program("test-torture.so")
    except Failure:
        sys.exit(SKIPPED)
    seed = int(options.get("seed", time.time_ns() & 0xFFFFFF))
    print(f"seed {seed}", flush=True)
    dice, torture = random.Random(seed), Torture(rig, "torture-each")
    (rig.folder / "file").write_bytes(b"x" * 5000)
    config = rig.folder / "broker.conf"
    config.write_text('topics = ( { match = "kept.>"; retain = { messages = 10; }; } );\n')
    broker = Encrypted(rig, made(rig), "--config", config, "-o", "log.level=error", "-o", "server.handshake_timeout=1s")
    for _ in range(3):
        check(broker.ctl("pub", "kept.a", "--count", 3, "--size", 500, "--prop", "kind=x")[0] == 0, "what is kept")
    replier = rig.client("broker-ctl", "--url", broker.broker.unix_url, "reply", "ask", "--text", "this")
    until(20, lambda: any(row["pattern"] == "ask" for row in broker.broker.ask("subs")), "somebody answers")
    alone = Alone(rig, torture.environment(rig, rig.is_sanitized()))
    counts = dict.fromkeys(("commands", "runs", "failed", "well"), 0)
    begin = time.monotonic()
    for number, (name, run, look) in enumerate(scenarios(rig, alone, broker)):
        if number % int(options.get("part", 1)) == seed % int(options.get("part", 1)) and options.get("only", "") in name:
            torture_one(name, run, look, torture, options, dice, counts)
            counts["commands"] += 1
            broker.broker.check_alive()
            check(replier.is_running(), f"{name}: another client has ended: {replier.log()}")
    print(f"{counts['commands']} commands in {counts['runs']} runs: {counts['failed']} failures, after which "
          f"{counts['well']} went well all the same; 0 crashes, in {time.monotonic() - begin:.0f} s", flush=True)
    check(counts["failed"] > counts["runs"] // 3, "the library lets them fail")
    broker.works()
    broker.broker.stop(60)


if __name__ == "__main__":
    main(test, 20000, observers=())
