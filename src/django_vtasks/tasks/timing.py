"""What time it is when a task is enqueued. A test may move this clock, and the clocks of the stores with it."""

import time
from collections.abc import Callable

type Clock = Callable[[], float]


class _Moved:
    clock: Clock | None = None


def clock() -> float:
    """Now as epoch seconds, to the microsecond, so that it survives a datetime unchanged."""
    moved = _Moved.clock
    return time.time_ns() // 1000 / 1_000_000 if moved is None else moved()


def moved_clock() -> Clock | None:
    """The clock that a test put in the place of every store's own; None = each store has its own."""
    return _Moved.clock


def move_clock(moved: Clock | None) -> None:
    """Put a clock in the place of every store's own, or (None) take it away. Stores made before keep theirs."""
    _Moved.clock = moved
