# SPDX-License-Identifier: Apache-2.0
"""An array that is received into GPU memory, forwarded from there, and read back. CuPy, PyTorch, Numba and JAX take
such a message by __cuda_array_interface__ or __dlpack__, and publish their arrays alike."""
import numpy as np

import ambroker

with ambroker.connect() as conn:
    sub = conn.subscribe("weights.*", mem="cuda:0")
    conn.publish("weights.one", np.ones((512, 512), "f4"))
    msg = sub.next(5)
    print(f"{msg.mem}:{msg.device}", msg.__cuda_array_interface__["shape"])
    conn.publish("weights.two", msg)  # on the GPU
    again = sub.next(5)
    values = np.empty((512, 512), "f4")
    again.read(into=values)
    print(again.topic, values.sum())
