# SPDX-License-Identifier: Apache-2.0
"""What can be measured."""

FIELDS = ("workload", "size", "readers", "form", "way")  # of a cell
SIZES = {"64": 64, "64k": 64 << 10, "1m": 1 << 20, "64m": 64 << 20}


def cells():
    """[(workload, size, readers, form, way)]"""
    out = []
    for size in SIZES:
        for readers in (1, 8):
            for form in ("sync", "aio"):
                ways = ("call", "many") if size == "64" else ("call", "lease")
                out += [("pubsub", size, readers, form, way) for way in ways]
    out += [("handover", size, 1, "sync", "lease") for size in SIZES if size != "64"]
    out += [("latency", size, 1, form, "call") for size in ("64", "1m") for form in ("sync", "aio")]
    out += [("send_recv", size, 1, form, "call") for size in SIZES for form in ("sync", "aio")]
    out += [("face", size, 1, "c", way) for size in SIZES for way in ("call", "lease") if (size, way) != ("64", "lease")]
    return out


def cell_of(row):
    return tuple(row[field] for field in FIELDS)


def name_of(cell):
    return ".".join(str(part) for part in cell)
