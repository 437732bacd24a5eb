# SPDX-License-Identifier: Apache-2.0
"""Command lines as people and shells meet them: help, faults, names of a broker, scripts of three
shells, manual pages.

Shells are those of the distribution. Each is asked as it asks itself: bash by its variables, fish by
`complete -C`, zsh on a terminal."""
import csv
import io
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time

import pytest
from harness import check, patience, until

USAGE = 64
ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTILE = "$(touch pwned)"


@pytest.fixture
def world(rig):
    """A broker with two topics, and a client whose name is a command."""
    broker = rig.broker()
    for topic in ("camera.front", "lidar"):
        publisher = rig.client("broker-ctl", "--url", broker.url(), "--client-name", HOSTILE, "pub", topic,
                               "--count", 1, "--stats", "--hold")
        while not publisher.line().startswith("messages"):
            pass
    rig.world = broker
    return rig


def ctl(rig, *arguments, **options):
    return subprocess.run([rig.program("broker-ctl"), *map(str, arguments)], capture_output=True, text=True,
                          timeout=30, check=False, stdin=subprocess.DEVNULL, **options)


# Names of a broker that takes longer than 300 ms are left out, as on a busy machine.
def words(rig, *line, url=None, **options):
    done = ctl(rig, "__complete", *(("--url", url) if url else ()), *line, **options)
    check(done.returncode == 0 and done.stderr == "", f"{done}")
    return [row.split("\t")[0] for row in done.stdout.splitlines()]


def test_each_command_is_there(rig):
    text = ctl(rig, "--help").stdout
    names = re.findall(r"^---- (.*) ----$", (ROOT / "tests/unit/tools/cli/help/broker-ctl.txt").read_text(), re.M)
    check(len(names) > 35, names)
    for name in names:
        done = ctl(rig, *name.split(), "--help")
        check(done.returncode == 0 and done.stdout.startswith("usage: broker-ctl"), f"{name}: {done}")
        check(ctl(rig, "help", *name.split()).stdout == done.stdout, name)
        noun = name.removesuffix(" ls")
        check(re.search(rf"^  {re.escape(noun)}\b", text, re.M), f"{name} is not in --help")


def test_faults_are_one_line(rig):
    for line, said in (
        ("", "command line: a command is missing"),
        ("topcs", "(did you mean topics?)"),
        ("list_queues", "broker-ctl queues lists them"),
        ("user lst", "user lst: no such verb (did you mean list?)"),
        ("pub t --cuont 3", "pub --cuont: no such option (did you mean --count?)"),
        ("sub t --policy dropoldest", "(did you mean drop-oldest?)"),
        ("kick", "kick: takes a client, or --user NAME"),
        ("help frob", "help frob: no command of this name"),
    ):
        done = ctl(rig, *line.split())
        check(done.returncode == USAGE and done.stdout == "", f"{line}: {done}")
        check(done.stderr.count("\n") == 1 and said in done.stderr, f"{line}: {done.stderr}")
        check(re.match(r"broker-ctl: [^:]+: .", done.stderr), f"{line}: {done.stderr}")


def test_a_name_of_a_file_does_not_drive_the_terminal(rig):
    for name in ("\x1b[2J", "\x9b2J", "\u200b\x7f"):
        done = ctl(rig, "key", "new", rig.folder / "new.key", "--ca", f"/none/{name}")
        check(done.returncode == 65 and done.stderr.count("\n") == 1, f"{done}")
        check(not any(ord(sign) < 0x20 or 0x7f <= ord(sign) < 0xa0 for sign in done.stderr[:-1]), f"{done}")


def test_a_file_that_cannot_be_read_is_told_why(rig):
    for path, why in (("none", "No such file or directory"), (".", "Is a directory"), ("empty", "has no certificates")):
        (rig.folder / "empty").touch()
        done = ctl(rig, "key", "new", rig.folder / "new.key", "--ca", rig.folder / path)
        check(done.returncode == 65 and why in done.stderr and done.stderr.count("\n") == 1, f"{done}")
        check(not (rig.folder / "new.key").exists(), "nothing is made")


def test_a_broker_s_refusal_names_the_command_once(world):
    done = ctl(world, "--url", world.world.url(), "durable", "rm", "nothing", "--yes")
    check(done.returncode != 0 and done.stderr.count("durable rm") == 1, f"{done}")


