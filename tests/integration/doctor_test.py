# SPDX-License-Identifier: Apache-2.0
"""Wrong settings, each named by the doctor with its fix; and sound ones, of which it says nothing.

    doctor_test.py

Those of REAL are made on this machine: limits, namespaces, modes, the environment, load. Those of FALSE lie in a folder
that stands for /proc, /sys and /dev (AMB_DOCTOR_ROOT). Both are looked for in docs/doctor.md, too.
"""
import contextlib
import csv
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import types

import pytest

from harness import as_user, check, port_of, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/doctor.md").read_text()
WELL, WARNING, ERROR, USAGE, UNAVAILABLE, FORBIDDEN, CONFIG = 0, 1, 2, 64, 69, 77, 78
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max open files            65536                65536                files
Max locked memory         {locked}                unlimited            bytes
"""
# A machine with nothing to mend: two processors, an interface, an RDMA device, a GPU.
SOUND = {
    "proc/self/limits": LIMITS.format(locked="unlimited"),
    "proc/self/cgroup": "0::/a\n",
    "proc/self/status": "Name:\tbrokerd\nCpus_allowed_list:\t0-1\n",
    "proc/self/mounts": "tmpfs /dev/shm tmpfs rw,size=8388608k 0 0\n",
    "proc/self/environ": "HOME=/\0",
    "proc/meminfo": "MemTotal:       16777216 kB\n",
    "proc/driver/nvidia/version": "NVRM version: 555.42\n",
    "sys/fs/cgroup/a/memory.max": "max\n",
    "sys/fs/cgroup/a/cpu.max": "max 100000\n",
    "sys/kernel/mm/transparent_hugepage/shmem_enabled": "always [within_size] advise never deny force\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/class/net/lo/operstate": "unknown\n",
    "sys/class/net/lo/mtu": "65536\n",
    "sys/class/net/ib0/operstate": "up\n",
    "sys/class/net/ib0/speed": "200000\n",
    "sys/class/net/ib0/mtu": "9000\n",
    "sys/class/net/ib0/dev_port": "0\n",
    "sys/class/net/ib0/device/infiniband/mlx5_0/node_type": "1: CA\n",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    "sys/module/nvidia_peermem/version": "1\n",
    "dev/infiniband/uverbs0": "",
    "dev/nvidiactl": "",
    "dev/nvidia-uvm": "",
    "dev/nvidia0": "",
    "etc/libibverbs.d/mlx5.driver": "driver mlx5\n",
}
# Of a broker that uses all of it.
OPTIONS = ("memory.host.size=1G", "memory.cuda.size=256M", 'transports.trusted=["ib0"]', "server.workers=2")
# By check: files that are other (None: they are not there), options beside those, and what the finding and the fix say.
FALSE = {
    "memlock": ({"proc/self/limits": LIMITS.format(locked="8388608  ")}, (), "8388608 bytes may be locked",
                "LimitMEMLOCK=infinity"),
    "memory-cgroup": ({"sys/fs/cgroup/a/memory.max": "536870912\n"}, (), "has 536870912 bytes of memory, and "
                      "memory.host.size is 1073741824", "--memory"),
    "huge-pages": ({"sys/kernel/mm/transparent_hugepage/shmem_enabled": "always within_size [never]\n"}, (),
                   "pages of 4 KiB", "echo within_size"),
    "cpu-quota": ({"sys/fs/cgroup/a/cpu.max": "50000 100000\n"}, (), "has 0.5 processors, and there are 2 workers",
                  "CPUQuota="),
    "clock-slow": ({"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n"}, (),
                   "the clock source is hpet", "tsc"),
    "interface-down": ({"sys/class/net/ib0/operstate": "down\n"}, (), "ib0 is trusted, and is down", "ip link"),
    "interface-slow": ({"sys/class/net/ib0/speed": "100\n"}, (), "100 Mb/s (wanted: at least 1000)", "cable"),
    "interface-mtu-small": ({"sys/class/net/ib0/mtu": "576\n"}, (), "packets of 576 bytes", "mtu 1500"),
    "rdma-port": ({"sys/class/infiniband/mlx5_0/ports/1/state": "2: INIT\n"}, (), "2: INIT", "subnet manager"),
    "gpu-hidden": ({"dev/nvidia-uvm": None}, (), "/dev/nvidia-uvm is not shown here", "--gpus all"),
    "gpu-unused": ({}, ("memory.cuda.size=0",), "555.42", "memory.cuda.size"),
    "peer-memory": ({"sys/module/nvidia_peermem/version": None}, (), "no peer memory module", "nvidia_peermem"),
    "rdma-hidden": ({"dev/infiniband/uverbs0": None}, (), "/dev/infiniband are not shown here", "ib_uverbs"),
    "rdma-drivers": ({"etc/libibverbs.d/mlx5.driver": None}, (), "no driver for any device", "ibverbs-providers"),
}


def read(text):
    return json.loads(text)["doctor"]


def of(rows, name):
    """The findings of a check, each with a fix, a link and a heading on the page."""
    found = [row for row in rows if row["id"] == name]
    for row in found:
        check(row["fix"] and row["link"] == f"docs/doctor.md#{name}" and f"\n### {name}\n" in PAGE, row)
    return found


def expect(rows, name, finding, fix):
    found = of(rows, name)
    check(len(found) == 1, f"{name}: {found or rows}")
    check(finding in found[0]["finding"] and fix in found[0]["fix"], f"{name}: {found}")


def faults(rows):
    """Everything that is not well."""
    return [row for row in rows if row["state"] != "ok"]


# ---- machines of folders ----

class Machine:
    """A false root, and a UCX that has all modules."""

    def __init__(self, rig, folder):
        self.rig = rig
        self.root = rig.folder / "machine"
        self.ucx = rig.folder / "ucx"
        self.run = folder / "run"
        self.run.mkdir()
        shutil.copytree(rig.build / "tests" / "stub-ucx" / "other", self.ucx)
        modules = self.ucx / "ucx"
        modules.mkdir(exist_ok=True)
        for name in ("ib", "cuda"):
            (modules / f"libuct_{name}.so.0").write_bytes(b"")
        self.put(SOUND)

    def put(self, files):
        for name, text in files.items():
            path = self.root / name
            if text is None:
                path.unlink()
                with contextlib.suppress(OSError):
                    path.parent.rmdir()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(text, bytes):
                path.write_bytes(text)
            else:
                path.write_text(text)

    def doctor(self, *options, code, root=True, prefix=(), form="json", **env):
        words = [word for option in (*OPTIONS, *options) for word in ("-o", option)]
        environment = {**os.environ, "AMB_UCX_LIBRARY": str(self.ucx), **env}
        if root:
            environment["AMB_DOCTOR_ROOT"] = str(self.root)
        done = subprocess.run(
            [*prefix, self.rig.program("brokerd"), "--doctor", "--dev", "--output", form, "--listen",
             f"unix://{self.run}/b.sock", *words], env=environment, capture_output=True, text=True, timeout=60, check=False)
        check(done.returncode == code and done.stderr == "", done)
        return read(done.stdout) if form == "json" else done.stdout


@pytest.fixture
def folder():
    """In memory, as /run is: counters lie beside the socket."""
    with tempfile.TemporaryDirectory(prefix="amb-doctor-", dir="/dev/shm") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


@pytest.fixture
def machine(rig, folder):
    return Machine(rig, folder)


def test_a_sound_machine_has_no_finding(machine):
    rows = machine.doctor(code=WELL)
    check(rows and not faults(rows), faults(rows))


@pytest.mark.parametrize("name", FALSE)
def test_a_machine_with_one_fault(machine, name):
    files, options, finding, fix = FALSE[name]
    machine.put(files)
    rows = machine.doctor(*options, code=WELL if name == "huge-pages" else WARNING)
    expect(rows, name, finding, fix)
    check(len(faults(rows)) == 1, faults(rows))


def test_a_ucx_without_cuda(machine):
    (machine.ucx / "ucx" / "libuct_cuda.so.0").unlink()
    expect(machine.doctor(code=WARNING), "ucx-no-cuda", "no CUDA modules", "libuct_cuda.so")


def test_a_ucx_without_infiniband(machine):
    (machine.ucx / "ucx" / "libuct_ib.so.0").unlink()
    expect(machine.doctor(code=WARNING), "rdma-no-module", "no InfiniBand module", "ucx-ib")


def test_an_interface_that_is_not_there(machine):
    rows = machine.doctor('transports.trusted=["ib7"]', code=ERROR)
    expect(rows, "interface-missing", 'no such interface (got "ib7"', "ip link")
    check(len(faults(rows)) == 1, faults(rows))


def test_devices_that_may_not_be_opened(machine, other_uids):
    for folder in (machine.root, machine.ucx):
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    machine.run.chmod(0o777)
    for name, check_id in (("dev/infiniband/uverbs0", "rdma-closed"), ("dev/nvidia0", "gpu-closed")):
        path = machine.root / name
        for device in ("dev/infiniband/uverbs0", "dev/nvidia0", "dev/nvidiactl", "dev/nvidia-uvm"):
            (machine.root / device).chmod(0o666)
        path.chmod(0o600)
        rows = machine.doctor(code=WARNING, prefix=as_user(12345))
        expect(rows, check_id, f"/{name} may not be opened", "group")


HOSTILE = {"huge": b"x" * (1 << 20), "binary": bytes(range(256)) * 64, "empty": b"", "zeros": b"\0" * 70000,
           "wrong": b"-1\n99999999999999999999999999\n"}


@pytest.mark.parametrize("kind", [*HOSTILE, "missing", "folders", "loops", "unreadable"])
def test_files_may_have_any_content(machine, kind):
    for name in SOUND:
        path = machine.root / name
        if name.startswith("sys/class/net") and kind in ("missing", "folders", "loops"):
            continue  # The configuration itself needs the interface.
        if kind == "unreadable":
            path.chmod(0)
            continue
        path.unlink()
        if kind == "folders":
            path.mkdir()
        elif kind == "loops":
            path.symlink_to(path)
        elif kind != "missing":
            path.write_bytes(HOSTILE[kind])
    prefix = ()
    if kind == "unreadable" and os.geteuid() == 0:
        for folder in (machine.root, machine.ucx, machine.run):
            subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        for name in SOUND:
            (machine.root / name).chmod(0)
        prefix = as_user(12345)
    for form in ("json", "table", "jsonl", "csv"):
        words = [word for option in OPTIONS for word in ("-o", option)]
        done = subprocess.run(
            [*prefix, machine.rig.program("brokerd"), "--doctor", "--dev", "--output", form, "--listen",
             f"unix://{machine.run}/b.sock", *words],
            env={**os.environ, "AMB_UCX_LIBRARY": str(machine.ucx), "AMB_DOCTOR_ROOT": str(machine.root)},
            capture_output=True, timeout=60, check=False)
        check(done.returncode in (WELL, WARNING, ERROR) and done.stderr == b"", done)
        check(b"\x1b" not in done.stdout and b"\x00" not in done.stdout and done.stdout.decode(), "it can be read")


# ---- this machine, before a start ----

def limited(name, value):
    """A prefix for a command."""
    return ("prlimit", f"--{name}={value}:{value}")


def plain(machine, *options, code, **more):
    """As machine.doctor, on this machine as it is."""
    return machine.doctor('transports.trusted=["lo"]', "memory.cuda.size=0", *options, code=code, root=False, **more)


def test_limits_of_this_process(machine):
    rows = plain(machine, code=WARNING, prefix=limited("nofile", 1024))
    expect(rows, "descriptors-few", "1024 descriptors may be open", "LimitNOFILE=")
    rows = plain(machine, "server.max_connections=5000", code=CONFIG, prefix=limited("nofile", 1024))
    expect(rows, "descriptors-short", "(got ulimit -n 1024, allowed at least", "ulimit -n")
    if not machine.rig.is_sanitized():  # Sanitizers need more address space.
        rows = plain(machine, "memory.host.grow_on_demand=false", code=ERROR, prefix=limited("as", 1 << 30))
        expect(rows, "address-space", "memory.host.size = 1G", "ulimit -v")


def test_fewer_processors_than_workers(machine):
    first = min(os.sched_getaffinity(0))
    rows = plain(machine, code=WARNING, prefix=("taskset", "-c", str(first)))
    expect(rows, "cpu-affinity", f"may run on 1 processors ({first}), and there are 2 workers", "CPUAffinity=")


def test_more_memory_than_there_is(machine):
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    rows = plain(machine, f"memory.host.size={(pages >> 30) + 2}G", code=WARNING)
    expect(rows, "memory-ram", "and memory.host.size is ", "lower memory.host.size")


def test_variables_that_are_ignored(machine):
    rows = plain(machine, code=WARNING, UCX_NET_DEVICES="eth0")
    expect(rows, "ucx-variables", "UCX_NET_DEVICES is set in the environment, and is ignored", "unset UCX_NET_DEVICES")


def test_files_and_doors(machine, rig):
    token = rig.folder / "token"
    token.write_text("secret\n")
    token.chmod(0o644)
    rows = plain(machine, f"auth.token_file={token}", code=CONFIG)
    expect(rows, "token-file", "can be read by others (got mode 0644", "chmod 600")
    machine.run.chmod(0o777)
    expect(plain(machine, code=WARNING), "socket-folder-open", f"{machine.run} (mode 0777)", "chmod o-w")
    machine.run.rmdir()
    expect(plain(machine, code=ERROR), "socket-folder", f"{machine.run} is not there", "RuntimeDirectory=")
    machine.run.mkdir()
    rows = plain(machine, "server.counters_file=none", code=WARNING)
    expect(rows, "counters-private", 'server.counters_file is "none"', "in memory")
    done = subprocess.run([rig.program("brokerd"), "--doctor", "--output", "json", "--dev", "--listen", "tcp://0.0.0.0:0",
                           "-o", "server.insecure=true"], capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == ERROR, done)
    expect(read(done.stdout), "tcp-open", "tcp://0.0.0.0:0 takes everybody in", "auth.token_file")
    done = subprocess.run([rig.program("brokerd"), "--doctor", "--output", "json", "--dev", "--listen", "tcp://0.0.0.0:0"],
                          capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == CONFIG, done)
    expect(read(done.stdout), "tcp-open", "reachable from other machines", "tls://")


def test_a_wrong_configuration_is_a_finding(machine):
    rows = plain(machine, "server.workers=nonsense", code=CONFIG)
    expect(rows, "config-wrong", "server.workers", "--test-config")
    check(len(rows) == 1, rows)


def test_nothing_is_opened(machine, rig):
    """No socket, no device; and a broker that runs is not disturbed."""
    before = sorted(machine.run.iterdir())
    trace = rig.folder / "trace"
    if shutil.which("strace"):
        prefix = ("strace", "-f", "-e", "trace=socket,bind,connect,listen,openat", "-o", str(trace))
        machine.doctor(code=WELL, prefix=prefix)
        calls = trace.read_text()
        check(not re.search(r"\b(bind|connect|listen)\(|AF_(UNIX|INET6?)\b.*= \d", calls), calls[-3000:])
        check(not re.search(r'"(/dev/(?!null|shm|urandom)[^"]*|[^"]*/dev/(nvidia|infiniband/)[^"]*)"', calls), calls[-3000:])
    machine.doctor(code=WELL)
    check(sorted(machine.run.iterdir()) == before, "files in the socket's folder")


def test_forms_and_usage(machine, rig):
    machine.put({"sys/class/net/ib0/operstate": "down\n"})
    text = machine.doctor(code=WARNING, form="table")
    check(text.startswith("warning  interface ib0: ib0 is trusted, and is down\n         fix: ip link"), text)
    check("\n         see: docs/doctor.md#interface-down\n" in text, text)
    rows = list(csv.DictReader(io.StringIO(machine.doctor(code=WARNING, form="csv"))))
    check(list(rows[0]) == ["check", "state", "finding", "fix", "id", "link"], rows[0])
    check(rows == machine.doctor(code=WARNING), "CSV and JSON say the same")
    rows = [json.loads(line) for line in machine.doctor(code=WARNING, form="jsonl").splitlines()]
    check(rows == machine.doctor(code=WARNING), "lines and JSON say the same")
    done = subprocess.run([rig.program("brokerd"), "--doctor", "--output", "xml"], capture_output=True, text=True,
                          timeout=60, check=False)
    check(done.returncode == USAGE and "table, json, jsonl or csv" in done.stderr, done)


# ---- a broker that runs ----

def start(rig, folder, *options, env=None, config=None, tcp=False):
    """A broker with its socket there. /sys is a folder, so that the kernel of this machine has no hint."""
    root = rig.folder / "sound"
    if not root.exists():
        name = "sys/kernel/mm/transparent_hugepage/shmem_enabled"
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(SOUND[name])
        (root / "proc").symlink_to("/proc")
    rig.env["AMB_DOCTOR_ROOT"] = str(root)
    words = [word for option in options for word in ("-o", option)]
    if config is not None:
        words += ["--config", str(config)]
    place = types.SimpleNamespace(socket=folder / "broker.sock", tcp_url=None)
    return rig.broker(*words, at=place, env=env, tcp=tcp)


def ctl(rig, broker, *words, code=None, prefix=(), url=None, **env):
    done = subprocess.run([*prefix, rig.program("broker-ctl"), "--url", url or broker.unix_url, *map(str, words)],
                          env={**os.environ, **rig.env, **env}, capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL)
    check(code is None or done.returncode == code, done)
    return done


def ask(rig, broker, code, **more):
    return read(ctl(rig, broker, "doctor", "-o", "json", code=code, **more).stdout)


def test_a_sound_broker_has_no_finding(rig, folder):
    rows = ask(rig, start(rig, folder), WELL)
    check(rows and not faults(rows), faults(rows))


def test_clients_in_other_namespaces(rig, folder):
    prefix = ("unshare", "--pid", "--ipc", "--net", "--fork")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespaces here")
    rows = ask(rig, start(rig, folder), WELL, prefix=prefix)
    for kind in ("pid", "ipc", "net"):
        fix = "--network=host" if kind == "net" else f"--{kind}=host"
        expect(rows, f"client-{kind}", f"client 'broker-ctl' is in another {kind} namespace", fix)
    check(len(faults(rows)) == 3, faults(rows))


def test_a_client_that_is_shown_other_gpus(rig, folder, build):
    """On the fake driver. By the client's own word: the environment of another process is not read."""
    fake = build / "tests/fakecuda/libfakecuda.so"
    if not fake.is_file():
        pytest.skip("no CUDA in this build")
    rig.env |= {"AMB_CUDA_LIBRARY": str(fake), "FAKECUDA_MEMORY": "1G", "FAKECUDA_MACHINE": str(rig.folder / "gpus")}
    broker = start(rig, folder, "memory.cuda.size=64M", env={"CUDA_VISIBLE_DEVICES": "0"})
    for topic, visible, wanted in (("gpu.a", "0", False), ("gpu.b", "0,1", True)):
        client = rig.client("test-member", broker.unix_url, topic, "lease", 10 ** 9, "gpu",
                            env={"CUDA_VISIBLE_DEVICES": visible})
        until(30, lambda topic=topic: any(row["topic"] == topic and row["messages"] > 0 for row in broker.ask("topics")),
              "it publishes")
        rows = ask(rig, broker, None)
        if wanted:
            expect(rows, "gpu-visible", "has CUDA_VISIBLE_DEVICES=0,1, and the broker 0: GPUs that only one",
                   "without CUDA_VISIBLE_DEVICES")
        else:
            check(not of(rows, "gpu-visible"), rows)
        client.kill()
        until(20, lambda: len(broker.clients()) == 0, "it is gone")


