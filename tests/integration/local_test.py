# SPDX-License-Identifier: Apache-2.0
"""broker-ctl local: a private broker and its processes, on four fake GPUs; how all of it ends.

    local_test.py

Every process of a set-up has a word of the test's in its environment, so none is overlooked, wherever
it was born. NUMA nodes are those of a tree that the test makes.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest
from harness import check, patience, until

SECONDS = 240
USAGE, NO_BROKER, TIME = 64, 69, 75
PROMISED_S = 1.0  # from a SIGKILL to the end of the last process
UUID = "GPU-fafafafa-fafa-fafa-fafa-fafafafafa%02x"
STAY = "trap '' TERM HUP INT; echo up; while :; do sleep 1000 & wait $!; done"


def alive(word):
    """The processes with that word in their environment. One that has ended has none any more."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            if word.encode() in pathlib.Path(f"/proc/{number}/environ").read_bytes().split(b"\0"):
                found.append(int(number))
        except OSError:
            continue
    return found


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "?"


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


class Locals:
    """Set-ups, each with a word and a folder for folders of its own."""

    def __init__(self, rig):
        self.rig = rig
        self.tmp = rig.folder / "tmp"
        self.tmp.mkdir()
        self.word = f"AMB_TEST_WORD={os.getpid()}-{rig.folder.name}"
        name, value = self.word.split("=")
        self.env = {name: value, "TMPDIR": str(self.tmp), "FAKECUDA_DEVICES": "4",
                    "FAKECUDA_MACHINE": str(rig.folder / "machine")}
        fake = rig.build / "tests" / "fakecuda" / "libfakecuda.so"
        self.fake = str(fake) if fake.exists() else None
        self.env["AMB_CUDA_LIBRARY"] = self.fake or "no driver"

    def arguments(self, *words):
        return [self.rig.program("broker-ctl"), "local", *map(str, words)]

    def start(self, *words, env=None, **options):
        return self.rig.start(self.arguments(*words), env={**self.env, **(env or {})}, **options)

    def run(self, *words, env=None, seconds=60):
        """The exit code, the lines of standard output, and the text of standard error."""
        done = subprocess.run(self.arguments(*words), capture_output=True, check=False, timeout=seconds,
                              stdin=subprocess.DEVNULL,
                              env={**os.environ, **self.rig.env, **self.env, **(env or {})})
        self.check_clear()
        return done.returncode, done.stdout.decode().splitlines(), done.stderr.decode()

    def fails(self, code, word, *words, env=None):
        got, _, text = self.run(*words, env=env)
        check(got == code, f"local {words}: {got}, not {code}: {text}")
        check(word in text, f"local {words}: nothing of '{word}' in: {text}")

    def check_clear(self):
        """Nothing runs, and nothing is left in the folder for folders."""
        left = alive(self.word)
        check(not left, f"left: {[(pid, name_of(pid)) for pid in left]}")
        files = list(self.tmp.iterdir())
        check(not files, f"left: {files}")

    def broker(self):
        pids = [pid for pid in alive(self.word) if name_of(pid) == "brokerd"]
        check(len(pids) == 1, f"brokers: {pids}")
        return pids[0]

    def await_end(self, since):
        limit = patience(PROMISED_S)
        while alive(self.word) or list(self.tmp.iterdir()):
            if time.monotonic() - since > limit:
                self.check_clear()
            time.sleep(0.005)


@pytest.fixture
def locals_(rig):
    setups = Locals(rig)
    yield setups
    for pid in alive(setups.word):  # of a test that has failed
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def needs_gpus(setups):
    if setups.fake is None:
        pytest.skip("a build without CUDA")


def await_lines(process, word, count):
    """`count` lines that end so; the ranks that they come from."""
    ranks = set()
    while len(ranks) < count:
        line = process.line(60)
        check(line.endswith(f"] {word}"), f"a line '{line}'")
        ranks.add(line.split("]")[0].lstrip("["))
    return ranks


# ---- what the processes are given ----

