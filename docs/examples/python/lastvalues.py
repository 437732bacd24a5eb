# SPDX-License-Identifier: Apache-2.0
"""A table of last values: a late reader gets the newest message of each key, then new messages. The topic keeps
them: topics = ( { match = "values.>"; retain = { keys = 100; }; } );"""
import ambroker

with ambroker.connect() as conn:
    pub = conn.publisher("values.cities")
    for city, degrees in (("oslo", 1), ("rome", 11), ("oslo", 2), ("rome", 12), ("paris", 10), ("oslo", 3)):
        pub.send(b"%d" % degrees, key=city)
    pub.flush(5)
    sub = conn.subscribe("values.cities", start="last")
    for msg in (sub.next(5) for _ in range(3)):
        print(msg.key, bytes(msg).decode())
    pub.send(b"4", key="oslo")
    msg = sub.next(5)
    print("now", msg.key, bytes(msg).decode())