def test_a_unit_without_a_watchdog(rig, folder):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(rig.folder / "notify"))
    env = {"NOTIFY_SOCKET": str(rig.folder / "notify")}
    broker = start(rig, folder, env=env)
    expect(ask(rig, broker, WARNING), "watchdog", "has no watchdog", "WatchdogSec=30")
    broker.stop()
    broker = start(rig, folder, env={**env, "WATCHDOG_USEC": "30000000"})
    check(not faults(ask(rig, broker, WELL)), "with one")
    broker.stop()
    manager.close()


def test_a_configuration_that_is_newer(rig, folder):
    config = rig.folder / "broker.conf"
    config.write_text('log = { level = "info"; };\n')
    broker = start(rig, folder, config=config)
    check(not faults(ask(rig, broker, WELL)), "as it was read")
    config.write_text('log = { level = "debug"; };\n')
    expect(ask(rig, broker, WARNING), "config-newer", f"{config} is newer than what holds", "config reload")
    ctl(rig, broker, "config", "reload", code=0)
    check(not faults(ask(rig, broker, WELL)), "after the reload")


def test_sockets_that_have_changed(rig, folder):
    broker = start(rig, folder)
    broker.socket.chmod(0o666)
    expect(ask(rig, broker, WARNING), "socket-mode", "has mode 0666, and the configuration says 0660", "chmod 0660")
    broker.socket.chmod(0o660)
    other = folder / "other.sock"
    broker.socket.rename(other)
    expect(ask(rig, broker, ERROR, url=f"unix://{other}"), "socket-gone", "is not there any more", "start the broker anew")
    stranger = socket.socket(socket.AF_UNIX)
    stranger.bind(str(broker.socket))
    broker.socket.chmod(0o660)
    expect(ask(rig, broker, ERROR, url=f"unix://{other}"), "socket-gone", "is another one's", "start the broker anew")
    stranger.close()


