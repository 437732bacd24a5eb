# SPDX-License-Identifier: Apache-2.0
"""Reports can wait, an order to stop cannot: it overtakes those that were not taken yet."""
import ambroker

with ambroker.connect() as conn:
    sub = conn.subscribe("robot", credit_msgs=1)  # The others wait at the broker.
    reports = conn.publisher("robot", priority="low")
    orders = conn.publisher("robot", priority="high")
    for _ in range(3):
        reports.send(b"report")
        reports.flush(5)
    orders.send(b"stop!")
    orders.flush(5)
    for _ in range(4):
        msg = sub.next(5)
        print(f"{msg.priority}: {bytes(msg).decode()}")
        msg.release()  # the next one comes when this one is given back
