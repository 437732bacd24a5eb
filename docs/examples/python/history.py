# SPDX-License-Identifier: Apache-2.0
"""A late reader begins where it wants. The topic keeps history, as its broker is configured:
topics = ( { match = "log"; retain = { messages = 100; }; } );"""
import ambroker

with ambroker.connect() as conn:
    for number in range(5):
        conn.publish("log", b"%d" % number)
    conn.flush(5)
    for start in ({"start": "first"}, {"start": "last"}, {"start": "last_n", "start_at": 2},
                  {"start": "seq", "start_at": 4}):
        with conn.subscribe("log", **start) as late:
            print(start, bytes(late.next(5)))