def test_limits_that_are_near(rig, folder):
    broker = start(rig, folder, "limits.max_topics=8", "memory.host.size=64M", "memory.host.segment=4M",
                   'topics=( { match = "t.>"; retain = { messages = 1000; }; max_bytes = "60M"; } )')
    for number in range(6):
        ctl(rig, broker, "pub", f"t.{number}", "x", code=0)
    rows = ask(rig, broker, WARNING)
    expect(rows, "topics-full", "6 of 8 topics are there (75 %)", "limits.max_topics")
    check(not of(rows, "memory-full"), "there is room")
    readers = [rig.client("broker-ctl", "--url", broker.unix_url, "sub", f"t.{number}", "--credit", 1, "--policy", "block",
                          "--stats") for number in range(4)]
    until(20, lambda: len(broker.ask("subs")) == len(readers), "no subscriptions")
    for number, reader in enumerate(readers):
        reader.signal(signal.SIGSTOP)
        rig.client("broker-ctl", "--url", broker.unix_url, "pub", f"t.{number}", "--count", 10000, "--size", 100000)
    rows = until(30, lambda: of(ask(rig, broker, WARNING), "memory-full"), "memory does not fill")
    expect(rows, "memory-full", "of 67108864 bytes of memory for messages are used", "memory.host.size")
    for reader in readers:
        reader.signal(signal.SIGCONT)


