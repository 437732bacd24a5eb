# SPDX-License-Identifier: Apache-2.0
"""A display that is slower than its camera gets the newest frame, and hears how many it missed."""
import ambroker

with ambroker.connect() as conn:
    display = conn.subscribe("camera", policy="latest")
    pub = conn.publisher("camera")
    shown, lost = [], 0
    for number in range(100):
        pub.send(b"%d" % number)
    pub.flush(5)
    while 99 not in shown:
        frame = display.next(5)
        lost += frame.lost
        shown.append(int(bytes(frame)))
        frame.release()  # the next one comes when this one is given back
    print(len(shown) + lost, "frames, the last one", shown[-1])
