# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/transports.md for those who come from Dask-CUDA: every switch in every state, on
machines with and without hardware, for brokers and clients, and what UCX of each release is told.

    dask_test.py
"""
import itertools
import pathlib
import re

import pytest
from harness import check

SECONDS = 120
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/transports.md"
STATES = ("auto", "on", "off")
ROLES = ("broker", "client")
NEWEST = "1.22.1"
# The sections that only a broker looks at.
BROKERS = ("listen", "memory", "topics", "server")


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables():
    """Those of the part about Dask-CUDA: the heads, and rows as dictionaries."""
    part = PAGE.read_text().split("## From Dask-CUDA", 1)[1]
    for block in re.findall(r"(?:^\|.*\n)+", part, re.M):
        head, _, *rows = block.splitlines()
        names = cells(head)
        yield names, [dict(zip(names, cells(row))) for row in rows]


def table(*names):
    """The one that has these heads."""
    found = [rows for heads, rows in tables() if all(name in heads for name in names)]
    check(len(found) == 1, f"docs/transports.md: {len(found)} tables with {names}")
    return found[0]


def codes(cell):
    return re.findall(r"`([^`]+)`", cell)


def key_of(row):
    """"tcp" of `transports.tcp`."""
    return codes(row["here"])[0].removeprefix("transports.")


SWITCHES = table("variable", "lanes that `off` takes away")
LANE_SWITCHES = [row for row in SWITCHES if codes(row["lanes that `off` takes away"])]
LANES = {row["release of UCX"]: set(codes(row["`UCX_TLS`"])[0].split(","))
         for row in table("release of UCX")}


class Told:
    """tests/integration/told.c: answers of the real code, without a UCX."""

    def __init__(self, rig):
        self.process = rig.client("test-told")
        self.count = 0

    def ask(self, role, release, root, text):
        """UCX's variables as a dictionary, or the reason for which it is refused."""
        self.process.tell("\t".join((role, release, str(root), text)))
        kind, *rest = self.process.line().split("\t")
        self.count += 1
        if kind == "refused":
            return rest[0]
        return dict(pair.split("=", 1) for pair in rest)


def make_machine(folder, rdma=False, gpu=False):
    """sys and proc of a machine with eth0, and ib0 that is perhaps an RDMA device's."""
    for name in ("lo", "eth0", "ib0"):
        device = folder / "sys/class/net" / name
        device.mkdir(parents=True)
        (device / "dev_port").write_text("0\n")
    if rdma:
        (folder / "sys/class/net/ib0/device/infiniband/mlx5_0").mkdir(parents=True)
        (folder / "sys/class/infiniband/mlx5_0/ports/1").mkdir(parents=True)
    if gpu:
        (folder / "proc/driver/nvidia").mkdir(parents=True)
        (folder / "proc/driver/nvidia/version").write_text("NVRM\n")
    return folder


@pytest.fixture
def told(rig):
    return Told(rig)


def machine(rig, rdma, gpu):
    return make_machine(rig.folder / f"machine{rdma:d}{gpu:d}", rdma, gpu)


def transports(states, more='trusted = ( "eth0", "ib0" );'):
    keys = " ".join(f'{key} = "{state}";' for key, state in states.items())
    return f"transports = {{ {more} {keys} }};"


def expected_lanes(states, release):
    """By the tables alone."""
    lanes = set.union(*LANES.values()) if states["nvlink"] == "on" else set(LANES[release])
    for row in LANE_SWITCHES:
        if states[key_of(row)] == "off":
            lanes -= set(codes(row["lanes that `off` takes away"])[0].split(","))
    return lanes


def test_all_states_of_all_switches_together(rig, told):
    """On a machine that has everything: nothing is refused, and each lane goes by its own off."""
    everything = machine(rig, rdma=True, gpu=True)
    keys = [key_of(row) for row in LANE_SWITCHES]
    check(len(keys) == 4 and len(LANES) >= 4, f"{keys} {list(LANES)}")
    for values in itertools.product(STATES, repeat=len(keys)):
        states = dict(zip(keys, values))
        for role, release in itertools.product(ROLES, LANES):
            answer = told.ask(role, release, everything, transports(states))
            what = f"{role} {release} {states}: {answer}"
            check(isinstance(answer, dict), what)
            check(set(answer["TLS"].split(",")) == expected_lanes(states, release), what)
            devices = ["eth0", "ib0"] if states["tcp"] != "off" else []
            devices += ["mlx5_0:1"] if states["infiniband"] != "off" else []
            check(sorted(filter(None, answer["NET_DEVICES"].split(","))) == sorted(devices), what)
    check(told.count == 3**4 * len(ROLES) * len(LANES), f"{told.count}")


# What a machine, or a configuration, lacks: by the words of the table.
LACKS = {
    "an interface to trust": {"rdma": True, "gpu": True, "more": ""},
    "an RDMA device": {"rdma": False, "gpu": True},
    "an NVIDIA driver": {"rdma": True, "gpu": False},
}


