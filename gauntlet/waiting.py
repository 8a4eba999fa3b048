"""Waiting for conditions, with deadlines that only cost time when something is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.support.waiting import eventually

#: How much longer than usual everything may take, for a slow or busy machine.
PATIENCE = float(os.environ.get("GAUNTLET_PATIENCE", "1"))

#: Seconds that a scenario lasts that is about holding for a time, in full and in its short form.
LENGTH, SHORT_LENGTH = 600.0, 10.0


def until[T](condition: Callable[[], T], what: str, *, within: float = 60.0) -> T:
    """Wait until `condition` gives something true and return that; AssertionError saying `what` was awaited."""
    return eventually(condition, within=within * PATIENCE, message=f"waiting for {what}")
