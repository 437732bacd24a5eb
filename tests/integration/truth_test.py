# SPDX-License-Identifier: Apache-2.0
"""The truth about paths: broker-ctl's `paths` of set-ups of link x memory x placement x missing piece.

    truth_test.py

Each set-up has a broker, a publisher and a subscriber of its own. The row of the publisher, and that of
the subscriber, must have the way, the reason and the lane that are written here. Counts must be
those that others have counted: the subscriber by the path of each message, the broker's workers and its
GPU pools by batches, the publisher by the bytes that it has staged.

GPUs are those of the fake driver. Another host is this one with another boot id, in a network namespace
behind a veth pair: so it needs root.
"""
import json
import os
import shutil
import subprocess

import pytest

from harness import as_user, check, until
from machine import need_root

SECONDS = 120
USAGE, NO_BROKER, TEMP_FAILURE = 64, 69, 75
PORT = 4733
COUNT = 40
SMALL, LARGE = "1K", "256K"
BEST, COPY, STAGED = "zero-copy", "one copy", "staged"
NEAR = "the client is on the broker's host: unix://"
BATCH = "small messages are copied into a batch"
HERE = "@here"  # in front of an address: that of the broker's namespace

SETUP = """
link add amb0 type veth peer name cli0 netns {there}
link set lo up
addr add 10.77.0.1/24 dev amb0
link set amb0 up
"""
SETUP_THERE = """
link set lo up
addr add 10.77.0.2/24 dev cli0
link set cli0 up
"""


class Case:
    """A set-up. pub, sub: way and a piece of the reason of that row; the class follows from `size`.
    by: of the publisher, sub_by: of the subscriber: ring (unix://), unix?..., tcp?..., there?..."""

    def __init__(self, name, pub, sub, size=SMALL, by="unix", sub_by=None, options=(), wish=(), lanes=None,
                 rules=None, trusted="lo", gpu=None, sub_env=None, ucx=False, cuda=None):
        self.name, self.pub, self.sub, self.size = name, pub, sub, size
        self.by, self.sub_by, self.options, self.wish = by, sub_by or by, options, wish
        self.lanes, self.rules, self.trusted, self.gpu = lanes, rules, trusted, gpu
        self.sub_env, self.ucx, self.cuda = sub_env or {}, ucx, cuda  # cuda: AMB_UCX_GPU_MIN

    @property
    def is_leased(self):
        """Its publisher writes all messages in place. broker-ctl's first large ones are copied: it asks
        for leased memory meanwhile."""
        return self.gpu is None and (self.pub[0] == BEST or "leased memory" in self.pub[1])

    @property
    def wants_there(self):
        return self.by.startswith("there") or self.sub_by.startswith("there")


POOL = ("-o", "memory.cuda.size=256M", "-o", "memory.cuda.devices=0")
NO_GPU = "the broker has no GPU memory (memory.cuda.size)"

