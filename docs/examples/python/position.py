# SPDX-License-Identifier: Apache-2.0
"""A reader remembers its place; another one goes on behind it. The topics keep history:
topics = ( { match = "prices.>"; retain = { messages = 100; }; } );"""
import ambroker

with ambroker.connect() as conn:
    first = conn.subscribe("prices.>")
    for price in (b"10", b"11", b"12"):
        conn.publish("prices.a", price)
    print(bytes(first.next(5)))
    place = first.position()  # bytes: for a file
    with conn.subscribe("prices.>", start=place) as second:
        print(bytes(second.next(5)), bytes(second.next(5)))