def test_on_is_refused_where_it_cannot_work(rig, told):
    machines = {(rdma, gpu): machine(rig, rdma, gpu)
                for rdma, gpu in itertools.product((False, True), repeat=2)}
    for row, role in itertools.product(LANE_SWITCHES, ROLES):
        lack = dict(LACKS[row["`on` is refused without"]])
        root = machines[lack.pop("rdma"), lack.pop("gpu")]
        key = key_of(row)
        for state in STATES:
            answer = told.ask(role, NEWEST, root, transports({key: state}, **lack))
            what = f"{role} {key} = {state}: {answer}"
            check(isinstance(answer, str) == (state == "on"), what)
            if state == "on":
                check(answer.startswith("configuration:1: transports."), what)
                check(f"transports.{key}: " in answer and 'got "on"' in answer, what)


def test_there_is_no_connection_management(rig, told):
    """Nobody can insist on it."""
    root = machine(rig, rdma=True, gpu=True)
    rows = [row for row in SWITCHES if row not in LANE_SWITCHES]
    check([key_of(row) for row in rows] == ["rdmacm"], f"{rows}")
    for role, state in itertools.product(ROLES, STATES):
        answer = told.ask(role, NEWEST, root, transports({"rdmacm": state}))
        what = f"{role} {state}: {answer}"
        check(isinstance(answer, str) == (state == "on"), what)
        check(state != "on" or "transports.rdmacm" in answer, what)


def test_other_settings_reach_ucx(rig, told):
    root = machine(rig, rdma=True, gpu=True)
    rows = table("UCX is told", "releases")
    check(len(rows) >= 7, f"{rows}")
    for row, role, release in itertools.product(rows, ROLES, LANES):
        [text], [setting] = codes(row["here"]), codes(row["UCX is told"])
        name, value = setting.split("=", 1)
        answer = told.ask(role, release, root, text)
        check(isinstance(answer, dict) and answer.get(name) == value, f"{role} {text}: {answer}")


def test_every_setting_of_the_page_is_one(rig, told):
    """Our side of the big table, as it is written there, is accepted by its role."""
    root = machine(rig, rdma=True, gpu=True)
    texts = 0
    for row in everything_else():
        for text in codes(row["here"]):
            if not text.endswith(";"):
                continue
            texts += 1
            role = "broker" if text.startswith(BROKERS) else "client"
            trusted = 'transports = { trusted = ( "eth0", "ib0" ); '
            insecure = "server = { insecure = true; }; " if text.startswith("listen") else ""
            text = text.replace("transports = { net_devices", f"{trusted}net_devices")
            answer = told.ask(role, NEWEST, root, insecure + text)
            check(isinstance(answer, dict), f"{role}: {text}: {answer}")
        check(codes(row["here"]) or row["here"].startswith(("- ", "not yet")), f"{row}")
    check(texts >= 12, f"{texts} settings")


def everything_else():
    return next(rows for heads, rows in tables()
                if heads == ["variable", "worker option", "LocalCUDACluster", "here"])


# Of dask_cuda/cli.py, local_cuda_cluster.py and the schemas of distributed and distributed-ucxx.
VARIABLES = """TCP NVLINK INFINIBAND RDMACM CUDA_COPY CREATE_CUDA_CONTEXT MULTI_BUFFER ENVIRONMENT
    NET_DEVICES REUSE_ENDPOINTS CONNECT_TIMEOUT RMM__POOL_SIZE"""
OPTIONS = """--host --nthreads --name --memory-limit --device-memory-limit --rmm-pool-size
    --rmm-maximum-pool-size --rmm-managed-memory --rmm-async --rmm-log-directory
    --rmm-track-allocations --pid-file --resources --dashboard --dashboard-address --local-directory
    --shared-filesystem --scheduler-file --protocol --interface --preload --dashboard-prefix
    --tls-ca-file --tls-cert --tls-key --enable-tcp-over-ucx --enable-infiniband --enable-nvlink
    --enable-rdmacm --enable-jit-unspill --worker-class --pre-import --multiprocessing-method"""
ARGUMENTS = """CUDA_VISIBLE_DEVICES n_workers threads_per_worker memory_limit device_memory_limit data
    local_directory shared_filesystem protocol enable_tcp_over_ucx enable_infiniband enable_nvlink
    enable_rdmacm rmm_pool_size rmm_maximum_pool_size rmm_managed_memory rmm_async
    rmm_release_threshold rmm_log_directory rmm_track_allocations jit_unspill log_spilling
    worker_class pre_import"""


def test_nothing_of_dask_cuda_is_missing():
    rows = SWITCHES + everything_else()
    for column, names in (("variable", VARIABLES), ("worker option", OPTIONS),
                          ("LocalCUDACluster", ARGUMENTS)):
        there = {re.split(r"[ =]", code)[0] for row in rows for code in codes(row[column])}
        missing = set(names.split()) - there
        check(not missing, f"docs/transports.md: no {column} {sorted(missing)}")
