# SPDX-License-Identifier: Apache-2.0
"""A time limit on a machine that is busy with others."""
import os


def patience(seconds):
    """A limit on this machine now: promises are for one whose processes need not wait for a core."""
    return seconds * max(1.0, os.getloadavg()[0] / os.cpu_count())