def test_an_argument_never_becomes_an_option_of_the_broker(world):
    for line, said in (
        (("kick", "--", "--user root"), "kick: a client has no blank; give its number, which clients shows"),
        (("kick", HOSTILE), "kick: a client has no blank"),
        (("kick", "--user", "a b"), "kick: a user has no blank"),
        (("topics", "a top=1"), "topics: an argument has no blank"),
        (("topics", "--match", "a top=1"), "topics --match 'a top=1': takes a word"),
        (("durable", "rm", "a b"), "durable rm: an argument has no blank"),
    ):
        done = ctl(world, "--url", world.world.url(), *line)
        check(done.returncode == USAGE and done.stdout == "" and said in done.stderr, f"{line}: {done}")


def test_names_of_the_broker(world):
    url = world.world.url()
    until(30, lambda: words(world, "topics", "cam", url=url) == ["camera.front"], "topics")
    until(30, lambda: set(words(world, "pub", "", url=url)) >= {"camera.front", "lidar"}, "pub")
    until(30, lambda: words(world, "kick", "$", url=url) == [HOSTILE], "clients")
    # As a paused broker, and as one that is not there.
    world.world.signal(19)
    begin = time.monotonic()
    check(words(world, "topics", "", url=url)[:1] == ["ls"], "the verbs come all the same")
    took = time.monotonic() - begin
    world.world.signal(18)
    check(0.25 < took < patience(2), f"a stopped broker held the shell for {took} s")
    check(words(world, "topics", "x", url="unix:///none/broker.sock") == [], "no broker")


# ---- output ----

def test_a_table_fits_and_columns_are_chosen(world):
    url = ("--url", world.world.url())
    narrow = ctl(world, *url, "topics")
    check(max(map(len, narrow.stdout.splitlines())) <= 100, narrow.stdout)
    check(re.search(r"topics: \d+ more columns: --wide", narrow.stderr), narrow.stderr)
    wide = ctl(world, *url, "topics", "--wide")
    check(wide.stderr == "" and max(map(len, wide.stdout.splitlines())) > 100, f"{wide}")
    chosen = ctl(world, *url, "topics", "--columns", "messages,topic", "--no-header")
    check(sorted(row.split() for row in chosen.stdout.splitlines()) == [["1", "camera.front"], ["1", "lidar"]], chosen)
    wrong = ctl(world, *url, "topics", "--columns", "topic,nope")
    check(wrong.returncode == USAGE and wrong.stdout == "" and
          "topics --columns: there is no nope; there are topic, " in wrong.stderr, f"{wrong}")


def test_forms_say_the_same(world):
    url = ("--url", world.world.url())
    for view in ("topics", "clients", "workers", "status", "metrics", "doctor", "memory"):
        whole = json.loads(ctl(world, *url, "-o", "json", view).stdout)
        lines = [json.loads(row) for row in ctl(world, *url, "-o", "jsonl", view).stdout.splitlines()]
        rows = list(csv.DictReader(io.StringIO(ctl(world, *url, "-o", "csv", view).stdout)))
        check(len(rows) == len(lines), f"{view}: {len(rows)} {len(lines)}")
        inner = whole.get(view)
        check(len(lines) == (len(inner) if isinstance(inner, list) else 1), f"{view}: {whole}")
        for line, row in zip(lines, rows):
            check(set(line) <= set(row), f"{view}: {line} {row}")
    names = [row["name"] for row in csv.DictReader(io.StringIO(ctl(world, *url, "-o", "csv", "clients").stdout))]
    check(HOSTILE in names, names)
    done = ctl(world, *url, "sub", "a", "-o", "csv")
    check(done.returncode == USAGE and "takes table, json or jsonl" in done.stderr, f"{done}")


def test_a_client_s_name_is_no_formula(world):
    url = ("--url", world.world.url())
    for name, shown in (('=HYPERLINK("x")', '\'=HYPERLINK("x")'), ("@sum", "'@sum"), ("-1", "-1")):
        done = ctl(world, *url, "--client-name", name, "clients", "-o", "csv")
        names = [row["name"] for row in csv.DictReader(io.StringIO(done.stdout))]
        check(shown in names, f"{name}: {names}")
        done = ctl(world, *url, "--client-name", name, "clients", "-o", "jsonl")
        check(name in [json.loads(row)["name"] for row in done.stdout.splitlines()], f"{done}")


def test_defaults_see_no_variable(rig):
    env = {**os.environ, "AMBROKER_SERVER_WORKERS": "7", f"AMBROKER_{'X' * 300}": "1"}
    plain = ctl(rig, "config", "--role", "broker", "--defaults")
    done = ctl(rig, "config", "--role", "broker", "--defaults", env=env)
    check(done.returncode == 0 and "server.workers = " in done.stdout and done.stdout == plain.stdout, f"{done}")


