# SPDX-License-Identifier: Apache-2.0
"""A publisher that goes on reading its messages after they have left, and after the end of all."""
import numpy as np

import ambroker

frames = []
with ambroker.connect() as conn:
    pub = conn.publisher("frames")
    for letter in b"abcde":
        with pub.lease(1 << 20) as frame:
            frame[:] = letter
        frames.append(frame)  # from here on it is read-only
print(np.array([frame[-1] for frame in frames]).tobytes())
