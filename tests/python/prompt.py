# SPDX-License-Identifier: Apache-2.0
"""Calls that wait, and what ends them."""
import os
import signal
import threading
import time

import pytest

PROMPT = 1.0  # 0.25 s is promised; a busy machine is given more


def ended_by(action, call):
    """What `call` raises once `action` has run, which begins 0.2 s later; and how long that took from there."""
    begin = []

    def act():
        begin.append(time.monotonic())
        action()

    timer = threading.Timer(0.2, act)
    timer.start()
    try:
        with pytest.raises(BaseException) as caught:
            call()
        late = time.monotonic()
    finally:
        timer.cancel()  # Where the call came back by itself.
        timer.join()
    return caught.type, late - begin[0]


def interrupt():
    """As Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


def interrupted(call):
    """How long after a SIGINT the call has raised KeyboardInterrupt."""
    raised, late = ended_by(interrupt, call)
    assert raised is KeyboardInterrupt
    return late
