# SPDX-License-Identifier: Apache-2.0
"""Events of a connection: here how many subscribe to a publisher's topic."""
import ambroker


def hear(event):
    if event.type == "subscribers":
        print("subscribers:", event.count)


with ambroker.connect(on_event=hear) as conn:
    pub = conn.publisher("a")
    with conn.subscribe("a"):
        pub.wait_subscribers(1, 5)
        while conn.poll(5) == 0:
            pass