def test_a_view_is_asked_for_again(world):
    watching = world.client("broker-ctl", "--url", world.world.url(), "topics", "--columns", "topic", "-o", "csv",
                            "--watch", "100ms")
    check(watching.line() == "topic", "a head")
    check([watching.line() for _ in range(6)].count("lidar") == 3, "three times, and no other head")
    watching.signal(2)
    check(watching.wait() == 0, watching.log())
    done = ctl(world, "--url", world.world.url(), "workers", "--watch", "200ms", "--timeout", f"{patience(0.5)}s")
    check(done.returncode == 0 and done.stdout.count("worker") >= 2, f"{done}")


def test_an_empty_variable_is_none(rig):
    env = {**os.environ, "AMB_URL": "", "AMB_CONFIG": "", "AMB_CREDENTIALS": "", "AMB_CONTEXT": "",
           "XDG_CONFIG_HOME": str(rig.folder)}
    done = ctl(rig, "drain", env=env)
    check(done.returncode == USAGE and "at the broker unix:///run/ambroker/broker.sock\n" in done.stderr, f"{done}")


# ---- contexts ----

def test_contexts(world):
    home = world.folder / "config"
    env = {**os.environ, "XDG_CONFIG_HOME": str(home)}
    env.pop("AMB_URL", None)

    def run(*arguments, code=0, **more):
        done = ctl(world, *arguments, env={**env, **more})
        check(done.returncode == code, f"{arguments}: {done}")
        return done

    home.mkdir()
    url = world.world.url()
    check(run("context").stdout == "(none)\n", "none at first")
    run("context", "add", "plant", "--url", url, "--client-name", "me")
    run("context", "add", "gone", "--url", "unix:///none/broker.sock")
    run("context", "add", "gone", "--url", url, code=65)
    check((home / "ambroker/plant.context").stat().st_mode & 0o777 == 0o600, "its mode")
    run("context", "use", "plant")
    run("status")
    check("me" in run("clients", "--columns", "name").stdout.split(), "the name of the context")
    # What goes before: --url, --context, $AMB_URL, $AMB_CONTEXT, the chosen one.
    none = "unix:///none/broker.sock"
    run("--context", "gone", "status", code=69, AMB_URL=url)
    run("--context", "plant", "status", AMB_URL=none, AMB_CONTEXT="gone")
    run("status", AMB_URL=url, AMB_CONTEXT="gone")
    run("status", code=69, AMB_CONTEXT="gone")
    run("--url", url, "status", AMB_URL=none, AMB_CONTEXT="gone")
    check("--context: does not go with --url" in run("--url", url, "--context", "gone", "status", code=64).stderr, "both")
    check(words(world, "context", "use", "", env=env) == ["gone", "plant"], "completion")
    until(30, lambda: words(world, "topics", "cam", env=env) == ["camera.front"], "names of its broker")
    # Files that are wrong.
    (home / "ambroker/plant.context").write_text("url = unix:///x\npassword = x\n")
    check(":2: password: unknown key" in run("status", code=64).stderr, "an unknown key")
    (home / "ambroker/plant.context").chmod(0o644)
    check("can be read by others" in run("status", code=64).stderr, "an open file")
    check("can be read by others" in run("context").stdout, "told in the list")
    for name in ("../x", "a/b", ".a", "x" * 65):
        run("context", "use", name, code=64)
        run("context", "add", name, "--url", url, code=64)
    run("context", "rm", "plant")
    check(not (home / "ambroker/chosen").exists(), "none is chosen any more")
    run("context", "use", "nothing", code=64)
    for option, value in (("client-name", ""), ("client-name", " a"), ("client-name", "a\tb\t"), ("credentials", "a\n"),
                          ("url", f"{url},b ")):
        given = {"url": url, option: value}
        done = run("context", "add", "odd", *(word for name in given for word in (f"--{name}", given[name])), code=64)
        check(f"context add --{option}: is empty, or" in done.stderr, f"{option}: {done}")
        check(not (home / "ambroker/odd.context").exists(), f"{option} {value!r}")
    # It holds in any folder.
    run("context", "add", "here", "--url", url, "--credentials", "./a.key")
    here = json.loads(run("context", "show", "here", "-o", "json").stdout)
    check(here["credentials"] == f"{os.getcwd()}/a.key", here)


# ---- shells ----

