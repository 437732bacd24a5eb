# SPDX-License-Identifier: Apache-2.0
"""The publisher may send GPU memory: a reader that does not say where it wants it gets it on the host."""
import numpy as np

import ambroker

with ambroker.connect() as conn:
    sub = conn.subscribe("weights")
    conn.publish("weights", np.full((4, 4), 1.5, "f4"))
    msg = sub.next(5)
    print(f"{msg.array[0, 0]}, rank {msg.array.ndim}, in {msg.mem} memory")
