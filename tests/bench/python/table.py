# SPDX-License-Identifier: Apache-2.0
"""The target table: ours beside the best of the peers in the same run."""
import dataclasses

from cells import cell_of, name_of

OTHERS_MAX = 0.15
OURS = ("ambroker", "ambroker-tcp")
UCXX = ("ucxx-",)
UCXX_BLOCKING = ("ucxx-tag-shm", "ucxx-tag-tcp")
UNITS = {"msgs_per_s": "messages/s", "mb_per_s": "MB/s", "p50_us": "us, p50"}


@dataclasses.dataclass(frozen=True)
class Target:
    """ours and theirs: (workload, size, readers, form, way) with None for any; systems by their beginnings."""

    name: str
    ours: tuple
    theirs: tuple
    systems: tuple
    key: str
    op: str
    target: float


PEERS = ("zmq-", "redis-", "nats", "nng-", "zenoh")


def targets():
    out = []
    rate, mb, p50 = "msgs_per_s", "mb_per_s", "p50_us"
    out += [
        Target("64 B, a call a message", ("pubsub", "64", 1, "sync", "call"), ("pubsub", "64", 1, None, "call"), PEERS,
               rate, ">=", 4),
        Target("64 B, batched", ("pubsub", "64", 1, "sync", "many"), ("pubsub", "64", 1, None, None), PEERS, rate,
               ">=", 10),
        Target("64 B one way, sync", ("latency", "64", 1, "sync", "call"), ("latency", "64", 1, "sync", "call"), PEERS,
               p50, "<=", .25),
        Target("64 B one way, sync; ucxx blocking", ("latency", "64", 1, "sync", "call"), ("latency", "64", 1, "sync", "call"),
               UCXX_BLOCKING, p50, "<=", .7),
        Target("64 B one way, asyncio", ("latency", "64", 1, "aio", "call"), ("latency", "64", 1, "aio", "call"), PEERS,
               p50, "<=", .5),
        Target("64 B one way, asyncio; ucxx", ("latency", "64", 1, "aio", "call"), ("latency", "64", 1, "aio", "call"),
               UCXX, p50, "<=", 1),
    ]
    for size, least in (("1m", 3), ("64m", 5)):
        cell = ("pubsub", size, 1, "sync", "call")
        out.append(Target(f"{size}, each byte touched", cell, ("pubsub", size, 1, None, None), PEERS, mb, ">=", least))
        out.append(Target(f"{size}, each byte touched; ucxx", cell, ("pubsub", size, 1, None, None), UCXX, mb, ">=", 2))
        cell = ("pubsub", size, 1, "sync", "lease")
        out.append(Target(f"{size}, touched, leased", cell, ("pubsub", size, 1, None, None), PEERS, mb, ">=", least))
        out.append(Target(f"{size}, touched, leased; ucxx", cell, ("pubsub", size, 1, None, None), UCXX, mb, ">=", 2))
    for size in ("64k", "1m", "64m"):
        cell = ("handover", size, 1, "sync", "lease")
        out.append(Target(f"hand-over, {size}; iceoryx2", cell, ("handover", size, 1, None, None), ("iceoryx2",), rate,
                          ">=", 1))
        out.append(Target(f"hand-over, {size}; zenoh SHM", cell, ("handover", size, 1, None, None), ("zenoh-shm",), rate,
                          ">=", 10))
    out.append(Target("the face, 64 B batched", ("pubsub", "64", 1, "sync", "many"), ("face", "64", 1, "c", "call"),
                      OURS, rate, ">=", .5))
    for size in ("64k", "1m", "64m"):
        for way in ("call", "lease"):
            out.append(Target(f"the face, {size}, {way}", ("pubsub", size, 1, "sync", way),
                              ("face", size, 1, "c", way), OURS, mb, ">=", .9))
    return out


def is_bad(row):
    """Lost, damaged or out of order; or ours has failed."""
    if "not run" in row:
        return row["system"].startswith("ambroker")
    return any(row[key] for key in ("lost", "disordered", "damaged"))


def _matches(row, cell):
    return all(want is None or want == part for want, part in zip(cell, cell_of(row)))


def _best(rows, cell, systems, target):
    found = [row for row in rows if _matches(row, cell) and row["system"].startswith(systems) and target.key in row]
    if not found:
        return None
    return (max if target.op == ">=" else min)(found, key=lambda row: row[target.key])


def number(value):
    for scale, unit in ((1e6, " M"), (1e3, " k")):
        if value >= scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}"


def noise(row):
    """The share of the machine that others took."""
    return row.get("others") or 0.0


def is_noisy(row):
    return noise(row) > OTHERS_MAX


def shown(row, key):
    """A figure; with a star where it is a noisy one."""
    return number(row[key]) + ("*" if is_noisy(row) else "")


def judged(rows):
    """[(target, our row, their row, ratio, met)]; None where a side is missing."""
    out = []
    mine = [row for row in rows if row["system"] == "ambroker"]
    for target in targets():
        ours = _best(mine, target.ours, ("ambroker",), target)
        theirs = _best(rows, target.theirs, target.systems, target)
        if ours and theirs:
            ratio = ours[target.key] / theirs[target.key]
            met = ratio >= target.target if target.op == ">=" else ratio <= target.target
            out.append((target, ours, theirs, ratio, met))
        else:
            out.append((target, ours, theirs, None, None))
    return out


def text(rows):
    """As a page has it."""
    lines = ["| cell | | beside | ours | ratio | target | met |", "|---|---|---|---|---|---|---|"]
    for target, ours, theirs, ratio, met in judged(rows):
        unit = UNITS[target.key]
        here = shown(ours, target.key) if ours else "-"
        there = f"{theirs['system']} {shown(theirs, target.key)}" if theirs else "-"
        if theirs and theirs["workload"] == "face":
            there = f"C {shown(theirs, target.key)}"
        word = {None: "-", True: "yes", False: "no"}[met]
        if ours and theirs and (is_noisy(ours) or is_noisy(theirs)):
            word = "open"
        lines.append(f"| {target.name} | {unit} | {there} | {here} | {'-' if ratio is None else f'{ratio:.2f}'} | "
                     f"{target.op} {target.target:g} | {word} |")
    ran = [row for row in rows if "not run" not in row]
    bad = [row for row in ran if is_bad(row)]
    lines.append("")
    lines.append(f"{len(ran)} cells ran. Lost, damaged or out of order: {len(bad)}.")
    lines += [f"- {name_of(cell_of(row))} {row['system']}: "
              f"{row['lost']} lost, {row['disordered']} out of order, {row['damaged']} damaged" for row in bad]
    return "\n".join(lines)