CASES = [
    # ---- shared memory ----
    Case("ring-small", (COPY, BATCH), (BEST, ""), lanes="ring"),
    Case("ring-large", (BEST, ""), (BEST, ""), LARGE),
    Case("ring-copies-asked-for", (BEST, ""), (COPY, "asks for copies"), LARGE, wish=("copy",)),
    Case("ring-lazy", (BEST, ""), (COPY, "a lazy reader"), LARGE, wish=("lazy",)),
    Case("ring-no-room", (BEST, ""), (COPY, "limits.max_mapped_per_session"), LARGE,
         options=("-o", "limits.max_mapped_per_session=64K")),
    Case("ring-no-leases", (COPY, "leased no memory"), (BEST, ""), LARGE,
         options=("-o", "limits.max_leased_per_session=0")),
    Case("ring-verified", (COPY, "copies what comes in leased memory"), (BEST, ""), LARGE,
         rules='{ match = ">"; trust = "verify"; }'),
    # ---- other links on this host ----
    Case("unix-stream", (COPY, "the URL asks for link=stream, not a ring"),
         (COPY, "the URL asks for link=stream, not a ring"), by="unix?link=stream"),
    Case("unix-stream-to-ring", (COPY, "link=stream"), (BEST, ""), LARGE, by="unix?link=stream",
         sub_by="unix"),
    Case("ring-to-unix-stream", (BEST, ""), (COPY, "link=stream"), LARGE, sub_by="unix?link=stream"),
    Case("unix-ucx", (COPY, "the URL asks for link=ucx, not a ring"), (COPY, "link=ucx, not a ring"), LARGE,
         by="unix?link=ucx", lanes="ucx tcp/lo", ucx=True),
    Case("tcp-on-own-host", (COPY, NEAR), (COPY, NEAR), by="tcp"),
    Case("tcp-large-on-own-host", (COPY, NEAR), (COPY, NEAR), LARGE, by="tcp"),
    Case("tcp-stream-on-own-host", (COPY, NEAR), (COPY, NEAR), LARGE, by="tcp?link=stream"),
    Case("tcp-on-own-host-with-tcp-on", (COPY, NEAR), (COPY, NEAR), LARGE, by="tcp", lanes="ucx tcp/lo",
         options=("-o", "transports.tcp=on"), ucx=True),
    Case("tcp-on-own-host-with-tcp-off", (COPY, NEAR), (COPY, NEAR), LARGE, by="tcp",
         options=("-o", "transports.tcp=off")),
    Case("ucx-on-own-host", (COPY, NEAR), (COPY, NEAR), LARGE, by="tcp?link=ucx", lanes="ucx tcp/lo",
         ucx=True),
    Case("ring-to-ucx-on-own-host", (BEST, ""), (COPY, NEAR), LARGE, sub_by="tcp?link=ucx", ucx=True),
    # ---- another host ----
    Case("remote-stream-asked-for", (COPY, "the URL asks for link=stream"), (COPY, "link=stream"), LARGE,
         by="there?link=stream"),
    Case("remote-without-trust", (COPY, "no ucx link: the broker trusts no interface"), (BEST, ""), LARGE,
         by="there", sub_by="unix", trusted=""),
    Case("remote-not-asked-for", (BEST, ""), (COPY, "a ucx link is not asked for"), LARGE, sub_by="there",
         trusted="amb0", ucx=True),
    Case("remote-ucx-without-rdma", (COPY, "no RDMA: no interface of transports.trusted has an RDMA"),
         (COPY, "no RDMA: no interface"), LARGE, by="there?link=ucx", trusted="amb0", lanes="ucx tcp/amb0",
         ucx=True),
    Case("remote-ucx-infiniband-off", (COPY, "no RDMA: transports.infiniband is off"),
         (COPY, "transports.infiniband is off"), LARGE, by="there?link=ucx", trusted="amb0",
         options=("-o", "transports.infiniband=off"), ucx=True),
    # ---- GPU memory ----
    Case("gpu-in-place", (BEST, ""), (BEST, ""), gpu="lease", wish=("sent",), options=POOL),
    Case("gpu-copied-into-the-pool", (BEST, ""), (BEST, ""), gpu="publish", wish=("gpu",), options=POOL),
    Case("gpu-to-a-host-reader", (BEST, ""), (STAGED, "asks for host memory (mem)"), gpu="lease",
         options=POOL),
    Case("gpu-no-pool", (STAGED, NO_GPU), (BEST, ""), gpu="publish"),
    Case("gpu-no-trust", (STAGED, "not trusted with GPU memory (memory.cuda.trust)"), (BEST, ""),
         gpu="publish", options=(*POOL, "-o", "memory.cuda.trust=none")),
    Case("gpu-verified", (STAGED, 'trust = "verify"'), (BEST, ""), gpu="publish", options=POOL,
         rules='{ match = ">"; trust = "verify"; }'),
    Case("gpu-by-tcp", (STAGED, "only over the ring"), (BEST, ""), gpu="publish", by="tcp", sub_by="unix",
         options=POOL),
    Case("gpu-to-tcp", (BEST, ""), (STAGED, "only over the ring"), gpu="lease", sub_by="tcp", wish=("sent",),
         options=POOL),
    Case("gpu-by-ucx", (COPY, "the link copies between GPUs"), (BEST, ""), gpu="publish", by="tcp?link=ucx",
         sub_by="unix", wish=("sent",), options=POOL, cuda="4096", ucx=True),
    Case("gpu-by-ucx-without-lanes", (STAGED, "transports.nvlink is off"), (BEST, ""), gpu="publish",
         by="tcp?link=ucx", sub_by="unix", wish=("sent",), cuda="", ucx=True,
         options=(*POOL, "-o", "transports.nvlink=off")),
    Case("gpu-reader-without-ipc", (BEST, ""), (STAGED, ""), gpu="lease", wish=("sent",), options=POOL,
         sub_env={"FAKECUDA_IPC": "0"}),
]


