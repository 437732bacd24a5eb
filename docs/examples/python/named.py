# SPDX-License-Identifier: Apache-2.0
"""A meter that numbers its readings over all its lives. Under its name the broker knows how many have come, so the
next life goes on there. Readings that a lost session leaves open come once."""
import ambroker

for life in range(2):
    with ambroker.connect() as conn:
        pub = conn.publisher("readings", name="meter-7")
        first = pub.stat()["posted"] + 1
        for number in range(first, first + 3):
            pub.send(b"reading %d" % number, 5)
        pub.flush(5)
        print(f"readings {first} to {first + 2}")
        try:
            conn.publisher("readings", name="meter-7")
        except ambroker.Busy:
            print("there is one of that name")
