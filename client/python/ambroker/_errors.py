# SPDX-License-Identifier: Apache-2.0
"""Exceptions that the package raises itself."""
from __future__ import annotations

from typing import TypeVar

from . import _amb

_E = TypeVar("_E", bound=_amb.Error)


def error(kind: type[_E], text: str) -> _E:
    """As libamb's, with a sentence of ours."""
    raised = kind(text)
    raised.text = text
    raised.scope = "call"
    return raised