class Machine:
    """A network namespace, which lives as long as a process in it. boot_id: another machine's, for its
    processes alone."""

    def __init__(self, rig, boot_id=None):
        self.rig = rig
        mount = "mount -t sysfs sysfs /sys && "  # UCX finds interfaces there.
        if boot_id is not None:
            path = rig.folder / "boot_id"
            path.write_text(f"{boot_id}\n")
            mount += f"mount --bind {path} /proc/sys/kernel/random/boot_id && "
        holder = rig.start(["sh", "-c", f"{mount}echo up; exec sleep 1000"],
                           prefix=("unshare", "--net", "--mount"))
        holder.expect("up")
        self.pid = holder.pid
        self.prefix = ("nsenter", f"--net=/proc/{self.pid}/ns/net", f"--mount=/proc/{self.pid}/ns/mnt")

    def ip(self, lines):
        done = subprocess.run([*self.prefix, "ip", "-batch", "-"], input=lines.encode(),
                              capture_output=True, check=False)
        return done.stderr.decode() if done.returncode != 0 else None

    def show(self, name):
        return subprocess.run([*self.prefix, "ip", "link", "show", name], capture_output=True,
                              check=True).stdout.decode()


def two_machines(rig):
    """The broker's, and another one."""
    if os.geteuid() != 0:
        pytest.skip("not root")
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    if subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True,
                      check=False).returncode != 0:
        pytest.skip("no namespaces")
    here, there = Machine(rig), Machine(rig, "00000000-1111-2222-3333-444444444444")
    for machine, lines in ((here, SETUP.format(there=there.pid)), (there, SETUP_THERE)):
        problem = machine.ip(lines)
        if problem is not None:
            pytest.skip(f"no veth pairs: {problem}")
    # UCX takes an interface whose carrier has come, and that comes in its own time.
    for machine, name in ((here, "amb0"), (there, "cli0")):
        until(30, lambda m=machine, n=name: "LOWER_UP" in m.show(n), f"{name} has its carrier")
    return here, there


class Setup:
    """A case that runs."""

    def __init__(self, rig, build, case):
        self.rig, self.case = rig, case
        rig.env |= {"AMB_CUDA_LIBRARY": str(build / "tests/fakecuda/libfakecuda.so"),
                    "FAKECUDA_MEMORY": "1G", "FAKECUDA_MACHINE": str(rig.folder / "machine")}
        if case.cuda is not None:
            rig.env["AMB_UCX_GPU_MIN"] = case.cuda
            fake = build / "tests/fakecuda"
            rig.env["LD_LIBRARY_PATH"] = f"{fake}:{fake / 'nvml'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        rig.env["AMB_TRUSTED"] = "cli0" if case.trusted == "amb0" else "lo"
        self.here, self.there = two_machines(rig) if case.wants_there else (None, None)
        config = rig.folder / "broker.conf"
        config.write_text(f"topics = ( {case.rules} );\n" if case.rules else "")
        socket = rig.folder / "broker.sock"
        address = "10.77.0.1" if self.here is not None else "127.0.0.1"
        self.broker = rig.start(
            [rig.program("brokerd"), "--dev", "--config", str(config), "-o", "limits.peer_timeout=60s",
             "-o", "server.insecure=true", "-o", f"transports.trusted={case.trusted}",
             "--listen", f"unix://{socket}", "--listen", f"tcp://{address}:0", *case.options],
            prefix=self.here.prefix if self.here is not None else ())
        words = self.broker.expect("ready", 60)
        self.unix, self.tcp = words[1], words[2]

    def url(self, by):
        place, _, query = by.partition("?")
        base = self.unix if place == "unix" else self.tcp
        return f"{base}?{query}" if query else base

    def prefix(self, by):
        return self.there.prefix if by.startswith("there") else ()

    def ask(self, *what):
        done = subprocess.run([self.rig.program("broker-ctl"), "--url", self.unix, "-o", "json", *what],
                              capture_output=True, timeout=30, check=False)
        check(done.returncode == 0, f"{what}: {done.stderr.decode()}")
        return json.loads(done.stdout)[what[0]]

    def subscribe(self, topic, count):
        case = self.case
        reader = self.rig.client("test-pather", self.url(case.sub_by), topic, count, *case.wish,
                                 prefix=self.prefix(case.sub_by), env=case.sub_env)
        reader.expect("ready")
        return reader

    def publish(self):
        case = self.case
        url = self.url(case.by)
        if case.gpu is not None:
            return self.rig.start([self.rig.program("gpu-roundtrip"), case.gpu, "0", "1"],
                                  prefix=self.prefix(case.by),
                                  env={"AMB_URL": url, "HOLD": "1", "EXPECT_STAGED": "any"})
        if case.is_leased:
            writer = self.rig.client("test-leaser", "hold", url, "truth", COUNT, "262144",
                                     prefix=self.prefix(case.by))
            writer.expect("holding")
            writer.tell("")
            check(writer.expect("committed") == ["committed", "0", "0"], writer.log())
            return writer
        return self.rig.start(
            [self.rig.program("broker-ctl"), "--client-name", "writer", "--url", url, "pub", "truth",
             "--count", str(COUNT), "--size", case.size, "--rate", "400", "--hold"],
            prefix=self.prefix(case.by))

    def row(self, direction, class_):
        """The one of that direction and class that something has come or gone by."""
        rows = [row for row in self.ask("paths")
                if row["direction"] == direction and row["class"] == class_ and row["messages"] > 0]
        check(len(rows) == 1, f"{direction} {class_}: {rows}")
        return rows[0]


