# SPDX-License-Identifier: Apache-2.0
"""A publisher that outlives its broker. A broker that is asked to end says so first, and takes the messages that
are under way. New messages wait for the next broker. Ctrl-C ends it."""
import ambroker

SAID = {"draining": "the broker will end", "restored": "there is another one"}


def hear(event):
    if event.type in SAID:
        print(SAID[event.type], flush=True)


sent = 0
with ambroker.connect(on_event=hear, reconnect_max=0.2) as conn:
    # With a name, what was under way when the session ended is sent again, and comes once.
    pub = conn.publisher("ticks", name="clock")
    try:
        while True:
            pub.send(b"tick")  # waits for the next broker
            sent += 1
            conn.poll(0.02)
    except KeyboardInterrupt:
        pub.flush(5)
print(sent, "ticks")
