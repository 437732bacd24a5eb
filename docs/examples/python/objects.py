# SPDX-License-Identifier: Apache-2.0
"""Objects of Python's, their arrays in place; only among writers whose code one would run."""
import ambroker
import numpy as np

with ambroker.connect() as conn:
    sub = conn.subscribe("results", trust_pickle=True)
    conn.publish_object("results", {"loss": 0.5, "weights": np.ones((100, 100))})
    result = sub.next(5).object()
    print(result["loss"], result["weights"].sum())