def _bash(script, line, **more):
    """COMPREPLY of the line, as bash itself sets the variables."""
    parts = re.findall(r"[=:]+|[^\s=:]+", line) + ([""] if line[-1].isspace() else [])
    source = (f"source {script}\nCOMP_LINE=$1 COMP_POINT=${{#1}}\nshift\nCOMP_WORDS=(\"$@\")\n"
              "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_broker_ctl broker-ctl\nprintf '%s\\n' \"${COMPREPLY[@]}\"")
    return subprocess.run(["bash", "--norc", "-c", source, "bash", line, *parts], capture_output=True,
                          text=True, timeout=30, check=True, **more).stdout.split("\n")[:-1]


def shell_of(rig, name):
    if shutil.which(name) is None:
        pytest.skip(f"no {name}")
    folder = pathlib.Path(rig.program("broker-ctl")).parent
    script = rig.folder / f"completion.{name}"
    script.write_text(ctl(rig, "completion", name).stdout)
    check(script.read_text() == (ROOT / f"etc/completion/broker-ctl.{name}").read_text(), name)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(rig.folder), "TERM": "dumb"}
    if hasattr(rig, "world"):
        env["AMB_URL"] = rig.world.url()
    return script, {"env": env, "cwd": rig.folder}


def test_bash(world):
    script, where = shell_of(world, "bash")
    check(_bash(script, "broker-ctl topi", **where) == ["topics"], "a noun")
    check(_bash(script, "broker-ctl user s", **where) == ["set", "show"], "verbs")
    until(30, lambda: _bash(script, "broker-ctl topics cam", **where) == ["camera.front"], "a topic")
    until(30, lambda: _bash(script, "broker-ctl sub 'cam", **where) == ["camera.front"], "behind a quote")
    check(_bash(script, "broker-ctl sub t --policy=drop-o", **where) == ["drop-oldest"], "behind =")
    # Nobody's name is run, and it is quoted for the line.
    until(30, lambda: r"\$\(touch\ pwned\)" in _bash(script, "broker-ctl kick ", **where), "a hostile name")
    check(not (world.folder / "pwned").exists(), "a name was run")


def test_fish(world):
    script, where = shell_of(world, "fish")

    def complete(line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
                              capture_output=True, text=True, timeout=60, check=True, **where)
        return [row.split("\t")[0] for row in done.stdout.splitlines()]

    check(complete("broker-ctl topi") == ["topics"], "a noun")
    until(30, lambda: complete("broker-ctl topics cam") == ["camera.front"], "a topic")
    check(set(complete("broker-ctl sub t --policy drop-")) == {"drop-oldest", "drop-newest"}, "words")
    until(30, lambda: HOSTILE in complete("broker-ctl kick "), "a hostile name")
    check(not (world.folder / "pwned").exists(), "a name was run")


def _read_until(terminal, word, again=b"", seconds=30):
    """again: written where nothing comes for a while."""
    text = ""
    deadline = time.monotonic() + seconds
    while word not in text:
        check(time.monotonic() < deadline, f"no {word!r} in {text!r}")
        if select.select([terminal], [], [], 2)[0]:
            text += os.read(terminal, 65536).decode(errors="replace").replace("\a", "")  # A try in vain rings.
        else:
            os.write(terminal, again)
    return text


def test_zsh(world):
    script, where = shell_of(world, "zsh")
    ours, its = pty.openpty()
    shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=its, stdout=its, stderr=its, start_new_session=True, **where)
    os.close(its)
    try:
        os.write(ours, f"unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -u -D; "
                       f"source {script}; echo re''ady\n".encode())
        _read_until(ours, "ready\r\n")
        for line, whole in (("broker-ctl topi\t", "topics"), ("ls cam\t", "camera.front"),
                            ("--timeo\t", "--timeout")):
            os.write(ours, line.encode())
            _read_until(ours, whole, again=b"\t")
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)
    check(not (world.folder / "pwned").exists(), "a name was run")


# ---- manual pages ----

def test_manual_pages_are_clean():
    if shutil.which("mandoc") is None:
        pytest.skip("no mandoc")
    pages = sorted((ROOT / "docs/man").glob("*.[1-8]"))
    check(len(pages) >= 3, pages)
    for page in pages:
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "style", page], capture_output=True, text=True,
                              check=False, timeout=60)
        # A page may name another one that is not installed here.
        rows = [row for row in done.stdout.splitlines() if "referenced manual not found" not in row]
        check(rows == [], "\n".join(rows))
        text = subprocess.run(["mandoc", "-T", "utf8", page], capture_output=True, text=True, check=True,
                              timeout=60).stdout
        check(page.name.split(".")[0].upper() in text, page)
