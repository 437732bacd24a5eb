# SPDX-License-Identifier: Apache-2.0
"""Only messages that pass a condition on their properties."""
import ambroker

with ambroker.connect() as conn:
    dear = conn.subscribe("trades", filter="kind = 'trade' and price > 100")
    for price in (50, 150):
        conn.publish("trades", b"", props={"kind": "trade", "price": price})
    print(dear.next(5).props["price"])
