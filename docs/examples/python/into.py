# SPDX-License-Identifier: Apache-2.0
"""Payloads land in memory of one's own: a slot for each message."""
import ambroker

slots = [bytearray(1 << 20) for _ in range(4)]


def slot(size, msg):
    return memoryview(slots[msg.seq % len(slots)])[:size]


with ambroker.connect() as conn:
    sub = conn.subscribe("blocks", into={"host": slot})
    conn.publish("blocks", b"landed")
    sub.next(5)
    print([bytes(one[:6]) for one in slots if one[0] != 0])