def test_a_subscription_that_is_slow(rig, folder):
    broker = start(rig, folder, 'topics=( { match = "small"; max_bytes = "1M"; }, { match = "big"; max_bytes = "256M"; } )')
    reader = rig.client("broker-ctl", "--url", broker.unix_url, "sub", "small", "--credit", 1, "--policy", "drop-oldest",
                        "--stats")
    until(20, lambda: broker.ask("subs"), "no subscription")
    reader.signal(signal.SIGSTOP)
    ctl(rig, broker, "pub", "small", "--count", 20000, "--size", 1000, code=0)
    reader.signal(signal.SIGCONT)
    until(20, lambda: sum(row["lost_slow"] for row in broker.ask("subs")) > 0, "it loses")
    rows = ask(rig, broker, WARNING)
    expect(rows, "subscription-slow", "'small' of client ", "more credit")
    waiter = rig.client("broker-ctl", "--url", broker.unix_url, "sub", "big", "--credit", 1, "--policy", "drop-oldest",
                        "--stats")
    until(20, lambda: len(broker.ask("subs")) > 1, "no subscription")
    waiter.signal(signal.SIGSTOP)
    ctl(rig, broker, "pub", "big", "--count", 100, "--size", 1 << 20, code=0)
    expect(ask(rig, broker, WARNING), "subscription-behind", "bytes wait for 'big'", "group")
    waiter.signal(signal.SIGCONT)


