# SPDX-License-Identifier: Apache-2.0
"""Which UCX a process loads: what cannot be had is named, two in one process are told apart, and a
client takes the one that its broker understands.

    ucx_library_test.py"""
import json
import os
import pathlib
import signal
import subprocess

import pytest

from harness import check, until

OTHER = "1.17.3"  # of the stub: on no side of a border with 1.13.1 or 1.22.0
LACKING = "1.22.0"  # of the stub that has not all functions
# Sanitizers want to be the first library of a process; here a stub is.
PRELOADED = {"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0:intercept_tls_get_addr=0"}


def run(arguments, **env):
    return subprocess.run(arguments, text=True, capture_output=True, timeout=60,
                          stdin=subprocess.DEVNULL,
                          env={**os.environ, "LC_ALL": "C", "AMB_UCX_LIBRARY": "", **env})


def ctl(rig, url, *arguments, **env):
    return run([rig.program("broker-ctl"), "--url", url, *arguments], AMB_TRUSTED="lo", **env)


@pytest.fixture(autouse=True)
def by_itself(rig):
    """Whatever this run of the tests chooses, each process here chooses itself."""
    rig.env["AMB_UCX_LIBRARY"] = ""


def stub(rig, kind):
    return str(rig.build / "tests" / "stub-ucx" / kind)


def releases(rig):
    """By word, the release of each UCX that is here."""
    found = {}
    for word in ("wheel", "system"):
        said = run([rig.program("brokerd"), "--version"], AMB_UCX_LIBRARY=word).stdout
        if "UCX" in said and "without" not in said:
            found[word] = said.split("UCX ")[1].rstrip(")\n")
    return found


def expect(done, code, *words):
    check(done.returncode == code, f"exit {done.returncode}: {done.stdout}{done.stderr}")
    for word in words:
        check(word in done.stderr, f"nothing of '{word}': {done.stderr}")


def bad(rig):
    """Libraries that cannot be had, and what is said of each."""
    hollow = rig.folder / "hollow"
    hollow.mkdir()
    text = rig.folder / "text.so"
    text.write_text("INPUT ( libucp.so.0 )\n")
    lacking = stub(rig, "lacking")
    return {
        str(rig.folder / "no" / "libucp.so.0"): ["there is no such file"],
        str(hollow): ["there is no libucp.so.0 in that folder"],
        str(text): ["it is no shared library"],
        stub(rig, "old"): ["1.12.1", "too old", "1.13.0 is the oldest"],
        stub(rig, "mute"): ["1.12.2", "too old", f"{stub(rig, 'mute')}/libucp.so.0"],
        lacking: ["has no function ucp_am_send_nbx", f"{lacking}/libucp.so.0"],
        "wheels": ['"wheels"', '"auto", "wheel", "system"'],
    }


def test_a_broker_names_what_it_cannot_load(rig):
    socket = rig.folder / "b.sock"
    brokerd = [rig.program("brokerd"), "--dev", "--listen", f"unix://{socket}"]
    for library, words in bad(rig).items():
        by_key = run([*brokerd, "-o", f"transports.library={library}"], AMB_UCX_LIBRARY="")
        expect(by_key, 78, "transports.library: ", *words)
        expect(run(brokerd, AMB_UCX_LIBRARY=library), 78, "transports.library: ", *words)
    # Nobody is trusted: UCX stays out, but a file that is named must be there.
    missing = str(rig.folder / "no" / "libucp.so.0")
    bare = [*brokerd, "-o", "transports.trusted=", "--test-config"]
    expect(run([*bare, "-o", f"transports.library={missing}"]), 78, "there is no such file")
    expect(run([*bare, "-o", f"transports.library={stub(rig, 'lacking')}"]), 0)


