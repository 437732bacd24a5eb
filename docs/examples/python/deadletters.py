# SPDX-License-Identifier: Apache-2.0
"""The messages that no subscriber could handle, and why: first the kept ones, then new ones."""
import ambroker

with ambroker.connect() as conn:
    with conn.subscribe("orders", group="g", ack="explicit", max_deliver=1) as sub:
        conn.publish("orders", b"nonsense")
        sub.next(5).term("it is no order")
    msg = conn.subscribe("$DLQ.>", start="first").next(5)
    topic, seq, why, tries = (msg.prop(name).decode() for name in ("$topic", "$seq", "$reason", "$deliveries"))
    print(f"{topic} {seq}: {bytes(msg).decode()}: {why}, after {tries}")
