# SPDX-License-Identifier: Apache-2.0
"""An array goes, and is read where it lies."""
import ambroker
import numpy as np

with ambroker.connect() as conn:
    sub = conn.subscribe("frames.>")
    conn.publish("frames.left", np.arange(12, dtype="f4").reshape(3, 4), props={"lens": "wide"})
    msg = sub.next(5)
    frame = np.asarray(msg)
    print(frame.shape, frame.dtype, frame.sum(), msg.props)