def own_row(rig, broker, **env):
    """What the broker says of a client whose URL insists on no link."""
    client = rig.client("test-asker", broker.tcp_url, env=env)
    row = until(20, lambda: next((row for row in broker.ask("transports")
                                  if row["id"] != 0 and row["link"] in ("ucx", "stream")), None),
                "a session by TCP")
    client.end_input()
    check(client.wait() == 0, client.log())
    until(20, lambda: all(row["id"] == 0 or row["link"] == "ring" for row in broker.ask("transports")),
          "it is gone")
    return row


def test_a_client_names_what_it_cannot_load_and_has_a_stream(rig, links):
    if "ucx" not in links:
        pytest.skip("no UCX here")
    broker = rig.broker("-o", "transports.tcp=on")
    refused = bad(rig)
    release = broker.log().split("INFO UCX ")[1].split()[0]
    if release != LACKING:  # Then two faults could be told, and the other may come first.
        del refused[stub(rig, "lacking")]
    for library, words in refused.items():
        done = ctl(rig, broker.url("ucx"), "pub", "t", "--count", "1", AMB_UCX_LIBRARY=library)
        expect(done, 64, "link ucx: ", *words)
        row = own_row(rig, broker, AMB_UCX_LIBRARY=library)
        check(row["link"] == "stream", f"{library}: {row}")
        check(words[0] in row["why_not_better"], f"{library}: {row}")
    row = own_row(rig, broker)
    check(row["link"] == "ucx" and row["ucx"] != "", f"with the one that is there: {row}")
    broker.stop()


def test_two_releases_in_one_process_are_told_apart(rig, links):
    if "ucx" not in links:
        pytest.skip("no UCX here")
    word, release = next(iter(releases(rig).items()))
    broker = rig.broker("-o", "transports.tcp=on", env={"AMB_UCX_LIBRARY": word})
    has_other = {"LD_PRELOAD": f"{stub(rig, 'other')}/libucp.so.0", **PRELOADED}
    done = ctl(rig, broker.url("ucx"), "pub", "t", "--count", "1", **has_other)
    expect(done, 64, f"this process has UCX {OTHER}", f"the broker {release}")
    done = ctl(rig, broker.url("ucx"), "pub", "t", "--count", "1", AMB_UCX_LIBRARY=word, **has_other)
    expect(done, 64, f"this process has UCX {OTHER} already", f"asks for {release}", "cannot have both")
    for more in ({}, {"AMB_UCX_LIBRARY": word}):
        row = own_row(rig, broker, **has_other, **more)
        check(row["link"] == "stream" and OTHER in row["why_not_better"]
              and release in row["why_not_better"], f"{row}")
    broker.stop()
    socket = rig.folder / "b.sock"
    brokerd = [rig.program("brokerd"), "--dev", "--listen", f"unix://{socket}"]
    expect(run([*brokerd, "-o", f"transports.library={word}"], **has_other), 78,
           f"this process has UCX {OTHER} already", f"transports.library asks for {release}")


def test_a_part_of_another_release_is_noticed(rig):
    """Its libucm alone, as a program may preload it for its hooks."""
    found = releases(rig)
    if len(found) < 2:
        pytest.skip("one UCX here")
    folders = {}
    for word in found:
        broker = rig.broker(env={"AMB_UCX_LIBRARY": word})
        folders[word] = pathlib.Path(broker.log().split("INFO UCX ")[1].split("(")[1].split(")")[0]).parent
        broker.stop()
    brokerd = [rig.program("brokerd"), "--dev", "--listen", f"unix://{rig.folder / 'b.sock'}"]
    for word, other in (("wheel", "system"), ("system", "wheel")):
        mixed = {"AMB_UCX_LIBRARY": word, "LD_PRELOAD": str(folders[other] / "libucm.so.0"), **PRELOADED}
        expect(run(brokerd, **mixed), 78, "parts of another UCX already", str(folders[other]))
        own = {**mixed, "LD_PRELOAD": str(folders[word] / "libucm.so.0")}
        check(f"UCX {found[word]}" in run([*brokerd, "--version"], **own).stdout, f"{word}: its own libucm")