SHOW = "echo $AMB_RANK $AMB_SIZE $AMB_DEVICE $CUDA_VISIBLE_DEVICES $AMB_URL"


def test_each_gpu_has_a_process_whose_first_device_it_is(locals_):
    needs_gpus(locals_)
    code, lines, error = locals_.run("--per-gpu", "--", "sh", "-c", SHOW)
    check(code == 0 and error == "", f"{code} {error}")
    check(len(lines) == 4, f"{lines}")
    for rank, line in enumerate(sorted(lines)):
        prefix, own, size, device, visible, url = line.split()
        check((prefix, own, size) == (f"[{rank}]", str(rank), "4"), line)
        check(device == UUID % rank, line)
        check(visible.split(",") == [UUID % ((rank + i) % 4) for i in range(4)], line)
        check(url.startswith(f"unix://{locals_.tmp}/"), line)


ASK_DRIVER = """
import ctypes, os
cuda = ctypes.CDLL(os.environ["AMB_CUDA_LIBRARY"])
uuid = ctypes.create_string_buffer(16)
device = ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDeviceGetUuid_v2(uuid, device) == 0
assert os.environ["AMB_DEVICE"].replace("-", "") == "GPU" + uuid.raw.hex(), uuid.raw.hex()
print("right device")
"""


def test_the_driver_s_device_0_is_the_one_that_is_named(locals_):
    needs_gpus(locals_)
    if "sanitize" in os.environ.get("LD_PRELOAD", "") or locals_.rig.is_sanitized():
        pytest.skip("a sanitized driver does not load into Python")
    # Without an option: the same, since there are GPUs. Two of four, in an order of the user's.
    for env, count in (({}, 4), ({"CUDA_VISIBLE_DEVICES": f"3,{UUID % 1}"}, 2)):
        code, lines, error = locals_.run("--", "python3", "-c", ASK_DRIVER, env=env)
        check(code == 0, f"{code} {error}")
        check(sorted(lines) == [f"[{rank}] right device" for rank in range(count)], f"{lines} {error}")


def test_more_processes_than_gpus_share_them_and_fewer_have_the_first(locals_):
    needs_gpus(locals_)
    for count in (2, 6):
        _, lines, _ = locals_.run("-n", count, "--", "sh", "-c", SHOW)
        devices = [line.split()[3] for line in sorted(lines)]
        check(devices == [UUID % (rank % 4) for rank in range(count)], f"{devices}")


def test_parts_of_gpus_have_a_process_each(locals_):
    needs_gpus(locals_)
    parts = [f"MIG-fbfbfbfb-fbfb-fbfb-fbfb-fbfbfbfbfb{number:02x}" for number in (5, 3, 4)]
    code, lines, error = locals_.run("--per-gpu", "--", "sh", "-c", SHOW, env={
        "FAKECUDA_MIG": "3", "CUDA_VISIBLE_DEVICES": ",".join(parts)})
    check(code == 0, f"{code} {error}")
    devices = [line.split()[3] for line in sorted(lines)]
    check(devices == parts, f"{devices}")
    # As drivers before 470 named them.
    old = [f"MIG-GPU-fafafafa-fafa-fafa-fafa-fafafafafa00/{number}/0" for number in (5, 3, 13)]
    code, lines, error = locals_.run("--per-gpu", "--", "sh", "-c", SHOW, env={
        "FAKECUDA_MIG": "3", "CUDA_VISIBLE_DEVICES": ",".join(old)})
    devices = [line.split()[3] for line in sorted(lines)]
    check(code == 0 and [int(device[-2:], 16) for device in devices] == [5, 3, 13], f"{devices} {error}")


def test_without_a_gpu_there_is_a_process_or_as_many_as_wanted(locals_):
    env = {"FAKECUDA_DEVICES": "0", "AMB_DEVICE": "of somebody else"}
    for words, count in (([], 1), (["-n", 3], 3)):
        code, lines, error = locals_.run(*words, "--", "sh", "-c", "echo $AMB_RANK/$AMB_SIZE$AMB_DEVICE",
                                         env=env)
        check(code == 0 and error == "", f"{code} {error}")
        check(sorted(lines) == [f"[{i}] {i}/{count}" for i in range(count)], f"{lines}")


