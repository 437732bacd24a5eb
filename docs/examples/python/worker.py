# SPDX-License-Identifier: Apache-2.0
"""Two workers share jobs; one that fails is tried again, then given up."""
import ambroker

with ambroker.connect() as conn:
    workers = [conn.subscribe("jobs", group="w", ack="explicit", max_deliver=2) for _ in range(2)]
    dead = conn.subscribe("$DLQ.jobs")
    conn.publish("jobs", b"bad")
    tries = 0
    while tries < 2:
        for worker in workers:
            try:
                worker.next(0.1).nak()
                tries += 1
            except ambroker.Timeout:
                pass
    print("given up after 2:", bytes(dead.next(5)))