def test_a_client_takes_the_release_that_its_broker_understands(rig):
    found = releases(rig)
    if not found:
        pytest.skip("no UCX here")
    for word, release in found.items():
        broker = rig.broker("-o", "transports.tcp=on", env={"AMB_UCX_LIBRARY": word})
        check(f"UCX {release} (" in broker.log(), broker.log())
        row = own_row(rig, broker)
        check(row["link"] == "ucx" and row["ucx"] == release, f"{word}: {row}")
        own = next(row for row in broker.ask("transports") if row["name"] == "(broker)")
        check(own["ucx"].startswith(f"{release} (/") and "tcp/lo" in own["lanes"], f"{own}")
        for other, its in found.items():
            fits = release.split(".")[:2] == its.split(".")[:2]
            done = ctl(rig, broker.url("ucx"), "pub", "t", "--count", "1", AMB_UCX_LIBRARY=other)
            if fits:
                expect(done, 0)
            else:
                expect(done, 64, f"AMB_UCX_LIBRARY is UCX {its}", f"the broker {release}")
                row = own_row(rig, broker, AMB_UCX_LIBRARY=other)
                check(row["link"] == "stream" and its in row["why_not_better"], f"{row}")
        broker.stop()


def test_topo_and_doctor_say_which_one(rig):
    found = releases(rig)
    broker = rig.broker()
    devices = [row["device"] for row in broker.ask("topo")]
    check("lo" in devices and sorted(devices) == devices, f"{devices}")
    used = [row["device"] for row in broker.ask("topo") if row["used"]]
    check(used == (["lo"] if found else []), f"{used}")
    if found:
        rows = {row["check"]: row for row in broker.ask("doctor")}
        word, release = next(iter(found.items()))
        check(rows["ucx"]["state"] == "ok" and f"UCX {release} (/" in rows["ucx"]["finding"], f"{rows['ucx']}")
        check(pathlib.Path(rows["ucx"]["finding"].split("(")[1].split(")")[0]).exists(), f"{rows['ucx']}")
    broker.stop()


def fake_sys(rig):
    """A prefix for a command whose /sys is a folder: it has lo, and an RDMA device with an interface."""
    machine = rig.folder / "sys"
    for name in ("devices/lo", "class/net/ib0/device/infiniband/mlx5_0", "class/infiniband/mlx5_0/ports/1"):
        (machine / name).mkdir(parents=True)
    (machine / "class/net/lo").symlink_to("../../devices/lo")  # UCX 1.13 looks at links alone.
    (machine / "class/net/ib0/dev_port").write_text("0\n")
    prefix = ("unshare", "--mount", "sh", "-c", f'mount --bind "{machine}" /sys && exec "$@"', "sh")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no mount namespaces of our own here")
    return prefix


