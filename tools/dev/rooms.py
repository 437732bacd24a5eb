# SPDX-License-Identifier: Apache-2.0
"""The rooms of tools/dev/arrows.txt, and which of them a file is in and may use."""
import os
import re


def module_of(name):
    """A .c file and its headers have one: the name without the ending, and without _private."""
    return re.sub(r"_(private|shared|internal)$", "", os.path.splitext(name)[0])


def owner(name, folders):
    """The room of a file: the longest folder of the table that holds it."""
    fitting = [f for f in folders if name.startswith(f + "/")]
    return max(fitting, key=len) if fitting else None


def is_within(name, places):
    return any(name == p or name.startswith(p + "/") for p in places)


def may_use(target, folders, places):
    """Is the file one of these places, or its room? A place that ends with a slash is a folder with
    all rooms below it."""
    return (owner(target, folders) in places or target in places
            or is_within(target, [p.rstrip("/") for p in places if p.endswith("/")]))


def definers_of(units):
    """Where each function that others may call is defined: usually one file."""
    definers = {}
    for name, unit in units.items():
        for function, is_static in unit.defined.items():
            if not is_static or name.endswith(".h"):
                definers.setdefault(function, set()).add(name)
    return definers


def rooms_of(rows):
    """Each room with the places that it may use: `above` stands for the rooms of the same top
    folder whose lines stand above its own."""
    folders = {}
    for room, places in rows:
        above = [other for other in folders if other.split("/")[0] == room.split("/")[0]]
        folders[room] = [p for place in places
                         for p in (above if place == "above" else [place])]
    return folders


def table_of(rows):
    """rooms_of the lines of arrows.txt that are rooms."""
    return rooms_of([(k, rest.split()) for k, rest in rows
                     if not k.startswith(("<", "*")) and k != "shared"])
