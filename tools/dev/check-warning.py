#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md and docs/security.md have the warning about the ucx link, word for word and as a
quotation, so that nobody softens it by accident. Lines may break anywhere."""
import argparse
import re

import sources

PAGES = ("README.md", "docs/security.md")
WARNING = (
    "The ucx link is not a security boundary. It has no encryption and no access control. Whoever can "
    "send packets to a UCX port of brokerd, or of a client, can write into that process's memory "
    "without logging in. Login only decides who is told the address. Let nobody reach such a port whom "
    "you would not let run code as the broker. All tenants of that broker depend on them. Fence the "
    "ports: an interface of their own (VLAN, InfiniBand partition, WireGuard, IPsec), "
    "`transports.port_range`, a firewall set. Everybody else uses `tls://`.")
BLOCK = re.compile(r"^(?:>.*\n)+", re.M)


def quotations(text):
    """Each block of quoted lines as one line."""
    return [" ".join(re.sub(r"^>", "", block, flags=re.M).split()) for block in BLOCK.findall(text)]


def first_difference(found):
    ours, theirs = WARNING.split(), found.split()
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    return f"'{' '.join(theirs[at:at + 4])}' stands for '{' '.join(ours[at:at + 4])}'"


def check(page, text):
    found = quotations(text)
    if WARNING in found:
        return
    begun = [quotation for quotation in found if quotation.startswith(WARNING[:12])]
    yield (f"{page}: the warning about the ucx link is not word for word: {first_difference(begun[0])}"
           if begun else f"{page}: the warning about the ucx link is not there, as a quotation")


def main():
    sources.options(argparse.ArgumentParser())
    problems = []
    for page in PAGES:
        problems += check(page, sources.read(page))
    sources.finish("check-warning", problems)


if __name__ == "__main__":
    main()
