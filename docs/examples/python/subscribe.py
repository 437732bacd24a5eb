# SPDX-License-Identifier: Apache-2.0
"""Prints the messages of a topic until Ctrl-C, or until the broker goes away."""
import ambroker

with ambroker.connect() as conn:
    try:
        for msg in conn.subscribe("greetings"):
            print(msg.topic, msg.seq, bytes(msg), flush=True)
    except KeyboardInterrupt:
        pass
