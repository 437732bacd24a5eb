# SPDX-License-Identifier: Apache-2.0
"""A reader that stays, whatever becomes of its broker. It waits for one that is not there yet, and takes the next of
the list ("unix:///a,tcp://node2:4733") when one is lost. Then it is told the messages that it missed."""
import ambroker

UNKNOWN = 2**64 - 1


def hear(event):
    if event.type == "restored" or event.type == "lost" and event.count == 0:
        print(event.type, flush=True)


with ambroker.connect(on_event=hear, retry_first=True, reconnect_min=0.05, reconnect_max=5) as conn:
    try:
        for msg in conn.subscribe("prices.>"):  # across an outage
            if msg.lost:
                print("nobody knows how many were missed" if msg.lost == UNKNOWN else f"{msg.lost} missed")
            print(f"{msg.topic}: {bytes(msg).decode()}", flush=True)
    except KeyboardInterrupt:
        pass