class Liar:
    """Passes bytes on, and changes some in what a client says first."""

    def __init__(self, port, old, new):
        self.port, self.old, self.new = port, old, new
        self.sockets = [socket.create_server(("127.0.0.1", 0))]
        self.threads = [threading.Thread(target=self.serve, daemon=True)]
        self.url = f"tcp://127.0.0.1:{self.sockets[0].getsockname()[1]}?link=stream"
        self.threads[0].start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.sockets[0].accept()[0]
                broker = socket.create_connection(("127.0.0.1", self.port))
                self.sockets += [client, broker]
                for pair in ((client, broker), (broker, client)):
                    self.threads.append(threading.Thread(target=self.copy, args=pair, daemon=True))
                    self.threads[-1].start()

    def copy(self, source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece.replace(self.old, self.new))
            target.shutdown(socket.SHUT_WR)

    def close(self):
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self.threads:
            thread.join(20)


def test_a_libamb_of_another_minor(rig, folder):
    broker = start(rig, folder, tcp=True)
    version = json.loads(ctl(rig, broker, "status", "-o", "json", code=0).stdout)["version"]
    other = re.sub(r"\.\d", ".8", version, count=1)
    liar = Liar(port_of(broker.tcp_url), version.encode(), other.encode())
    rig.client("broker-ctl", "--url", liar.url, "--client-name", "elder", "sub", "x")
    until(20, lambda: broker.ask("subs"), "no subscription")
    rows = ask(rig, broker, WARNING)
    expect(rows, "client-release", f"client 'elder' has libamb {other}, and the broker is {version}", "start the client anew")
    expect(rows, "client-tcp", "1 client on this host came by TCP, where payloads are copied; 'elder' is one", "unix://")
    liar.close()


