# SPDX-License-Identifier: Apache-2.0
"""Timeouts of calls that wait more than once."""
from __future__ import annotations

SECONDS_MAX = 9e9
LEAST_SECONDS = 1e-9  # a wait that says Timeout at once; 0 would say WouldBlock
_PATIENCE_SECONDS = 5.0
_HASTE_SECONDS = 0.1


def patience(kind: type[BaseException] | None) -> float:
    """How long the end of a `with` flushes: not where Ctrl-C or a cancel wants to go on."""
    return _PATIENCE_SECONDS if kind is None or issubclass(kind, Exception) else _HASTE_SECONDS


def deadline_of(now: float, timeout: float | None) -> float | None:
    """When a timeout is over, by the clock of `now`. None: never."""
    if timeout is None:
        return None
    seconds = float(timeout)
    if not 0 <= seconds < SECONDS_MAX:  # NaN, too
        raise ValueError("a timeout is seconds from 0 up, or None for ever")
    return now + seconds


def left_of(timeout: float | None, deadline: float | None, now: float) -> float | None:
    """What is left of a timeout. None stays None, and 0 stays 0; another one never becomes 0."""
    if deadline is None or timeout == 0:
        return timeout
    return max(LEAST_SECONDS, deadline - now)