def test_each_gpu_in_use_has_a_pool(locals_):
    needs_gpus(locals_)
    ctl = locals_.rig.program("broker-ctl")
    script = f'[ $AMB_RANK != 0 ] || {ctl} -o json memory'
    code, lines, error = locals_.run("-n", 3, "--pool", "8M", "--", "sh", "-c", script)
    check(code == 0, f"{code} {error}")
    rows = json.loads(lines[0].split(" ", 1)[1])["memory"]
    pools = [row for row in rows if "cuda" in json.dumps(row)]
    check(len(pools) == 3, f"{rows}")
    # Of the GPUs that the user has chosen, and doctor finds nothing strange in that.
    script = (f'[ $AMB_RANK != 0 ] || {{ {ctl} -o json memory; {ctl} -o json doctor; }}; '
              f'{ctl} pub a.b --count 1')
    code, lines, error = locals_.run("--pool", "8M", "--", "sh", "-c", script,
                                     env={"CUDA_VISIBLE_DEVICES": "3,1"})
    check(code == 0, f"{code} {error}")
    rows, findings = (json.loads(line.split(" ", 1)[1]) for line in lines if "{" in line)
    check(sorted(uuid[-2:] for uuid in set(re.findall("GPU-[-0-9a-f]*", json.dumps(rows)))) == ["01", "03"],
          f"{rows}")
    check("gpu visible" not in json.dumps(findings), f"{findings}")


def test_messages_go_from_gpu_to_gpu(locals_):
    needs_gpus(locals_)
    bench = locals_.rig.program("broker-bench")
    script = f"{bench} throughput --topic t$AMB_RANK --memory cuda --size 64k --post --count 200 -o json"
    code, lines, error = locals_.run("--pool", "64M", "--", "sh", "-c", script, seconds=120)
    check(code == 0, f"{code} {error}")
    for line in lines:
        result = json.loads(line.split(" ", 1)[1])
        check(result["lost"] == 0 and result["corrupt"] == 0, line)
    check(len(lines) == 4, f"{lines}")


def make_sysfs(folder, lists):
    """Of each GPU the list of its node's cores; None: the machine does not say."""
    for number, cores in enumerate(lists):
        slot = folder / "bus/pci/devices" / f"0000:{number + 1:02x}:00.0"
        slot.mkdir(parents=True)
        (slot / "numa_node").write_text("-1\n" if cores is None else f"{number}\n")
        if cores is not None:
            node = folder / "devices/system/node" / f"node{number}"
            node.mkdir(parents=True)
            (node / "cpulist").write_text(f"{cores}\n")


def test_processes_run_near_their_gpu(locals_):
    needs_gpus(locals_)
    cores = sorted(os.sched_getaffinity(0))
    sysfs = locals_.rig.folder / "sysfs"
    make_sysfs(sysfs, [cores[0], f"{cores[-1]},8000", "8000-8001", None])
    code, lines, error = locals_.run(
        "--per-gpu", "--sysfs", sysfs, "--", "python3", "-c",
        "import os; print(*sorted(os.sched_getaffinity(0)))")
    check(code == 0, f"{code} {error}")
    everywhere = " ".join(map(str, cores))
    check(sorted(lines) == [f"[0] {cores[0]}", f"[1] {cores[-1]}", f"[2] {everywhere}",
                            f"[3] {everywhere}"], f"{lines}")
    check("rank 2 runs on any core" in error and "0000:03:00.0, node 2: 8000-8001" in error, error)
    check("rank 3" not in error and "rank 1" not in error, error)


