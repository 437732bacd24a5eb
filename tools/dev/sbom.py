#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the parts of an installed build as SPDX 2.3. tools/sbom.sh calls it.

    sbom.py --build BUILD --tree FOLDER

FOLDER is what `cmake --install` has made of BUILD. Libraries are those that the dynamic linker finds for
these files here, and those that they load at run time. dpkg says their packages and versions."""
import argparse
import functools
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import uuid

import sources

NAMESPACE = "https://spdx.org/spdxdocs/ambroker"
CUDA_EULA = "LicenseRef-NVIDIA-CUDA-EULA"
# By the name of a library's package without its version: licence, and where upstream is.
LICENCES = {
    "libc": ("LGPL-2.1-or-later", "https://sourceware.org/glibc/"),
    "libssl": ("Apache-2.0", "https://www.openssl.org/"),
    "libprotobuf-c": ("BSD-2-Clause", "https://github.com/protobuf-c/protobuf-c"),
    "libjansson": ("MIT", "https://github.com/akheron/jansson"),
    "libsmartcols": ("LGPL-2.1-or-later", "https://github.com/util-linux/util-linux"),
    "libncursesw": ("X11-distribute-modifications-variant", "https://invisible-island.net/ncurses/"),
    "libtinfo": ("X11-distribute-modifications-variant", "https://invisible-island.net/ncurses/"),
    "libjemalloc": ("BSD-2-Clause", "https://jemalloc.net/"),
    "libmicrohttpd": ("LGPL-2.1-or-later", "https://www.gnu.org/software/libmicrohttpd/"),
    # libmicrohttpd loads these, for HTTPS.
    "libgnutls": ("LGPL-2.1-or-later", "https://www.gnutls.org/"),
    "libnettle": ("LGPL-3.0-or-later OR GPL-2.0-or-later", "https://www.lysator.liu.se/~nisse/nettle/"),
    "libhogweed": ("LGPL-3.0-or-later OR GPL-2.0-or-later", "https://www.lysator.liu.se/~nisse/nettle/"),
    "libgmp": ("LGPL-3.0-or-later OR GPL-2.0-or-later", "https://gmplib.org/"),
    "libtasn1": ("LGPL-2.1-or-later", "https://www.gnu.org/software/libtasn1/"),
    "libidn2": ("LGPL-3.0-or-later OR GPL-2.0-or-later", "https://www.gnu.org/software/libidn/#libidn2"),
    "libunistring": ("LGPL-3.0-or-later OR GPL-2.0-or-later", "https://www.gnu.org/software/libunistring/"),
    "libp11-kit": ("BSD-3-Clause", "https://p11-glue.github.io/p11-glue/p11-kit.html"),
    "libffi": ("MIT", "https://sourceware.org/libffi/"),
    "libconfig": ("LGPL-2.1-or-later", "https://hyperrealm.github.io/libconfig/"),
    "libjs-dygraphs": ("MIT", "https://dygraphs.com/"),
    "libucx": ("BSD-3-Clause", "https://openucx.org/"),
    "libstdc++": ("GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org/"),
    "libgcc-s": ("GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org/"),
}
UCX_LICENCE, UCX_HOME = LICENCES["libucx"]
WHEEL, CUDA = "libucx-cu13", "nvidia-cuda-runtime"


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def hashes(data):
    return [{"algorithm": name.upper(), "checksumValue": hashlib.new(name, data).hexdigest()}
            for name in ("sha1", "sha256")]


def reference(kind, name):
    return f"SPDXRef-{kind}-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}"


def cache(build, name):
    found = re.search(rf"^{name}(?::\w+)?=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return found.group(1) if found else ""


@functools.cache
def locked(package):
    """Version and SHA-256 of a wheel for this machine."""
    for line in sources.read("tools/deps.lock").splitlines():
        words = line.split()
        if words[:1] == [package] and words[2] == platform.machine():
            return words[1], words[3]
    raise SystemExit(f"sbom: tools/deps.lock has no {package} for this machine")


@functools.cache
def package_of(library):
    """The Debian package of a file: name and version; None: dpkg does not know it."""
    real = os.path.realpath(library)  # of a link that a -dev package has; and /lib is a link itself
    names = (real, real.removeprefix("/usr"), library)
    for name in names:
        try:
            words = run("dpkg-query", "-S", name).split(": ")[0].split(",")[0]
            return words.split(":")[0], run("dpkg-query", "-W", "-f", "${Version}", words)
        except (OSError, subprocess.CalledProcessError):
            pass
    return None


def licence_of(package):
    stem = re.sub(r"-?[\d.]+(t64)?$", "", package)
    return LICENCES.get(stem, ("NOASSERTION", ""))


class Document:
    def __init__(self, build, tree):
        self.build, self.tree = build, tree
        self.packages, self.files, self.relations = {}, [], []
        self.contents = {}  # of packages whose files are listed: their SHA-1

    def relate(self, one, kind, other):
        row = {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
        if row not in self.relations:
            self.relations.append(row)

    def package(self, name, version, licence, **more):
        identity = reference("Package", name)
        self.packages.setdefault(identity, {
            "SPDXID": identity, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence,
            "copyrightText": "NOASSERTION", **more})
        return identity

    def debian(self, library):
        """The package that a library of this machine is of."""
        found = package_of(library)
        if found is None:
            return self.package(os.path.basename(library), "NOASSERTION", "NOASSERTION")
        name, version = found
        licence, home = licence_of(name)
        locator = f"pkg:deb/debian/{name}@{version.replace(':', '%3A').replace('+', '%2B')}"
        more = {"homepage": home} if home else {}
        return self.package(name, version, licence, supplier="Organization: Debian", **more,
                            externalRefs=[{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                           "referenceLocator": locator}])

    def wheel(self, name, licence, **more):
        version, digest = locked(name)
        return self.package(name, version, licence, **more,
                            checksums=[{"algorithm": "SHA256", "checksumValue": digest}],
                            externalRefs=[{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                           "referenceLocator": f"pkg:pypi/{name}@{version}"}])

    def add_file(self, path, owner, licence):
        name = "./" + path.relative_to(self.tree).as_posix()
        identity = reference("File", name[2:])
        data = path.read_bytes()
        is_program = data[:4] == b"\x7fELF"
        self.files.append({"SPDXID": identity, "fileName": name, "checksums": hashes(data),
                           "fileTypes": ["BINARY" if is_program else "TEXT"],
                           "licenseConcluded": licence, "copyrightText": "NOASSERTION"})
        self.relate(owner, "CONTAINS", identity)
        self.contents.setdefault(owner, []).append(self.files[-1]["checksums"][0]["checksumValue"])
        return identity if is_program else None

    def add_libraries(self, path, identity):
        """Those that the dynamic linker finds for a file of ours."""
        for line in run("ldd", str(path)).splitlines():
            library = re.search(r"=> (/\S+)", line)
            if library and not library.group(1).startswith(str(self.tree)):
                self.relate(identity, "DYNAMIC_LINK", self.debian(library.group(1)))

    def add_loaded(self, ours):
        """Those that are loaded when they are wanted, and headers of others."""
        self.relate(self.debian(cache(self.build, "AMB_LIBCONFIG_LIBRARY")), "OPTIONAL_DEPENDENCY_OF", ours)
        if cache(self.build, "AMB_HTTP") == "ON" and cache(self.build, "AMB_PAGE") == "ON":
            script = os.path.join(cache(self.build, "AMB_DYGRAPHS"), "dygraph.min.js")
            self.relate(ours, "STATIC_LINK", self.debian(script))  # brokerd's page has it in it
        if cache(self.build, "AMB_CUDA") == "ON":
            self.relate(self.wheel(CUDA, CUDA_EULA), "BUILD_DEPENDENCY_OF", ours)

    def fill(self):
        ours = self.package(
            "ambroker", cache(self.build, "CMAKE_PROJECT_VERSION"), "Apache-2.0",
            primaryPackagePurpose="APPLICATION")
        self.relate("SPDXRef-DOCUMENT", "DESCRIBES", ours)
        for path in sorted(p for p in self.tree.rglob("*") if p.is_file() and not p.is_symlink()):
            name = path.relative_to(self.tree).as_posix()
            if "/ambroker/ucx/" in name or "doc/ambroker/ucx/" in name:
                owner, licence = self.wheel(WHEEL, UCX_LICENCE, homepage=UCX_HOME), UCX_LICENCE
                self.relate(owner, "OPTIONAL_DEPENDENCY_OF", ours)
            elif "libcudart" in name:
                version = re.search(r"\.so\.([\d.]+)$", name)
                owner = self.package("libcudart", version.group(1) if version else "NOASSERTION", CUDA_EULA,
                                     comment=f"As the wheel {WHEEL} has it.")
                licence = CUDA_EULA
                self.relate(owner, "OPTIONAL_DEPENDENCY_OF", self.wheel(WHEEL, UCX_LICENCE))
            else:
                owner, licence = ours, "Apache-2.0"
            program = self.add_file(path, owner, licence)
            if program and owner == ours:
                self.add_libraries(path, program)
        self.add_loaded(ours)
        for owner, sums in self.contents.items():
            code = hashlib.sha1("".join(sorted(sums)).encode()).hexdigest()
            self.packages[owner].update(filesAnalyzed=True, packageVerificationCode={
                "packageVerificationCodeValue": code})

    def text(self):
        commit = os.environ.get("SOURCE_DATE_EPOCH") or run(
            "git", "-C", sources.ROOT, "log", "-1", "--format=%ct").strip()
        created = run("date", "-u", "-d", f"@{commit}", "+%Y-%m-%dT%H:%M:%SZ").strip()
        version = self.packages["SPDXRef-Package-ambroker"]["versionInfo"]
        content = {"packages": sorted(self.packages.values(), key=lambda row: row["SPDXID"]),
                   "files": self.files,
                   "relationships": self.relations,
                   "hasExtractedLicensingInfos": [
                       {"licenseId": CUDA_EULA, "name": "NVIDIA CUDA Toolkit End User License Agreement",
                        "extractedText": "See https://docs.nvidia.com/cuda/eula/"}]}
        number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
        head = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
                "name": f"ambroker-{version}", "documentNamespace": f"{NAMESPACE}-{version}-{number}",
                "creationInfo": {"created": created, "creators": ["Tool: ambroker-sbom"]}}
        return json.dumps({**head, **content}, indent=1) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--tree", type=pathlib.Path, required=True)
    options = parser.parse_args()
    document = Document(options.build, options.tree)
    document.fill()
    sys.stdout.write(document.text())


if __name__ == "__main__":
    main()
