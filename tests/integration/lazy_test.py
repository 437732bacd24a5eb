# SPDX-License-Identifier: Apache-2.0
"""Lazy subscriptions end to end, on each link: every byte that is asked for is checked, whatever
else the subscription is; what is pinned is never stale, and others hear nothing of large fetches.

    lazy_test.py
"""
import time

from harness import check, patience

MIB = 1 << 20
SMALL = (0, 1, 100, 5000, 16, 70001)
LARGE = (3 * MIB + 5, 16 * MIB, 64 * MIB)


def read(rig, broker, link, topic, count, sizes, *wishes):
    """Messages that came, were fetched, were stale, were lost."""
    reader = rig.client("test-lazy", broker.url(link), broker.url("ring"), topic, count,
                        ",".join(map(str, sizes)), *wishes)
    words = reader.expect("read", 100)
    status = reader.wait(30)
    check(status == 0, f"{reader.name} ended with {status}: {reader.log()}")
    print(f"{link} {' '.join(wishes)}, {count} of {sizes}: {' '.join(words[1:])}", flush=True)
    came, fetched, stale, lost = map(int, words[1:5])
    check(lost == 0, f"{lost} lost")
    rig.forget(reader)
    return came, fetched, stale


def every_kind(rig, broker, link):
    for wishes in (("pin",), ("pin", "late"), ("on", "acked"), ("pin", "acked", "late"),
                   ("on", "grouped"), ("pin", "filtered"), ("pin", "kept")):
        topic = "kept." + link if "kept" in wishes else "a"
        came, fetched, stale = read(rig, broker, link, topic, 300, SMALL, *wishes)
        check(came == (150 if "filtered" in wishes else 300), f"{came} came")
        check(fetched >= came // 3 - 1 and stale == 0, f"{fetched} fetched, {stale} stale")
    came, fetched, stale = read(rig, broker, link, "a", 300, SMALL, "headers")
    check(came == 300 and fetched == 0, f"{came} came, {fetched} fetched")
    # What is not pinned and does not fit is stale, and says so.
    came, fetched, stale = read(rig, broker, link, "a", 300, (5000, 70000), "on", "late", "small")
    check(came == 300 and 200 < stale < 300, f"{came} came, {stale} stale")
    came, fetched, stale = read(rig, broker, link, "a", 7, LARGE, "pin")
    check(came == 7 and fetched == 3, f"{came} came, {fetched} fetched")


def others_go_on(rig, broker, link):
    """While 64 MiB are fetched, a message from one process to another is not late."""
    reader = rig.client("test-lazy", broker.url(link), broker.url("ring"), "b", 6, 64 * MIB, "pin")
    asked, longest = 0, 0.0
    while reader.is_running():
        began = time.monotonic()
        broker.ask("status")
        longest = max(longest, time.monotonic() - began)
        asked += 1
    check(reader.wait() == 0, reader.log())
    workers = broker.ask("workers")
    turn = max(row["longest_turn_ns"] for row in workers) / 1e6
    print(f"{link}: {asked} questions meanwhile, the slowest took {longest * 1e3:.1f} ms; "
          f"longest turn {turn:.1f} ms", flush=True)
    check(longest < patience(2), f"an answer took {longest} s")


def test_lazy_readers(rig, links):
    config = rig.folder / "lazy.conf"
    config.write_text('topics = ( { match = "kept.>"; retain = { messages = 1000; }; } );\n')
    broker = rig.broker("--config", str(config))
    for link in links:
        every_kind(rig, broker, link)
        others_go_on(rig, broker, link)
    rows = broker.ask("workers")
    sums = {key: sum(row[key] for row in rows)
            for key in ("fetches", "fetched_bytes", "fetches_stale")}
    print(sums)
    check(sums["fetches"] > 1000 * len(links) and sums["fetches_stale"] > 200 * len(links), f"{sums}")
    check(sums["fetched_bytes"] > 1000 * MIB, f"{sums}")
    broker.stop()