def test_no_port_is_opened(locals_):
    ctl = locals_.rig.program("broker-ctl")
    script = f'{ctl} --url "$AMB_URL?link=ucx" pub a.b --count 1 2>/dev/null && echo "it has ucx"; {STAY}'
    process = locals_.start("-n", 2, "--", "sh", "-c", script)
    await_lines(process, "up", 2)
    pid = locals_.broker()
    inodes = {os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        rows = pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        own = [row for row in rows if f"socket:[{row.split()[9]}]" in inodes]
        check(not own, f"{table}: {own}")
    folder = next(locals_.tmp.iterdir())
    check(folder.stat().st_mode & 0o777 == 0o700, "others may look into the folder")
    process.signal(signal.SIGTERM)
    process.signal(signal.SIGINT)
    process.wait()
    locals_.check_clear()


# ---- how it ends ----

def test_wrong_words_are_refused(locals_):
    locals_.fails(USAGE, "local COMMAND: is missing")
    locals_.fails(USAGE, "local COMMAND: is missing", "-n", 2, "--")
    locals_.fails(USAGE, "local --per-gpu: does not go with -n", "--per-gpu", "-n", 2, "--", "true")
    locals_.fails(USAGE, "number of processes", "-n", 0, "--", "true")
    locals_.fails(USAGE, "number of processes", "-n", 257, "--", "true")
    locals_.fails(USAGE, "takes bytes", "--pool", "much", "--", "true")
    locals_.fails(USAGE, "local --nonsense: no such option", "--nonsense", "--", "true")
    got = subprocess.run([locals_.rig.program("broker-ctl"), "--url", "unix:///x", "local", "true"],
                         capture_output=True, check=False)
    check(got.returncode == USAGE and b"local --url: has a broker of its own" in got.stderr, f"{got}")


def test_no_gpu_is_said(locals_):
    none = {"FAKECUDA_DEVICES": "0"}
    locals_.fails(NO_BROKER, "no GPU", "--per-gpu", "--", "true", env=none)
    locals_.fails(NO_BROKER, "no GPU", "-n", 2, "--pool", "8M", "--", "true", env=none)
    locals_.fails(NO_BROKER, "no GPU", "--per-gpu", "--", "true", env={"AMB_CUDA_LIBRARY": "/none"})


def test_a_command_s_code_is_ours(locals_):
    locals_.fails(7, "rank 0 ended with code 7", "-n", 1, "--", "sh", "-c", "exit 7")
    locals_.fails(127, "[0] no-such-program: No such file", "-n", 1, "--", "no-such-program")
    locals_.fails(126, "ermission denied", "-n", 1, "--", "/dev/null")
    locals_.fails(128 + 9, "rank 0 was ended by signal 9", "-n", 1, "--", "sh", "-c", "kill -9 $$")
    code, lines, error = locals_.run("-n", 2, "--", "sh", "-c", "echo out; echo err >&2")
    check(code == 0 and sorted(lines) == ["[0] out", "[1] out"], f"{code} {lines}")
    check(sorted(error.splitlines()) == ["[0] err", "[1] err"], error)


def test_a_broker_that_does_not_start_is_said(locals_):
    locals_.fails(NO_BROKER, "server.nonsense", "-n", 1, "--broker-option", "server.nonsense=1", "--", "true")
    locals_.fails(NO_BROKER, "brokerd did not start", "-n", 1, "--brokerd", "/no/brokerd", "--", "true")


def test_the_first_failure_ends_all_with_its_code(locals_):
    script = ('case $AMB_RANK in 2) read -r line <$FIFO; exit 9;; *) '
              'trap "echo told; exit 3" TERM; echo up; while :; do sleep 1000 & wait $!; done;; esac')
    fifo = locals_.rig.folder / "fifo"
    os.mkfifo(fifo)
    process = locals_.start("-n", 4, "--", "sh", "-c", script, env={"FIFO": str(fifo)})
    await_lines(process, "up", 3)
    fifo.write_text("go\n")
    lines = process.all_lines()
    check(process.wait() == 9, f"{process.popen.returncode} {process.log()}")
    check(sorted(lines) == ["[0] told", "[1] told", "[3] told"], f"{lines}")
    check("rank 2 ended with code 9: the others end" in process.log(), process.log())
    locals_.check_clear()


def test_processes_that_do_not_listen_are_killed(locals_):
    script = f'[ $AMB_RANK != 0 ] || {{ read -r line <$FIFO; exit 5; }}; {STAY}'
    fifo = locals_.rig.folder / "fifo"
    os.mkfifo(fifo)
    process = locals_.start("-n", 2, "--", "sh", "-c", script, env={"FIFO": str(fifo)})
    await_lines(process, "up", 1)
    fifo.write_text("go\n")
    check(process.wait(30) == 5, process.log())
    locals_.check_clear()


def test_a_broker_that_is_killed_ends_all(locals_):
    process = locals_.start("-n", 2, "--", "sh", "-c", "echo up; exec sleep 1000")
    await_lines(process, "up", 2)
    os.kill(locals_.broker(), signal.SIGKILL)
    check(process.wait() == NO_BROKER, process.log())
    check("brokerd was ended by signal 9" in process.log(), process.log())
    locals_.check_clear()


def test_its_time_ends_it(locals_):
    began = time.monotonic()
    locals_.fails(TIME, "the time has passed", "-n", 2, "--timeout", "300ms", "--", "sleep", "1000")
    check(time.monotonic() - began < 20, "it takes too long")


# Children, grandchildren in sessions of their own, orphans: all of them deaf.
FAMILY = """
sh -c "$STAY" &
setsid sh -c "$STAY" &
(setsid sh -c "$STAY" >&2 &) &
eval "$STAY"
"""
FAMILY_LINES = 3


def start_families(locals_):
    check(shutil.which("setsid") is not None, "there is no setsid")
    process = locals_.start("-n", 2, "--", "sh", "-c", FAMILY, env={"STAY": STAY})
    for _ in range(2 * FAMILY_LINES):
        check(process.line(60).endswith("] up"), "a line")
    until(20, lambda: process.log().count("] up") == 2, "the orphans are there")
    return process


def keeper_of(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    check(len(children) == 1, f"children of broker-ctl: {children}")
    return int(children[0])


@pytest.mark.parametrize("victim", ["broker-ctl", "keeper", "keeper of a stopped one"])
def test_nothing_outlives_a_sigkill(locals_, victim):
    process = start_families(locals_)
    check(len(alive(locals_.word)) >= 3 + 2 * 4, f"{alive(locals_.word)}")
    keeper = keeper_of(process.pid)
    since = time.monotonic()
    if victim == "keeper of a stopped one":
        process.signal(signal.SIGSTOP)
        os.kill(keeper, signal.SIGKILL)
        process.signal(signal.SIGCONT)
    else:
        os.kill(process.pid if victim == "broker-ctl" else keeper, signal.SIGKILL)
    if victim != "broker-ctl":
        check(process.wait() == 70, process.log())
        check("the process that kept the others was ended by signal 9" in process.log(), process.log())
    locals_.await_end(since)


# Its grandchildren stay in a session with their parent, so the kernel does not wake stopped ones up.
ADOPT = """
import ctypes, signal, subprocess, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
print(subprocess.Popen(sys.argv[1:]).pid, flush=True)
signal.pause()
"""


def test_a_stopped_keeper_hears_of_a_sigkill(locals_):
    name = locals_.word.split("=")[0]
    env = {key: value for key, value in locals_.env.items() if key != name}
    words = locals_.arguments("-n", 1, "--", "sh", "-c", STAY)
    adopter = locals_.rig.start(["python3", "-c", ADOPT, "env", locals_.word, *words], env=env)
    pid = int(adopter.line(60))
    await_lines(adopter, "up", 1)
    keeper = keeper_of(pid)
    os.kill(keeper, signal.SIGSTOP)
    until(20, lambda: state_of(keeper) == "T", "it is stopped")
    since = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    locals_.await_end(since)
    adopter.kill()


def test_what_ranks_leave_behind_ends_with_them(locals_):
    code, lines, error = locals_.run("-n", 2, "--", "sh", "-c", "setsid sh -c \"$STAY\" & sleep 0.3",
                                     env={"STAY": STAY})
    check(code == 0 and set(lines) <= {"[0] up", "[1] up"}, f"{code} {lines} {error}")


def test_children_that_it_did_not_start_are_left_alone(locals_):
    # A shell becomes broker-ctl and leaves it a child. So it is with `> >(tee log)` in bash.
    done = locals_.rig.folder / "done"
    script = f'(read -r word <"$FIFO"; echo "$word" >{done}) & exec "$@"'
    fifo = locals_.rig.folder / "fifo"
    os.mkfifo(fifo)
    process = locals_.rig.start(["sh", "-c", script, "sh", *locals_.arguments("-n", 1, "--", "true")],
                                env={**locals_.env, "FIFO": str(fifo)})
    check(process.wait() == 0, process.log())
    check([name_of(pid) for pid in alive(locals_.word)] == ["sh"], f"{alive(locals_.word)}")
    fifo.write_text("lives\n")
    until(20, lambda: done.exists() and done.read_text() == "lives\n", "it goes on")
    until(20, lambda: not alive(locals_.word), "it ends by itself")
    locals_.check_clear()


# It leaves the group that it leads, and hears nothing but SIGKILL.
MOVE = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
os.setpgid(0, os.getpgid(os.getppid()))
print("up", flush=True)
time.sleep(1000)
"""


def test_a_process_that_has_left_its_group_is_ended(locals_):
    process = locals_.start("-n", 2, "--", "python3", "-c", MOVE)
    await_lines(process, "up", 2)
    process.signal(signal.SIGTERM)
    process.signal(signal.SIGINT)
    check(process.wait() == 128 + 9, process.log())
    locals_.check_clear()


def test_without_descriptors_no_folder_is_left(locals_):
    limited = ["sh", "-c", 'ulimit -n 4; exec "$@"', "sh", *locals_.arguments("-n", 1, "--", "true")]
    done = subprocess.run(limited, capture_output=True, check=False, timeout=60,
                          env={**os.environ, **locals_.rig.env, **locals_.env})
    check(done.returncode == 70 and b"Too many open files" in done.stderr, f"{done}")
    locals_.check_clear()


def test_signals_are_passed_on(locals_):
    script = ('trap "echo one" USR1; trap "echo two" USR2; trap "echo bye; exit 0" TERM; echo up; '
              'while :; do sleep 1000 & wait $!; done')
    process = locals_.start("-n", 3, "--", "sh", "-c", script)
    await_lines(process, "up", 3)
    for number, word in ((signal.SIGUSR1, "one"), (signal.SIGUSR2, "two"), (signal.SIGTERM, "bye")):
        process.signal(number)
        await_lines(process, word, 3)
    check(process.wait() == 0, process.log())
    locals_.check_clear()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_a_signal_that_nobody_handles_is_the_code(locals_, number):
    process = locals_.start("-n", 2, "--", "sh", "-c", "echo up; exec sleep 1000")
    await_lines(process, "up", 2)
    process.signal(number)
    check(process.wait() == 128 + number, process.log())
    locals_.check_clear()


@pytest.mark.parametrize("signals", [1, 2])
def test_a_second_signal_ends_it_at_once(locals_, signals):
    """However slow this machine is: the time that passes without a second one is told."""
    process = start_families(locals_)
    for number in (signal.SIGTERM, signal.SIGINT)[:signals]:
        process.signal(number)
    check(process.wait() == 128 + 9, process.log())
    check(("2 of 2 processes have not ended in time" in process.log()) == (signals == 1), process.log())
    locals_.check_clear()


def test_a_stop_is_passed_on_and_undone(locals_):
    process = locals_.start("-n", 1, "--", "sh", "-c", "echo up; exec sleep 1000")
    await_lines(process, "up", 1)
    sleeper = until(20, lambda: next((pid for pid in alive(locals_.word) if name_of(pid) == "sleep"), None),
                    "it sleeps")

    process.signal(signal.SIGTSTP)
    until(20, lambda: state_of(sleeper) == "T" and state_of(process.pid) == "T", "both are stopped")
    process.signal(signal.SIGCONT)
    until(20, lambda: state_of(sleeper) == "S" and state_of(process.pid) == "S", "both go on")
    process.signal(signal.SIGTSTP)
    until(20, lambda: state_of(process.pid) == "T", "it is stopped")
    os.kill(process.pid, signal.SIGCONT)
    process.signal(signal.SIGTERM)
    check(process.wait() == 128 + 15, process.log())
    locals_.check_clear()


# ---- output ----

def test_lines_of_processes_do_not_mix(locals_):
    script = "import sys\nfor i in range(20000): print(str(i) * 12)\nprint('x' * 40000, end='')"
    code, lines, error = locals_.run("-n", 3, "--", "python3", "-c", script)
    check(code == 0 and error == "", f"{code} {error}")
    for rank in range(3):
        own = [line.split(" ", 1)[1] for line in lines if line.startswith(f"[{rank}] ")]
        check(own[:20000] == [str(i) * 12 for i in range(20000)], f"rank {rank}")
        check("".join(own[20000:]) == "x" * 40000, f"rank {rank}: {list(map(len, own[20000:]))}")
    check(all(line.startswith("[") for line in lines), "a line without its rank")


def test_a_reader_that_has_gone_ends_it_quietly(locals_):
    process = locals_.start("-n", 2, "--", "sh", "-c", "while :; do echo line; done")
    check(process.line(60).endswith("] line"), "a line")
    process.popen.stdout.close()
    check(process.wait() == 0, f"{process.popen.returncode} {process.log()}")
    check(process.log() == "", process.log())
    locals_.check_clear()


def await_blocked(setups, process, count):
    check(process.line(60).endswith("nobody reads"), "a line")

    def are_blocked():
        shells = [pid for pid in alive(setups.word) if name_of(pid) == "sh"]
        return [state_of(pid) for pid in shells] == ["S"] * count

    until(60, are_blocked, "the pipes are full")


def test_a_reader_that_is_stuck_keeps_nobody_alive(locals_):
    process = locals_.start("-n", 2, "--", "sh", "-c", "while :; do echo a line that nobody reads; done")
    await_blocked(locals_, process, 2)
    since = time.monotonic()
    process.kill()
    locals_.await_end(since)


def test_output_that_takes_no_more_is_a_failure(locals_):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(locals_.arguments("-n", 2, "--", "echo", "line"), stdout=full,
                              stderr=subprocess.PIPE, check=False, timeout=60,
                              env={**os.environ, **locals_.rig.env, **locals_.env})
    check(done.returncode == 70 and b"standard output: No space left" in done.stderr, f"{done}")
    locals_.check_clear()


@pytest.mark.parametrize("how, code", [("time", TIME), ("signal", 128 + 15)])
def test_a_reader_that_is_stuck_does_not_stop_its_end(locals_, how, code):
    words = ["--timeout", "5s"] if how == "time" else []
    process = locals_.start(*words, "-n", 1, "--", "sh", "-c", "while :; do echo a line that nobody reads; done")
    if how == "signal":
        await_blocked(locals_, process, 1)
        process.signal(signal.SIGTERM)
    check(process.wait(60) == code, f"{process.popen.returncode} {process.log()}")
    locals_.check_clear()


def test_signals_that_a_process_ignores_are_its_caller_s(locals_):
    script = "grep SigIgn /proc/self/status"
    before = subprocess.run(["sh", "-c", script], capture_output=True, check=True, text=True).stdout.strip()
    _, lines, _ = locals_.run("-n", 1, "--", "sh", "-c", script)
    check(lines == [f"[0] {before}"], f"{lines}, not {before}")


def test_descriptors_and_standard_input_are_the_process_s_own(locals_):
    script = 'ls -l /proc/self/fd | grep -c -e /dev/null -e pipe; cat; exec 2>&1; readlink /proc/self/fd/0'
    code, lines, _ = locals_.run("-n", 1, "--", "sh", "-c", script)
    check(code == 0 and lines == ["[0] 3", "[0] /dev/null"], f"{lines}")


def test_help_names_it(rig):
    got = subprocess.run([rig.program("broker-ctl"), "local", "--help"], capture_output=True, check=True)
    check(b"--per-gpu" in got.stdout, f"{got}")
