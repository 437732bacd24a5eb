# SPDX-License-Identifier: Apache-2.0
"""Messages come without their payloads; of the one that matters a range is read."""
import ambroker

with ambroker.connect() as conn:
    sub = conn.subscribe("volumes", lazy="on")
    for number in range(3):
        conn.publish("volumes", bytes([number]) * 1_000_000, props={"number": number})
    for _ in range(3):
        msg = sub.next(5)
        if msg.props["number"] == b"1":
            print(len(msg), msg.read(500, 4, timeout=5))
