#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is a file a document of SPDX 2.3 as its specification asks: fields, forms of their values, references,
hashes, licence expressions? Of optional fields it knows those that tools/sbom.sh writes.

    check-sbom.py FILE"""
import hashlib
import json
import re
import sys
from datetime import datetime

import sources

ID = re.compile(r"SPDXRef-[A-Za-z0-9.-]+")
HASHES = {"SHA1": 40, "SHA224": 56, "SHA256": 64, "SHA384": 96, "SHA512": 128, "MD5": 32}
RELATIONS = ("DESCRIBES", "CONTAINS", "DEPENDS_ON", "DYNAMIC_LINK", "STATIC_LINK", "BUILD_DEPENDENCY_OF",
             "OPTIONAL_DEPENDENCY_OF", "RUNTIME_DEPENDENCY_OF", "GENERATED_FROM")
CATEGORIES = ("SECURITY", "PACKAGE-MANAGER", "PERSISTENT-ID", "OTHER")
PURPOSES = ("APPLICATION", "FRAMEWORK", "LIBRARY", "CONTAINER", "OPERATING-SYSTEM", "DEVICE", "FIRMWARE",
            "SOURCE", "ARCHIVE", "FILE", "INSTALL", "OTHER")
FILE_TYPES = ("SOURCE", "BINARY", "ARCHIVE", "APPLICATION", "AUDIO", "IMAGE", "TEXT", "VIDEO",
              "DOCUMENTATION", "SPDX", "OTHER")
CREATOR = re.compile(r"(?:Tool|Organization|Person): \S.*")
PURL = re.compile(r"pkg:[a-z.+-]+/[^\s@]+@[^\s@]+")
NOTHING = ("NONE", "NOASSERTION")
TERM = re.compile(r"(?:DocumentRef-[A-Za-z0-9.-]+:)?[A-Za-z0-9.-]+\+?")
TEXT, LIST, FLAG, OBJECT = str, list, bool, dict
# Fields, their types, and whether they must be there.
FIELDS = {
    "document": {"spdxVersion": (TEXT, 1), "dataLicense": (TEXT, 1), "SPDXID": (TEXT, 1), "name": (TEXT, 1),
                 "documentNamespace": (TEXT, 1), "creationInfo": (OBJECT, 1), "packages": (LIST, 0),
                 "files": (LIST, 0), "relationships": (LIST, 0), "hasExtractedLicensingInfos": (LIST, 0),
                 "comment": (TEXT, 0)},
    "creationInfo": {"created": (TEXT, 1), "creators": (LIST, 1), "comment": (TEXT, 0)},
    "package": {"SPDXID": (TEXT, 1), "name": (TEXT, 1), "downloadLocation": (TEXT, 1), "versionInfo": (TEXT, 0),
                "filesAnalyzed": (FLAG, 0), "licenseConcluded": (TEXT, 0), "licenseDeclared": (TEXT, 0),
                "copyrightText": (TEXT, 0), "supplier": (TEXT, 0), "homepage": (TEXT, 0), "comment": (TEXT, 0),
                "externalRefs": (LIST, 0), "checksums": (LIST, 0), "primaryPackagePurpose": (TEXT, 0),
                "packageVerificationCode": (OBJECT, 0)},
    "file": {"SPDXID": (TEXT, 1), "fileName": (TEXT, 1), "checksums": (LIST, 1), "fileTypes": (LIST, 0),
             "licenseConcluded": (TEXT, 0), "copyrightText": (TEXT, 0), "comment": (TEXT, 0)},
    "relationship": {"spdxElementId": (TEXT, 1), "relationshipType": (TEXT, 1),
                     "relatedSpdxElement": (TEXT, 1), "comment": (TEXT, 0)},
    "externalRef": {"referenceCategory": (TEXT, 1), "referenceType": (TEXT, 1), "referenceLocator": (TEXT, 1),
                    "comment": (TEXT, 0)},
    "checksum": {"algorithm": (TEXT, 1), "checksumValue": (TEXT, 1)},
    "licence": {"licenseId": (TEXT, 1), "extractedText": (TEXT, 1), "name": (TEXT, 0)},
}


def fields(kind, row, where):
    """A problem for each thing by which this is no object of that kind."""
    if not isinstance(row, dict):
        yield f"{where}: not an object"
        return
    for name, (form, is_needed) in FIELDS[kind].items():
        if name in row and not isinstance(row[name], form):
            yield f"{where}: {name} has another type"
        elif name not in row and is_needed:
            yield f"{where}: no {name}"
    for name in row.keys() - FIELDS[kind].keys():
        yield f"{where}: {name} is not known"


def licences_in(expression):
    """The LicenseRefs of an expression; ValueError: it is none."""
    if expression in NOTHING:
        return []
    words = re.findall(r"[()]|[^\s()]+", expression)
    found, depth, wants_term = [], 0, True
    for word in words:
        if wants_term and word == "(":
            depth += 1
        elif wants_term and TERM.fullmatch(word) and word not in ("AND", "OR", "WITH"):
            found.append(word)
            wants_term = False
        elif not wants_term and word == ")" and depth > 0:
            depth -= 1
        elif not wants_term and word in ("AND", "OR", "WITH"):
            wants_term = True
        else:
            raise ValueError(expression)
    if wants_term or depth:
        raise ValueError(expression)
    return [name for name in found if name.startswith("LicenseRef-")]


class Check:
    def __init__(self, document):
        self.document, self.problems = document, []
        self.ids, self.licences = {"SPDXRef-DOCUMENT"}, set()

    def bad(self, where, text):
        self.problems.append(f"{where}: {text}")

    def is_whole(self, kind, row, where):
        found = list(fields(kind, row, where))
        self.problems += found
        return not found

    def rows(self, name, kind):
        for at, row in enumerate(self.document.get(name, [])):
            where = f"{name}[{at}]"
            if self.is_whole(kind, row, where):
                yield where, row

    def identity(self, where, row):
        if not ID.fullmatch(row["SPDXID"]):
            self.bad(where, f"{row['SPDXID']} is no identifier")
        if row["SPDXID"] in self.ids:
            self.bad(where, f"{row['SPDXID']} is there twice")
        self.ids.add(row["SPDXID"])

    def expressions(self, where, row):
        for name in ("licenseConcluded", "licenseDeclared"):
            try:
                unknown = [ref for ref in licences_in(row.get(name, "NONE")) if ref not in self.licences]
            except ValueError:
                self.bad(where, f"{name} is no licence expression: {row[name]}")
                continue
            if unknown:
                self.bad(where, f"{name}: {unknown[0]} is not explained")

    def checksums(self, where, row, needed=()):
        seen = set()
        for at, sum_ in enumerate(row.get("checksums", [])):
            if not self.is_whole("checksum", sum_, f"{where}.checksums[{at}]"):
                continue
            seen.add(sum_["algorithm"])
            length = HASHES.get(sum_["algorithm"])
            if length is None or not re.fullmatch(rf"[0-9a-f]{{{length}}}", sum_["checksumValue"]):
                self.bad(where, f"a checksum that is none: {sum_['algorithm']} {sum_['checksumValue']}")
        for name in needed:
            if name not in seen:
                self.bad(where, f"no {name}")

    def head(self):
        if not self.is_whole("document", self.document, "document"):
            return False
        head, info = self.document, self.document["creationInfo"]
        if head["spdxVersion"] != "SPDX-2.3" or head["dataLicense"] != "CC0-1.0":
            self.bad("document", "not SPDX-2.3 under CC0-1.0")
        if head["SPDXID"] != "SPDXRef-DOCUMENT":
            self.bad("document", "its SPDXID is not SPDXRef-DOCUMENT")
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*:[^\s#]+", head["documentNamespace"]):
            self.bad("document", "its namespace is no URI, or has a #")
        if self.is_whole("creationInfo", info, "creationInfo"):
            self.creation(info)
        return True

    def creation(self, info):
        try:
            datetime.strptime(info["created"], "%Y-%m-%dT%H:%M:%SZ")
        except ValueError:
            self.bad("creationInfo", f"created: {info['created']} is no time")
        if not info["creators"] or not all(isinstance(name, str) and CREATOR.fullmatch(name)
                                           for name in info["creators"]):
            self.bad("creationInfo", "creators: none, or of no known kind")

    def package(self, where, row):
        self.identity(where, row)
        self.expressions(where, row)
        self.checksums(where, row)
        if row.get("primaryPackagePurpose", "OTHER") not in PURPOSES:
            self.bad(where, f"no purpose: {row['primaryPackagePurpose']}")
        if row.get("supplier", "NOASSERTION") != "NOASSERTION" and not re.fullmatch(
                r"(?:Organization|Person): \S.*", row["supplier"]):
            self.bad(where, f"no supplier: {row['supplier']}")
        for at, link in enumerate(row.get("externalRefs", [])):
            if self.is_whole("externalRef", link, f"{where}.externalRefs[{at}]") and (
                    link["referenceCategory"] not in CATEGORIES or (
                        link["referenceType"] == "purl" and not PURL.fullmatch(link["referenceLocator"]))):
                self.bad(where, f"no reference: {link['referenceLocator']}")

    def file(self, where, row):
        self.identity(where, row)
        self.expressions(where, row)
        self.checksums(where, row, needed=("SHA1",))
        if not row["fileName"].startswith("./") or ".." in row["fileName"].split("/"):
            self.bad(where, f"{row['fileName']} is not below ./")
        if not set(row.get("fileTypes", [])) <= set(FILE_TYPES):
            self.bad(where, f"no types: {row['fileTypes']}")

    def contents(self):
        """A package has files if they are analysed, and its code is that of their SHA-1."""
        sums = {row["SPDXID"]: s["checksumValue"] for row in self.document.get("files", [])
                for s in row["checksums"] if s["algorithm"] == "SHA1"}
        for at, row in enumerate(self.document.get("packages", [])):
            held = [sums.get(link["relatedSpdxElement"], "") for link in self.document["relationships"]
                    if link["relationshipType"] == "CONTAINS" and link["spdxElementId"] == row["SPDXID"]]
            code = hashlib.sha1("".join(sorted(held)).encode()).hexdigest()
            told = row.get("packageVerificationCode", {}).get("packageVerificationCodeValue")
            if not row.get("filesAnalyzed", True) and held:
                self.bad(f"packages[{at}]", "it has files, and filesAnalyzed is false")
            if row.get("filesAnalyzed", True) and told != code:
                self.bad(f"packages[{at}]", f"packageVerificationCode is {told}, and not {code}")

    def relationship(self, where, row):
        if row["relationshipType"] not in RELATIONS:
            self.bad(where, f"no relationship: {row['relationshipType']}")
        for end in (row["spdxElementId"], row["relatedSpdxElement"]):
            if end not in self.ids and end not in NOTHING:
                self.bad(where, f"{end} is not there")

    def everything(self):
        if not self.head():
            return self.problems
        self.licences = {row["licenseId"] for _, row in self.rows("hasExtractedLicensingInfos", "licence")}
        for where, row in self.rows("packages", "package"):
            self.package(where, row)
        for where, row in self.rows("files", "file"):
            self.file(where, row)
        described = 0
        for where, row in self.rows("relationships", "relationship"):
            self.relationship(where, row)
            described += row["relationshipType"] == "DESCRIBES" and row["spdxElementId"] == "SPDXRef-DOCUMENT"
        if described == 0:
            self.bad("document", "describes nothing")
        if not self.problems:
            self.contents()
        return self.problems


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(64)
    try:
        with open(sys.argv[1], encoding="utf-8") as stream:
            document = json.load(stream)
        problems = Check(document).everything() if isinstance(document, dict) else ["not an object"]
    except (OSError, ValueError) as error:
        problems = [f"{sys.argv[1]}: {error}"]
    sources.finish("check-sbom", problems)


if __name__ == "__main__":
    main()