def test_a_machine_with_an_rdma_device_takes_the_systems_ucx(rig):
    found = releases(rig)
    if not found:
        pytest.skip("no UCX here")
    prefix = fake_sys(rig)
    socket = rig.folder / "b.sock"
    brokerd = [rig.program("brokerd"), "--dev", "--listen", f"unix://{socket}"]

    def look(*options):
        broker = rig.start([*brokerd, "-o", "transports.trusted=lo,mlx5_0:1", *options], prefix=prefix)
        broker.expect("ready", 60)
        tables = {}
        for table in ("transports", "doctor", "topo"):
            done = ctl(rig, f"unix://{socket}", "-o", "json", table)
            check(done.returncode == 0 or (table, done.returncode) == ("doctor", 1), done.stderr)  # It has warnings.
            tables[table] = json.loads(done.stdout)[table]
        broker.signal(signal.SIGTERM)
        check(broker.wait() == 0, broker.log())
        lanes = next(row for row in tables["transports"] if row["id"] == 0)
        finding = next(row for row in tables["doctor"] if row["check"] == "ucx infiniband")
        device = next(row for row in tables["topo"] if row["device"] == "mlx5_0")
        check(device["used"] and device["gpu"] == "" and device["distance"] == "-", f"{device}")
        return lanes, finding, device

    if "system" in found:  # Debian's has the module.
        lanes, finding, device = look()
        check(lanes["ucx"].startswith(f"{found['system']} (/usr/lib"), f"{lanes}")
        check(lanes["lanes"] == "tcp/lo rc/mlx5_0:1 dc/mlx5_0:1 ud/mlx5_0:1", f"{lanes}")
        check(lanes["why_not_better"] == "" and "rc/mlx5_0" in device["lanes"], f"{lanes}, {device}")
        check("/dev/infiniband" in finding["finding"] and "--device" in finding["fix"], f"{finding}")
    if "wheel" in found:
        lanes, finding, device = look("-o", "transports.library=wheel")
        check(lanes["lanes"] == "tcp/lo" and device["lanes"] == "", f"{lanes}, {device}")
        for text in (lanes["why_not_better"], finding["fix"]):
            check("libucx0 and ibverbs-providers" in text, text)
        check(finding["state"] == "warning" and "mlx5_0 is here" in finding["finding"], f"{finding}")
        # Nobody could be reached, so others have a stream, and who insists is told why.
        bare = ["-o", "transports.trusted=mlx5_0:1", "-o", "transports.library=wheel"]
        broker = rig.start([*brokerd, "--listen", "tcp://127.0.0.1:0", *bare], prefix=prefix)
        url = next(word for word in broker.expect("ready", 60) if word.startswith("tcp:"))
        expect(ctl(rig, url, "pub", "t", "--count", "1"), 0)
        expect(ctl(rig, f"{url}?link=ucx", "pub", "t", "--count", "1"), 64, "no InfiniBand module")
        check("no ucx links: the broker's UCX has no InfiniBand module" in broker.log(), broker.log())
        broker.signal(signal.SIGTERM)
        check(broker.wait() == 0, broker.log())
        expect(run([*prefix, *brokerd, "-o", "transports.trusted=mlx5_0:1", "-o", "transports.infiniband=on",
                    "-o", "transports.library=wheel"]), 78, "no InfiniBand module", "libucx0")


def test_a_topic_that_demands_rdma_has_it_or_nobody(rig):
    """The broker has device and module, as far as it can tell, and UCX has chosen TCP all the same."""
    if "system" not in releases(rig):
        pytest.skip("the system has no UCX")
    config = rig.folder / "broker.conf"
    config.write_text('topics = ( { match = "rdma.>"; expect = "rdma"; } );\n')
    broker = rig.start([rig.program("brokerd"), "--dev", "--config", str(config), "--listen",
                        f"unix://{rig.folder / 'b.sock'}", "--listen", "tcp://127.0.0.1:0", "-o",
                        "transports.trusted=lo,mlx5_0:1"], prefix=fake_sys(rig))
    unix, tcp = broker.expect("ready", 60)[1:3]
    url = f"{tcp}?link=ucx"
    system = {"AMB_UCX_LIBRARY": "system"}
    rows = json.loads(ctl(rig, unix, "-o", "json", "transports", **system).stdout)["transports"]
    if not any("rc/mlx5_0" in row["lanes"] for row in rows if row["id"] == 0):
        pytest.skip("the system's UCX has no module for RDMA")
    expect(ctl(rig, url, "pub", "t", "--count", "1", **system), 0)
    refused = 'topics.expect = "rdma" of rdma.>: UCX has chosen no lane of RDMA'
    expect(ctl(rig, url, "pub", "rdma.a", "--count", "1", **system), 64, refused)
    for pattern in ("rdma.a", ">"):
        expect(ctl(rig, url, "sub", pattern, "--count", "1", "--timeout", "1", **system), 64, refused)
    broker.signal(signal.SIGTERM)
    check(broker.wait() == 0, broker.log())
