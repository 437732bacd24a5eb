# SPDX-License-Identifier: Apache-2.0
"""A group whose members share the work by key: all orders of a customer go to one member, in their order."""
import ambroker

CUSTOMERS, ROUNDS = ("ada", "bob", "cyd", "dee"), 4

with ambroker.connect() as conn:
    members = [conn.subscribe("keyed.orders", group="clerks") for _ in range(2)]
    pub = conn.publisher("keyed.orders")
    for number in range(ROUNDS * len(CUSTOMERS)):
        pub.send(b"order", key=CUSTOMERS[number % len(CUSTOMERS)])
    pub.flush(5)
    seen = []
    while len(seen) < ROUNDS * len(CUSTOMERS):
        for name, member in enumerate(members):
            try:
                seen.append((member.next(0.02).key, name))
            except ambroker.Timeout:
                pass
    print(len(seen), "orders,", len(set(seen)), "customers with one member each")