GPU_COUNT = 14  # of gpu-roundtrip


def of_paths(words):
    return {name: int(number) for name, number in (word.split("=") for word in words)}


def check_row(row, expected, lanes):
    way, why = expected
    check(row["way"] == way, f"way {row['way']}, not {way}: {row}")
    check(why in row["why"] if why else way != BEST or row["in_place"] > 0, f"nothing of '{why}': {row}")
    check(way == BEST or row["why"] != "", f"no reason: {row}")
    check(lanes is None or row["lanes"].startswith(lanes), f"lanes {row['lanes']}, not {lanes}")
    check(row["expected_by"] != "", f"{row}")
    check((row["expected_rate_bytes"] is None) == (way != COPY or "unknown" in row["expected_by"]), f"{row}")


def check_deliver(case, row, paths):
    """The subscriber counts the same."""
    way = {"in_place": paths.get("mapped", 0) + paths.get("cuda_ipc", 0),
           "copied": sum(paths.get(link, 0) for link in ("ring", "stream", "tcp", "ucx", "lazy")),
           "staged": 0}
    if case.gpu is not None and row["class"] == "gpu" and row["way"] == STAGED:
        # It sees host memory, and the broker knows that it lay on a GPU.
        way["staged"], way["in_place"], way["copied"] = way["in_place"] + way["copied"], 0, 0
    counted = {name: row[name] for name in way}
    check(counted == way, f"{counted}, and the subscriber has {paths}")


def check_publish(setup, row):
    """Workers and pools count the same."""
    workers = setup.ask("workers")
    commits = sum(worker["commits"] for worker in workers)
    staged_in = sum(client.get("gpu_staged_in", 0) for client in setup.ask("transports"))
    if row["way"] == BEST:  # A commit may have several messages.
        check(0 < commits <= row["in_place"] == row["messages"], f"{commits} commits: {row}")
    elif row["class"] == "gpu" and row["way"] == COPY:  # UCX has written them to the pool.
        check(row["copied"] == sum(pool.get("received", 0) for pool in setup.ask("memory")) > 0, f"{row}")
        check(row["copied"] + row["staged"] == GPU_COUNT, f"{row}")
    elif row["way"] == COPY:
        check(row["copied"] == row["messages"], f"{row}")
        check((commits > 0) == setup.case.is_leased, f"{commits} commits: {row}")
    else:
        check(staged_in == row["bytes"] and row["staged"] == row["messages"] == GPU_COUNT, f"{row}")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_told_is_what_was_counted(rig, build, links, case):
    if case.ucx and "ucx" not in links:
        pytest.skip("no UCX")
    if case.gpu is not None and not (build / "tests/gpu-roundtrip").is_file():
        pytest.skip("no CUDA in this build")
    if case.cuda is not None and not (build / "tests/fakecuda/nvml").is_dir():
        pytest.skip("no UCX with CUDA modules in this build")
    setup = Setup(rig, build, case)
    count = COUNT if case.gpu is None else GPU_COUNT
    reader = setup.subscribe("truth" if case.gpu is None else "gpu.roundtrip", count)
    writer = setup.publish()
    paths = of_paths(reader.expect("read", 60)[1:])
    check(sum(paths.values()) == count, f"{paths}")
    class_ = "gpu" if case.gpu is not None else "small" if case.size == SMALL else "large"
    if case.pub[0] == STAGED or case.cuda is not None:
        # Its client's word comes with its next sign of life.
        until(20, lambda: any(row["direction"] == "publish" and row["class"] == "gpu" and row["messages"] == count
                                 for row in setup.ask("paths")), "it is told")
    row = setup.row("publish", class_)
    print(row)
    check_row(row, case.pub, case.lanes)
    check_publish(setup, row)
    if case.pub[0] != STAGED and case.cuda is None:
        row = setup.row("deliver", class_)
        print(row)
        check_row(row, case.sub, case.lanes if case.sub_by == case.by else None)
        check_deliver(case, row, paths)
        subs = [sub for sub in setup.ask("subs") if sub["delivered"] > 0]
        on_gpu = row["in_place"] if class_ == "gpu" else 0
        check([sub["gpu_delivered"] for sub in subs] == [on_gpu], f"{subs}")
    for process in (writer, reader):
        process.end_input()
        check(process.wait(30) == 0, process.log())
    setup.broker.signal(15)
    check(setup.broker.wait(30) == 0, setup.broker.log()[-4000:])


