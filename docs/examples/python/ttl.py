# SPDX-License-Identifier: Apache-2.0
"""An order that is worth something for a moment only."""
import time

import ambroker

with ambroker.connect() as conn:
    sub = conn.subscribe("orders", credit_msgs=1)
    conn.publish("orders", b"held")
    held = sub.next(5)  # no credit is left for the next ones
    conn.publish("orders", b"now or never", ttl=0.05)
    conn.publish("orders", b"later")
    conn.flush(5)
    time.sleep(0.3)
    del held
    rest = [bytes(msg) for msg in sub.next_many(9, 5)]
    print(rest[-1] if rest[-1] != b"now or never" else bytes(sub.next(5)))
