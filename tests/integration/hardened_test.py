# SPDX-License-Identifier: Apache-2.0
"""A broker under the restrictions of etc/ambroker.service that seccomp holds does all its work: rings,
streams, TLS, ucx, leases, workers with a processor, a socket's group, reload, drain.

    hardened_test.py
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from harness import PATIENT, SKIPPED, check, until

SECONDS = 200
ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT = ROOT / "etc" / "ambroker.service"
UNDER = (sys.executable, str(ROOT / "tests" / "support" / "under_unit.py"), str(UNIT))
TRIES = """
import ctypes, mmap, os
def tell(name, call):
    try:
        call()
        print(name, "allowed")
    except OSError as error:
        print(name, error.errno)
tell("setuid", lambda: os.setuid(0))
tell("chroot", lambda: os.chroot("/"))
tell("code", lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC))
tell("affinity", lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))
"""


@pytest.fixture(autouse=True)
def needs_a_filter(rig):
    done = subprocess.run([*UNDER, "true"], capture_output=True, text=True, check=False)
    if done.returncode == SKIPPED:
        pytest.skip(done.stderr)
    check(done.returncode == 0, done.stderr)


def test_it_is_held(rig):
    """Calls that the unit leaves out fail, as root too."""
    done = subprocess.run([*UNDER, sys.executable, "-c", TRIES], capture_output=True, text=True,
                          check=True)
    check(done.stdout.splitlines() == ["setuid 1", "chroot 1", "code 1", "affinity allowed"],
          done.stdout)


def run(rig, url, *arguments, data=None, codes=(0,)):
    done = subprocess.run([rig.program("broker-ctl"), "--url", url, *arguments], input=data,
                          capture_output=True, timeout=60, check=False,
                          env={**os.environ, **rig.env})
    check(done.returncode in codes, f"{url} {arguments}: {done.returncode} {done.stderr.decode()}")
    return done.stdout


def passes(rig, url, unix):
    """Small messages, and large ones in leased memory, where the link has that."""
    for size, count in (("100", "50"), ("1M", "10")):
        reader = rig.client("broker-ctl", "--url", url, "sub", "a.>", "--count", count, "--stats")
        until(20, lambda: json.loads(run(rig, unix, "-o", "json", "subs"))["subs"], "a reader")
        run(rig, url, "pub", "a.b", "--count", count, "--size", size, "--confirm", "delivered")
        check(reader.wait(60) == 0, f"{url}: {reader.log()}")


def test_all_its_work(rig, links):
    rig.use_tls()
    group = "?group=nogroup" if os.geteuid() == 0 else ""
    config = rig.folder / "broker.conf"
    config.write_text(f"""
server = {{ workers = 2; cpus = "auto"; insecure = true; }};
listen = ( "unix://{rig.folder}/s.sock{group}", "tcp://127.0.0.1:0", "tls://127.0.0.1:0" );
transports = {{ trusted = ( "lo" ); }};
""")
    broker = rig.start([rig.program("brokerd"), "--config", str(config), *rig.tls_options, *PATIENT],
                       prefix=UNDER)
    urls = [url.split("?")[0] for url in broker.expect("ready", 60)[1:]]
    unix, tcp, tls = (next(url for url in urls if url.startswith(kind)) for kind in
                      ("unix:", "tcp:", "tls:"))
    ucx = [f"{tcp}?link=ucx"] if "ucx" in links else []
    for url in (unix, f"{unix}?link=stream", f"{tcp}?link=stream", tls, *ucx):
        passes(rig, url, unix)
    for view in ("status", "topics", "clients", "workers", "memory", "transports", "paths", "queues",
                 "topo"):
        run(rig, unix, "-o", "json", view)
    run(rig, unix, "-o", "json", "doctor", codes=(0, 1))  # It may have warnings.
    broker.signal(signal.SIGHUP)
    until(20, lambda: "configuration is valid and unchanged" in broker.log(), "it reloads")
    broker.signal(signal.SIGTERM)
    check(broker.wait(40) == 0, broker.log())
    refused = re.findall(r"^.*(?:not permitted|ERROR).*$", broker.log(), re.M | re.I)
    check(refused == [], f"{refused}")


def test_a_library_that_complains_does_not_write_the_ready_line(rig):
    """UCX is loaded when the configuration is checked, and prints where it may not do what it likes."""
    config = rig.folder / "broker.conf"
    config.write_text(f"""listen = ( "unix://{rig.folder}/s.sock" ); transports = {{ trusted = ( "lo" ); }};\n""")
    broker = rig.start(["env", "UCX_MEM_MMAP_HOOK_MODE=bistro", rig.program("brokerd"), "--config",
                        str(config)], prefix=UNDER)
    check(broker.expect("ready", 60)[1].startswith("unix:"), "the first line is ours")
    broker.signal(signal.SIGTERM)
    check(broker.wait(40) == 0, broker.log())
    if "UCX ERROR" not in re.sub(r" +", " ", broker.log()):
        pytest.skip("nothing complained")