# ---- demands ----

RULES = ('{ match = "ring.>"; expect = "ring"; }, { match = "zero.>"; expect = "zero-copy"; }, '
         '{ match = "rdma.>"; expect = "rdma"; }, { match = "gpu.>"; expect = "nvlink"; }')

# URL, what it demands, and the exit status with a piece of the sentence; 0: the session is there.
DEMANDS = [
    ("unix", "expect=ring", 0, ""),
    ("unix", "expect=zero-copy", 0, ""),
    ("unix", "link=ring&expect=ring&expect=zero-copy", 0, ""),
    ("unix", "link=stream&expect=ring", USAGE, "expect=ring: the URL itself asks for another link"),
    ("unix", "expect=rdma", USAGE, "expect=rdma: a ucx link alone has RDMA"),
    ("unix", "expect=nvlink", USAGE, "expect=nvlink: the broker has no GPU memory (memory.cuda.size)"),
    ("tcp", "expect=ring", USAGE, "expect=ring: shared memory needs a unix:// URL"),
    ("tcp", "expect=zero-copy", USAGE, "expect=zero-copy: shared memory needs a unix:// URL"),
    ("tcp", "expect=rdma", USAGE, "expect=rdma: no interface of transports.trusted has an RDMA device"),
    ("tcp", "link=stream&expect=nvlink", USAGE, "a stream takes host memory alone"),
    ("tcp", "expect=fast", USAGE, "expect is ring, zero-copy, rdma or nvlink, not 'fast'"),
]


def ctl(rig, url, *words, prefix=()):
    """The exit status and the sentence."""
    done = subprocess.run([*prefix, rig.program("broker-ctl"), "--url", url, *words], capture_output=True,
                          timeout=60, check=False, env={**os.environ, **rig.env})
    return done.returncode, done.stderr.decode()


def check_answer(answer, status, words, what):
    check(answer[0] == status and words in answer[1], f"{what}: {answer}, not {status} with '{words}'")


def test_a_demand_holds_or_is_refused_with_what_is_missing(rig, links):
    broker = rig.broker()
    for place, query, status, words in DEMANDS:
        if "ucx" not in links and "RDMA device" in words:
            words = "expect=rdma"
        url = f"{broker.unix_url if place == 'unix' else broker.tcp_url}?{query}"
        check_answer(ctl(rig, url, "pub", "a.b", "--count", "1"), status, words, url)
    broker.stop()


def test_a_topic_demands_of_all_of_its_clients(rig, build):
    path = rig.folder / "broker.conf"
    path.write_text(f"topics = ( {RULES} );\n")
    broker = rig.broker("--config", str(path))
    for topic, url, words in [
            ("ring.a", broker.unix_url, None), ("zero.a", broker.unix_url, None),
            ("ring.a", broker.tcp_url, "topics.expect = \"ring\" of ring.>: the client is on the broker's host"),
            ("zero.a", broker.tcp_url, "topics.expect = \"zero-copy\" of zero.>: the client is on the"),
            ("rdma.a", broker.tcp_url, "topics.expect = \"rdma\" of rdma.>: "),
            ("gpu.a", broker.unix_url, "topics.expect = \"nvlink\" of gpu.>: the broker has no GPU memory"),
            ("other", broker.tcp_url, None)]:
        answer = ctl(rig, url, "pub", topic, "--count", "1")
        check_answer(answer, 0 if words is None else USAGE, words or "", f"pub {topic} {url}")
    for pattern, words, options in [
            ("gpu.*", "the subscription asks for host memory (mem)", ()),
            (">", "topics.expect = \"rdma\"", ()), ("zero.a", "asks for copies (copy)", ("--copy",))]:
        answer = ctl(rig, broker.unix_url, "sub", pattern, "--count", "1", "--timeout", "1", *options)
        check_answer(answer, USAGE, words, f"sub {pattern}")
    broker.stop()


