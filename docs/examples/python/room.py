# SPDX-License-Identifier: Apache-2.0
"""A loop of one's own that publishes and never waits: a source that finds no room rests until it has."""
import select

import ambroker

COUNT = 20000
left, resting = {}, set()
with ambroker.connect(on_event=lambda event: event.type == "room" and resting.discard(event.publisher)) as conn:
    pubs = [conn.publisher(f"source.{number}") for number in range(3)]
    left = {pub: COUNT for pub in pubs}
    while any(left.values()):
        ready = [pub for pub in pubs if left[pub] and pub.id not in resting]
        for pub in ready:
            try:
                left[pub] -= pub.send_many([b"x" * 1000] * min(64, left[pub]), 0)
            except ambroker.WouldBlock:
                resting.add(pub.id)
        select.select([conn.fileno()], [], [], 0 if ready else None)
        conn.poll(0)
    conn.flush(30)
print(COUNT, "of each of 3")
