# SPDX-License-Identifier: Apache-2.0
"""A loop of one's own over the descriptor of libamb and others: here a timer of select."""
import select

import ambroker

with ambroker.connect() as conn:
    sub, poller, seen = conn.subscribe("sensor.>"), select.epoll(), []
    poller.register(conn.fileno(), select.EPOLLIN)
    while len(seen) < 3:
        if not poller.poll(0.05):  # nothing for a while
            conn.publish("sensor.a.b", b"x" * len(seen))
            conn.flush(5)
            continue
        conn.poll(0)
        try:
            while True:
                seen.append(len(sub.next(0)))
        except ambroker.WouldBlock:
            pass
    print("lengths", seen)