def test_releases_of_ucx_that_do_not_fit(rig, folder):
    broker = start(rig, folder, "transports.trusted=[\"lo\"]", tcp=True)
    own = next(row["ucx"].split()[0] for row in broker.ask("transports") if row["name"] == "(broker)")
    stub = rig.build / "tests" / "stub-ucx" / "other"
    rig.client("broker-ctl", "--url", broker.tcp_url, "--client-name", "odd", "sub", "x",
               env={"AMB_UCX_LIBRARY": str(stub), "AMB_TRUSTED": "lo"})
    until(20, lambda: broker.ask("subs"), "no subscription")
    rows = ask(rig, broker, WARNING)
    expect(rows, "ucx-releases", f"client 'odd' has UCX 1.17.3, and the broker {own}", "AMB_UCX_LIBRARY")


def test_a_client_of_its_own_side(rig, folder):
    broker = start(rig, folder)
    rows = ask(rig, broker, WARNING, UCX_TLS="tcp", AMB_TRUSTED="lo")
    expect(rows, "ucx-variables", "UCX_TLS is set in the environment", "unset UCX_TLS")
    check(len(faults(rows)) == 1, faults(rows))
    check(not faults(ask(rig, broker, WELL, UCX_TLS="tcp", AMB_TRUSTED="")), "without a trusted interface")


