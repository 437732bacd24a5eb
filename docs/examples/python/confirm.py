# SPDX-License-Identifier: Apache-2.0
"""A publisher that waits until its subscriber is done with the message."""
import ambroker

with ambroker.connect() as conn:
    sub = conn.subscribe("orders", ack="explicit")
    pub = conn.publisher("orders", confirm="delivered")
    pub.send(b"one")
    try:
        pub.flush(0.2)
    except ambroker.Timeout:
        print("not yet")
    sub.next(5).ack()
    pub.flush(5)
    print("done with")
