# SPDX-License-Identifier: Apache-2.0
"""Calls that wait, and what ends them."""
import os
import signal
import threading
import time

import pytest

PROMPT = 1.0  # 0.25 s is promised; a busy machine is given more
READY = 5.0


def ended_by(action, call, is_ready=lambda: True):
    """What `call` raises once `action` has run, and how long that took from there. That begins 0.2 s later, and
    not before is_ready(), for which it waits for seconds at most."""
    begin = []

    def act():
        end = time.monotonic() + READY
        while not is_ready() and time.monotonic() < end:
            time.sleep(0.01)
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


def interrupted(call, is_ready=lambda: True):
    """How long after a SIGINT the call has raised KeyboardInterrupt."""
    raised, late = ended_by(interrupt, call, is_ready)
    assert raised is KeyboardInterrupt
    return late