def test_names_of_strangers_do_no_harm(rig, folder):
    broker = start(rig, folder, tcp=True)
    name = "\033[2J\u202e\"<script>,\n"
    rig.client("broker-ctl", "--url", f"{broker.tcp_url}?link=stream", "--client-name", name, "sub", "x")
    until(20, lambda: broker.ask("subs"), "no subscription")
    for form in ("json", "jsonl", "csv", "table"):
        text = ctl(rig, broker, "doctor", "-o", form, code=WARNING).stdout
        check("<script>" in text and not set("\033\0") & set(text), text)
    row = of(ask(rig, broker, WARNING), "client-tcp")[0]
    check("\n" not in row["finding"], row)


def test_a_broker_that_is_not_there(rig, folder):
    def silent(url, fix, code=UNAVAILABLE):
        expect(ask(rig, None, code, url=url), "broker-silent", "no session: ", fix)
    path = folder / "b.sock"
    silent(f"unix://{path}", f"there is no {path}")
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    silent(f"unix://{path}", "nobody listens")
    silent("tcp://127.0.0.1:1", "see on 127.0.0.1")
    text = ctl(rig, None, "doctor", url=f"unix://{path}", code=UNAVAILABLE).stdout
    check(text.startswith("error    broker: no session: ") and "\n         fix: start brokerd" in text, text)


