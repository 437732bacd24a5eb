#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has each counter of the broker a row of the metric table (broker/count/metrics.c), and does the page
(broker/http/page) name such rows alone?

    check-metrics.py [--root DIR]

Looked at are all structs of broker/ whose name ends with _stats, _counts, _numbers or _words, and in
other structs the fields behind a comment that begins with "counters". A field has a row if the
table names it, itself or in OTHERS below, which says by what row it is shown.
"""
import argparse
import pathlib
import re
import sys

STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.M | re.S)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FIELD = re.compile(r"(?:_Atomic )?uint(?:64|32)_t ([^;]*);")
NAME = re.compile(r"\s*(\w+)(?:\[[^]]*\])?\s*$")
ROW = re.compile(r"^    \{(\w+)\((\w+)\),\s+ROW\(", re.M)
METRIC = re.compile(r'"(ambroker_\w+)"')
SHOWN = re.compile(r"\bambroker_\w+")
# The struct that a macro of the table names.
MACROS = {"BROKER": "amb_broker_stats", "WORKER": "amb_shard_stats", "TOPIC": "amb_topic_numbers",
          "TOPIC_WORD": "amb_topic_words", "SUB": "amb_subscription_numbers",
          "SUB_WORD": "amb_subscription_words", "QUEUE": "amb_queue_numbers",
          "QUEUE_WORD": "amb_queue_words", "CLIENT": "amb_client_numbers",
          "CLIENT_WORD": "amb_client_words", "CLOSED_WORD": "amb_closed_words",
          "LINE_WORD": "amb_line_words", "LOSS_WORD": "amb_loss_words"}
# Counters that lie elsewhere, and the row that shows each of them. "-": no row, and why.
OTHERS = {
    "amb_topic_counts.msgs_in": "TOPIC.messages",
    "amb_topic_counts.bytes_in": "TOPIC.bytes",
    "amb_topic_counts.msgs_rejected": "TOPIC.rejected",
    "amb_topic_counts.msgs_dropped": "TOPIC.dropped",
    "amb_topic_spill.msgs": "TOPIC.spilled",
    "amb_topic_spill.bytes": "TOPIC.spilled_bytes",
    "amb_topic_spill.failed": "TOPIC.spill_failed",
    "amb_topic_spill.failed_upto": "-a position",
    "amb_topic_spill.lost": "TOPIC.spill_dropped",
    "amb_subscription.msgs": "SUB.delivered",
    "amb_subscription.bytes": "SUB.bytes",
    "amb_subscription.lost": "SUB.lost",
    "amb_subscription.spilled": "SUB.spilled",
    "amb_subscription.gpu_msgs": "SUB.gpu_delivered",
    "amb_subscription.gpu_bytes": "SUB.gpu_bytes",
    "amb_subscription.held_bytes": "SUB.held_host_bytes",
    "amb_subscription.held_gpu_bytes": "SUB.held_gpu_bytes",
    "amb_subscription.looked": "-a measure of the code, for its tests",
    "amb_subscription.lost_by": "SUB.lost_slow",
    "amb_audit.lines": "BROKER.audit_lines",
    "amb_audit.lost": "BROKER.audit_lost",
    "amb_queue.given": "QUEUE.delivered",
    "amb_queue.given_remote": "QUEUE.delivered_remote",
    "amb_queue.redelivered": "QUEUE.redelivered",
    "amb_queue.settled_late": "QUEUE.settled_late",
    "amb_queue.dead": "QUEUE.dead",
    "amb_queue.lost": "QUEUE.lost",
    "amb_taker.redelivered": "SUB.redelivered",
    "amb_taker.acked": "SUB.acked",
    "amb_taker.naked": "SUB.naked",
    "amb_taker.termed": "SUB.termed",
    "amb_taker.expired": "SUB.ack_expired",
    "amb_taker.late": "SUB.ack_late",
    "amb_session.msgs_out": "CLIENT.messages_out",
    "amb_session.bytes_out": "CLIENT.bytes_out",
    "amb_session.frames_ignored": "CLIENT.ignored_frames",
    "amb_dir_counts.generation": "-a walk's place",
    "amb_dir_counts.next": "-a walk's place",
    "amb_handshake_stats.ended": "BROKER.tls_handshakes",
}
SUFFIXES = ("_stats", "_counts", "_numbers", "_words")


def fields(body):
    for declaration in FIELD.findall(COMMENT.sub("", body)):
        for part in declaration.split(","):
            found = NAME.match(part)
            if found:
                yield found.group(1)


def counters(name, body):
    """The names of the fields of a struct that count."""
    if name.endswith(SUFFIXES):
        return list(fields(body))
    parts = re.split(r"/\* counters\b", body, maxsplit=1)
    return list(fields("/* " + parts[1])) if len(parts) == 2 else []


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    root = pathlib.Path(parser.parse_args().root)
    table = (root / "broker/count/metrics.c").read_text(encoding="utf-8")
    rows = {f"{macro}.{field}" for macro, field in ROW.findall(table)}
    named = {f"{MACROS[macro]}.{field}" for macro, field in (row.split(".") for row in rows)
             if macro in MACROS}
    faults, seen = [], set()
    for path in sorted(root.glob("broker/**/*.h")):
        for name, body in STRUCT.findall(path.read_text(encoding="utf-8")):
            for field in counters(name, body):
                counter = f"{name}.{field}"
                seen.add(counter)
                row = OTHERS.get(counter)
                if row is None and counter not in named:
                    faults.append(f"{path.relative_to(root)}: {counter} has no row in "
                                  "broker/count/metrics.c")
                elif row is not None and not row.startswith("-") and row not in rows:
                    faults.append(f"tools/dev/check-metrics.py: {counter} is shown by {row}, "
                                  "which is no row")
    metrics = set(METRIC.findall(table))
    for path in sorted(root.glob("broker/http/page/*.js")):
        for name in sorted(set(SHOWN.findall(path.read_text(encoding="utf-8"))) - metrics):
            faults.append(f"{path.relative_to(root)}: {name} is no metric of broker/count/metrics.c")
    for counter in sorted(OTHERS.keys() - seen):
        faults.append(f"tools/dev/check-metrics.py: {counter} is no counter any more")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
