# SPDX-License-Identifier: Apache-2.0
"""Many small messages without waiting for any of them, and the proof that each has arrived."""
import threading

import ambroker

COUNT, BATCH = 100_000, 500


def publish():
    with conn.publisher("numbers") as pub:
        for first in range(0, COUNT, BATCH):
            pub.send_many([b"%d" % number for number in range(first, first + BATCH)])


with ambroker.connect() as conn:
    sub = conn.subscribe("numbers", policy="block", block=60)
    publisher = threading.Thread(target=publish)
    publisher.start()
    seen = []
    while len(seen) < COUNT:
        seen += [int(bytes(msg)) for msg in sub.next_many(1024, 10)]
    publisher.join()  # All is here, and it may not have heard of that.
print("in order" if seen == list(range(COUNT)) else "not in order")