def test_who_gets_copies_by_rights_is_refused_where_zero_copy_is_demanded(rig):
    need_root()
    users, path = rig.folder / "users", rig.folder / "broker.conf"
    users.write_text("all:plant:all:-:-:uid/23451\nsome:plant:some:-:-:uid/23452\nnone:plant:none:-:-:uid/23453\n")
    users.chmod(0o600)
    path.write_text(f"""auth = {{ users = "{users}"; }};
roles = ( {{ name = "all"; publish = ( ">" ); subscribe = ( ">" ); }},
          {{ name = "some"; subscribe = ( "cam.>", "door.a", "zero.>" ); }},
          {{ name = "none"; subscribe = ( "door.a" ); }} );
topics = ( {{ match = "cam.>"; trust_group = "cams"; }}, {{ match = "door.*"; trust_group = "doors"; }},
           {{ match = "zero.>"; expect = "zero-copy"; }} );
""")
    broker = rig.broker("--config", str(path), socket_query="?mode=0666", tcp=False)
    copies, url = "its user may not read all of the trust group", broker.unix_url.split("?")[0]
    for user, query, pattern, words in [
            (23451, "?expect=zero-copy", ">", None), (23451, "", "zero.a", None),
            (23452, "?expect=zero-copy", "cam.>", None), (23452, "?expect=zero-copy", "cam.a", None),
            (23452, "?expect=zero-copy", "door.a", f"expect=zero-copy: {copies} doors"),
            (23452, "", "door.a", None), (23452, "", "zero.a", f"\"zero-copy\" of zero.>: {copies} default"),
            (23453, "?expect=zero-copy", "door.a",
             "expect=zero-copy: its user may not read all of any trust group"), (23453, "", "door.a", None)]:
        answer = ctl(rig, url + query, "sub", pattern, "--count", "1", "--timeout", "0.3",
                     prefix=as_user(user))
        check_answer(answer, TEMP_FAILURE if words is None else USAGE, words or "", f"{user} {query} {pattern}")
    asked = ctl(rig, f"{url}?expect=zero-copy", "sub", "zero.a", "--copy", "--timeout", "0.3",
                prefix=as_user(23451))
    check_answer(asked, USAGE, "asks for copies (copy)", "the topic's demand")
    broker.stop()


def test_gpu_memory_is_there_where_it_is_demanded(rig, build):
    if not (build / "tests/gpu-roundtrip").is_file():
        pytest.skip("no CUDA in this build")
    rig.env |= {"AMB_CUDA_LIBRARY": str(build / "tests/fakecuda/libfakecuda.so"), "FAKECUDA_MEMORY": "1G",
                "FAKECUDA_MACHINE": str(rig.folder / "machine")}
    path = rig.folder / "broker.conf"
    path.write_text(f"topics = ( {RULES} );\n")
    broker = rig.broker("--config", str(path), *POOL)
    url = f"{broker.unix_url}?expect=nvlink"
    check_answer(ctl(rig, url, "pub", "a.b", "--count", "1"), 0, "", url)
    rig.env["AMB_CUDA_LIBRARY"] = "/nowhere"
    check_answer(ctl(rig, url, "pub", "a.b", "--count", "1"), USAGE, "this process has no CUDA driver", url)
    rig.env["AMB_CUDA_LIBRARY"] = str(build / "tests/fakecuda/libfakecuda.so")
    lazy = rig.client("test-pather", broker.unix_url, "gpu.roundtrip", GPU_COUNT, "lazy")
    check(lazy.wait() != 0 and "comes by host memory (lazy)" in lazy.log(), lazy.log())
    reader = rig.client("test-pather", broker.unix_url, "gpu.roundtrip", GPU_COUNT, "sent")
    reader.expect("ready")
    writer = rig.start([rig.program("gpu-roundtrip"), "lease", "0", "1"],
                       env={"AMB_URL": broker.unix_url, "EXPECT_STAGED": "any"})
    check(of_paths(reader.expect("read", 60)[1:]) == {"cuda_ipc": GPU_COUNT}, "all in place")
    check(writer.wait() == 0, writer.log())
    reader.end_input()
    check(reader.wait() == 0, reader.log())
    broker.stop()