def test_views_take_their_options(rig, folder):
    broker = start(rig, folder)
    lines = ctl(rig, broker, "doctor", "--columns", "state,id", code=WELL).stdout.splitlines()
    check(lines[0].split() == ["state", "id"] and len(lines) > 5, lines)
    ctl(rig, broker, "doctor", "--columns", "nonsense", code=USAGE)
    lines = ctl(rig, broker, "doctor", "-o", "csv", "--watch", "200ms", "--timeout", "1s").stdout.splitlines()
    check(lines.count("check,state,finding,fix,id,link") == 1, lines)
    check(sum(line.startswith("clock,") or line.startswith("descriptors,") for line in lines) > 1, lines)


def test_who_may_not_look(rig, folder):
    broker = start(rig, folder, tcp=True)
    done = ctl(rig, broker, "doctor", url=f"{broker.tcp_url}?link=stream", code=FORBIDDEN)
    check(done.stdout == "" and "own user" in done.stderr, done)


# ---- all of them ----

def test_each_finding_of_this_page_is_tried():
    """Of the 26 settings that the doctor must name, none is left out here."""
    text = pathlib.Path(__file__).read_text()
    wanted = """descriptors-short descriptors-few memlock memory-ram memory-cgroup huge-pages cpu-quota cpu-affinity
        clock-slow interface-missing interface-down interface-mtu-small rdma-closed socket-mode socket-folder token-file
        tcp-open client-pid client-ipc client-net gpu-hidden ucx-no-cuda peer-memory ucx-variables ucx-releases
        client-release counters-private watchdog subscription-slow memory-full topics-full config-newer""".split()
    for name in wanted:
        check(f"\n### {name}\n" in PAGE, f"{name} has no place on the page")
        parts = name.rsplit("-", 1)
        check(f'"{name}"' in text or f'"{parts[0]}-{{kind}}"' in text, f"{name} is not tried")
