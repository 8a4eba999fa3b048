"""What time it is, as a statement says it: the server's own clock, or a moment given from outside.

Templates of statements name `{now}`, `{later}` (now plus a parameter's seconds), `{order}` (now plus a parameter's
microseconds, by which jobs of one call keep their order), `{base}` (the start of that order) and `{at}` (a
parameter's moment).
"""

import time
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from .queries.vendor import Vendor

PER_SECOND = 1_000_000
"""Microseconds, in which places are counted: sums of fractions of a second would meet."""


class Moment(Protocol):
    """One moment and how to speak of it. Parameters go through the method named like their placeholder."""

    def sql(self, template: str) -> str:
        """The statement that a template stands for."""
        ...

    def later(self, seconds: float) -> Any:
        """The parameter of a `{later}`."""
        ...

    def order(self, position: int) -> Any:
        """The parameter of an `{order}`."""
        ...


class ServerMoment:
    """Now by the server's clock."""

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor

    def sql(self, template: str) -> str:
        """See `Moment`."""
        return self._vendor.server_timed(template)

    def later(self, seconds: float) -> Any:
        """See `Moment`."""
        return seconds

    def order(self, position: int) -> Any:
        """See `Moment`."""
        return position


class GivenMoment:
    """The moment `now` (epoch seconds); order is counted from `first` (microseconds)."""

    def __init__(self, vendor: Vendor, now: float, first: int) -> None:
        self._vendor = vendor
        self._now = now
        self._first = first

    def sql(self, template: str) -> str:
        """See `Moment`."""
        timed = self._vendor.parameter_timed(template)
        if "{now}" in timed:
            timed = timed.replace("{now}", self._vendor.literal(self._now))
        return timed.replace("{base}", self._vendor.literal(self._first / PER_SECOND)) if "{base}" in timed else timed

    def later(self, seconds: float) -> Any:
        """See `Moment`."""
        return self._vendor.moment(self._now + seconds)

    def order(self, position: int) -> Any:
        """See `Moment`."""
        return self._vendor.moment((self._first + position) / PER_SECOND)


def host_moment(vendor: Vendor) -> GivenMoment:
    """Now by this host's clock."""
    now = time.time()
    return GivenMoment(vendor, now, round(now * PER_SECOND))


class Ticks:
    """A clock of a test: order goes on even while the clock stands still."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = 0
        self._seen = 0.0

    def moment(self, vendor: Vendor, places: int) -> GivenMoment:
        """Now, with `places` places in the order reserved."""
        now = self._clock()
        first = round(now * PER_SECOND) if now != self._seen else self._last + 1
        self._seen, self._last = now, first + places
        return GivenMoment(vendor, now, first)


@cache
def ticks(clock: Callable[[], float]) -> Ticks:
    """The one `Ticks` of a clock, so that all stores of a test agree."""
    return Ticks(clock)
