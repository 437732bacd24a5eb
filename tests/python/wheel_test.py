# SPDX-License-Identifier: Apache-2.0
"""tools/dev/wheel.py refuses wheels that are not as promised: here a file of zeros in the place of each part."""
import pathlib
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = "ambroker-0.1.0-cp311-abi3-manylinux_2_34_x86_64.whl"
PROGRAMS = ("bin/brokerd", "bin/broker-ctl", "bin/broker-bench")
FILES = [f"ambroker/{name}" for name in (*PROGRAMS, "_amb.abi3.so", "__init__.py", "lib/libconfig.so.9")]
SHOWN = '{"overall_tag": "manylinux_2_34_x86_64", "sym_tag": "manylinux_2_34_x86_64"}'


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """What it says of a wheel with those files, where auditwheel and dpkg-query are scripts of the test's."""
    tools = tmp_path / "bin"
    tools.mkdir()

    def script(name, text):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)

    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    script("dpkg-query", 'case $2 in */libconfig.so.9) echo "libconfig9: /x";; esac')

    def run(files, name=NAME, shown=SHOWN):
        script("auditwheel", f"echo '{shown}'")
        wheel = tmp_path / name
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, size in files.items():
                archive.writestr(path, size if isinstance(size, bytes) else b"\n" * size)
        done = subprocess.run([sys.executable, ROOT / "tools/dev/wheel.py", "check", wheel],
                              capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr
    return run


def whole():
    licences = {f"ambroker-0.1.0.dist-info/licenses/{name}": 1 for name in ("LICENSE", "libconfig9.txt")}
    return {**dict.fromkeys(FILES, 1), **licences}


def test_a_whole_wheel_passes(judge):
    code, said = judge(whole())
    assert code == 0 and "cp311-abi3-manylinux_2_34_x86_64" in said and "libconfig.so.9" in said


@pytest.mark.parametrize("name", FILES)
def test_a_part_is_missing(judge, name):
    files = whole()
    del files[name]
    code, said = judge(files)
    assert code == 1 and name in said


def test_what_a_program_has_within_needs_its_licence(judge):
    files = {**whole(), "ambroker/bin/brokerd": b"x /*! https://github.com/danvk/dygraphs */ x"}
    code, said = judge(files)
    assert code == 1 and "licence of libjs-dygraphs" in said
    code, said = judge({**files, "ambroker-0.1.0.dist-info/licenses/libjs-dygraphs.txt": 1})
    assert code == 0, said


@pytest.mark.parametrize("name, said", [("LICENSE", "our own licence"), ("libconfig9.txt", "licence of libconfig")])
def test_a_licence_is_missing(judge, name, said):
    files = whole()
    del files[f"ambroker-0.1.0.dist-info/licenses/{name}"]
    code, text = judge(files)
    assert code == 1 and said in text


def test_others_are_refused(judge):
    assert judge({**whole(), "ambroker.libs/libucp-01234567.so.0": 1})[0] == 1
    assert judge({**whole(), "ambroker.libs/libstrange.so.1": 1})[0] == 1
    code, said = judge({**whole(), "ambroker/large": 9_000_000})
    assert code == 1 and "at most 8 MB" in said
    code, said = judge({**whole(), "ambroker/__init__.py": 1}, NAME.replace("manylinux_2_34", "linux"))
    assert code == 1 and "tag" in said
    code, said = judge(whole(), shown=SHOWN.replace("2_34", "2_36"))
    assert code == 1 and "auditwheel says" in said
