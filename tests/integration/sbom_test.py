# SPDX-License-Identifier: Apache-2.0
"""tools/sbom.sh names all that a build installs, twice in the same words; tools/dev/check-sbom.py finds
what SPDX does not allow.

    sbom_test.py
"""
import copy
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from harness import check

SECONDS = 200
ROOT = pathlib.Path(__file__).resolve().parents[2]


def judge(folder, document):
    path = folder / "document.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    done = subprocess.run([sys.executable, ROOT / "tools/dev/check-sbom.py", path], capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def written(request, tmp_path_factory):
    """The document of this build, and what it installs."""
    for program in ("ldd", "cmake"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    build = pathlib.Path(request.config.getoption("build")).resolve()
    folder = tmp_path_factory.mktemp("sbom")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    texts = [subprocess.run([ROOT / "tools/sbom.sh", build], capture_output=True, text=True, check=True,
                            env=environment, timeout=100).stdout for _ in range(2)]
    check(texts[0] == texts[1], "two documents of one build differ")
    subprocess.run(["cmake", "--install", build, "--prefix", folder], capture_output=True, check=True)
    return json.loads(texts[0]), folder


def test_all_files_and_libraries(written):
    document, folder = written
    files = {row["fileName"]: row for row in document["files"]}
    there = {f"./{path.relative_to(folder)}": path for path in folder.rglob("*")
             if path.is_file() and not path.is_symlink()}
    check(files.keys() == there.keys(), f"{files.keys() ^ there.keys()}")
    for name, path in there.items():
        if not path.suffix == ".cmake":  # it has the prefix in it
            sums = {row["algorithm"]: row["checksumValue"] for row in files[name]["checksums"]}
            check(sums["SHA256"] == hashlib.sha256(path.read_bytes()).hexdigest(), name)
    packages = {row["name"]: row for row in document["packages"]}
    stems = ("ambroker", "libssl", "libprotobuf-c", "libjansson", "libsmartcols", "libconfig", "libc")
    for stem in stems:
        check(any(name.startswith(stem) for name in packages), f"no {stem} in {packages.keys()}")
    if shutil.which("dpkg-query") is not None:
        unknown = [name for name, row in packages.items() if row["licenseDeclared"] == "NOASSERTION"]
        check(unknown == [], f"no licence of {unknown}")
    links = {(row["spdxElementId"], row["relatedSpdxElement"]) for row in document["relationships"]
             if row["relationshipType"] == "DYNAMIC_LINK"}
    broker, control = "SPDXRef-File-bin-brokerd", "SPDXRef-File-bin-broker-ctl"
    tables = next(row["SPDXID"] for name, row in packages.items() if name.startswith("libsmartcols"))
    check((control, tables) in links and (broker, tables) not in links, f"{links}")
    check(document["creationInfo"]["created"] == "2023-11-14T22:13:20Z", document["creationInfo"])


def test_it_is_believed(written, tmp_path):
    status, said = judge(tmp_path, written[0])
    check(status == 0, said)
    other = shutil.which("pyspdxtools")  # upstream's own checker, where it is there
    if other is not None:
        done = subprocess.run([other, "-i", tmp_path / "document.json"], capture_output=True, text=True,
                              check=False)
        check(done.returncode == 0, done.stdout + done.stderr)


def _set(*place):
    *way, name, value = place

    def change(document):
        for step in way:
            document = document[step]
        if value is None:
            del document[name]
        else:
            document[name] = value
    return change


PLANTED = {
    "version": (_set("spdxVersion", "SPDX-2.2"), "not SPDX-2.3"),
    "licence of data": (_set("dataLicense", "MIT"), "not SPDX-2.3 under CC0-1.0"),
    "no name": (_set("name", None), "document: no name"),
    "fragment": (_set("documentNamespace", "https://a.example/#b"), "no URI, or has a #"),
    "time": (_set("creationInfo", "created", "2026-01-01 00:00"), "is no time"),
    "creator": (_set("creationInfo", "creators", ["me"]), "creators: none"),
    "field": (_set("packages", 0, "licence", "MIT"), "licence is not known"),
    "type": (_set("packages", 0, "name", 7), "name has another type"),
    "identifier": (_set("packages", 0, "SPDXID", "SPDXRef-a_b"), "is no identifier"),
    "twice": (_set("packages", 0, "SPDXID", "SPDXRef-DOCUMENT"), "is there twice"),
    "expression": (_set("packages", 0, "licenseDeclared", "MIT AND"), "is no licence expression"),
    "brackets": (_set("packages", 0, "licenseDeclared", "(MIT OR"), "is no licence expression"),
    "unexplained": (_set("packages", 0, "licenseDeclared", "LicenseRef-x"), "is not explained"),
    "verification": (_set("packages", 1, "filesAnalyzed", True), "packageVerificationCode is None"),
    "code": (_set("packages", 0, "packageVerificationCode", "packageVerificationCodeValue", "00"),
             "packageVerificationCode is 00"),
    "not analysed": (_set("packages", 0, "filesAnalyzed", False), "filesAnalyzed is false"),
    "hash": (_set("files", 0, "checksums", 0, "checksumValue", "00"), "a checksum that is none"),
    "no SHA1": (_set("files", 0, "checksums", []), "no SHA1"),
    "above": (_set("files", 0, "fileName", "./../a"), "is not below ./"),
    "file type": (_set("files", 0, "fileTypes", ["ELF"]), "no types"),
    "relation": (_set("relationships", 0, "relationshipType", "LIKES"), "no relationship: LIKES"),
    "end": (_set("relationships", 0, "relatedSpdxElement", "SPDXRef-none"), "SPDXRef-none is not there"),
    "nothing": (_set("relationships", []), "describes nothing"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_is_found(written, tmp_path, name):
    change, words = PLANTED[name]
    document = copy.deepcopy(written[0])
    change(document)
    status, said = judge(tmp_path, document)
    check(status == 1 and words in said, said)


def test_no_json_is_found(tmp_path):
    for text, words in (("{", "Expecting"), ("[]", "not an object"), ("{}", "no spdxVersion")):
        status, said = judge(tmp_path, text)
        check(status == 1 and words in said, said)
