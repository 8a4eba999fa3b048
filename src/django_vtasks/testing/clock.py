"""A clock that a test moves: the stores' clocks, the moment of an enqueue, and Django's `timezone.now()`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from unittest import mock

from django.conf import settings
from django.utils import timezone

from ..backends.sharing import forget
from ..tasks import move_clock, moved_clock, to_epoch


class TestClock:
    """A clock that stands still until it is moved, and never goes back. `started_at` is where it began."""

    __test__ = False

    def __init__(self, start: float) -> None:
        self.started_at = start
        self._now = start

    def __call__(self) -> float:
        """Epoch seconds."""
        return self._now

    def now(self) -> datetime:
        """What time it is, in UTC."""
        return datetime.fromtimestamp(self._now, UTC)

    def advance(self, by: float | timedelta) -> datetime:
        """Let so many seconds pass; returns what time it is then. Raises ValueError for a negative number."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else float(by)
        if seconds < 0:
            raise ValueError(f"the clock does not go back, not by {-seconds:g} s either")
        self._now = round(self._now + seconds, 6)
        return self.now()

    def move_to(self, moment: datetime) -> datetime:
        """Let time pass until a moment; returns it. Raises ValueError for one that is over."""
        return self.advance(to_epoch(moment) - self._now)


@contextmanager
def travel(to: datetime | None = None) -> Iterator[TestClock]:
    """Stop the clock, at `to` if given, and move it by hand: `with travel() as clock: clock.advance(3600)`.

    Delays, retries, schedules, windows and expiries go by it, and `django.utils.timezone.now()` does. Durations that
    a task really takes, its timeout among them, do not.
    """
    if moved_clock() is not None:
        raise RuntimeError("travel() is in use already: move the clock that it gave")
    clock = TestClock(time.time_ns() // 1000 / 1_000_000 if to is None else to_epoch(to))
    with mock.patch.object(timezone, "now", partial(_as_django, clock)):
        _put(clock)
        try:
            yield clock
        finally:
            _put(None)


def _put(clock: TestClock | None) -> None:
    move_clock(clock)
    # Client and admin stores that were made with another clock; the memory of a backend reads the clock each time.
    forget("client", "admin")


def _as_django(clock: TestClock) -> datetime:
    return clock.now() if settings.USE_TZ else timezone.make_naive(clock.now(), timezone.get_default_timezone())
