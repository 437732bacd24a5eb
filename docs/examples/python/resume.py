# SPDX-License-Identifier: Apache-2.0
"""A publisher with a name: each message comes once, whatever becomes of session or program."""
import time

import ambroker


def counter():
    while True:
        try:
            return conn.publisher("steps", name="counter")
        except ambroker.Busy:  # its former life has not ended yet
            time.sleep(0.01)


with ambroker.connect() as conn:
    sub = conn.subscribe("steps")
    for _ in range(2):  # two lives of one program
        with counter() as pub:
            done = pub.stat()["posted"]
            for number in (done + 1, done + 2):
                pub.send(b"%d" % number)
    print([bytes(sub.next(5)) for _ in range(4)])
