"""Limits of a task or a queue over the whole fleet: how many at once, and how many in a span of time.

The options are what a task says; `JobLimit` is what travels with one job, its keys computed from the arguments.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .keys import Key, check_key, evaluate

RATE_SEPARATOR = "|"


@dataclass(frozen=True, slots=True)
class Concurrency:
    """At most `count` jobs with the same key run at once, on all workers together.

    The key is the task when None; else fixed text, a format of the arguments, or a function of them.
    """

    count: int
    key: Key | None = None

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise ValueError(f"a concurrency limit is a whole number of at least 1, not {self.count!r}")


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` jobs with the same key start in `per` seconds, evenly spaced except for a burst.

    `burst` is how many may start at once after a pause; `count` when None. The key is as in `Concurrency`.
    """

    count: int
    per: float = 1.0
    key: Key | None = None
    burst: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise ValueError(f"a rate is a whole number of at least 1 per span of time, not {self.count!r}")
        if isinstance(self.per, bool) or not isinstance(self.per, int | float) or not 0 < self.per < math.inf:
            raise ValueError(f"the span of a rate is a positive number of seconds, not {self.per!r}")
        if self.burst is not None and (isinstance(self.burst, bool) or self.burst < 1):
            raise ValueError(f"the burst of a rate is a whole number of at least 1, not {self.burst!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimit:
    """The limits of one job. A part whose key is None does not limit.

    `interval` is the seconds between two starts in the long run, `burst` how many may start at once.
    """

    concurrency_key: str | None = None
    count: int = 0
    rate_key: str | None = None
    interval: float = 0.0
    burst: int = 1

    @property
    def group(self) -> str:
        """The name under which jobs with the same keys wait together."""
        return f"{self.concurrency_key or ''}{RATE_SEPARATOR}{self.rate_key or ''}"


def problem_of(limit: object, rate: object, function: Callable[..., Any]) -> str | None:
    """What is wrong with a task's `limit` and `rate` options; None when nothing is."""
    for name, value, kind in (("limit", limit, Concurrency), ("rate", rate, Rate)):
        if value is None:
            continue
        if not isinstance(value, kind):
            return f"{name} must be a {kind.__name__}(...), not {value!r}"
        key = getattr(value, "key", None)
        if key is None:
            continue
        if not isinstance(key, str) and not callable(key):
            return f"the key of {name} must be text, a format of the arguments or a function, not {key!r}"
        try:
            check_key(key, function)
        except ValueError as error:
            return str(error)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call whose limit keys are wanted; `leading` counts parameters that the caller does not pass."""

    function: Callable[..., Any]
    default_key: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    leading: int = 0

    def key(self, key: Key | None) -> str:
        """The key of this call."""
        if key is None:
            return self.default_key
        return evaluate(key, self.function, self.args, self.kwargs, leading=self.leading)


def limit_of(limit: Concurrency | None, rate: Rate | None, call: Call) -> JobLimit | None:
    """The limits of one call, None when it has none. Raises TypeError when a key does not fit the arguments."""
    if limit is None and rate is None:
        return None
    return JobLimit(
        concurrency_key=call.key(limit.key) if limit else None,
        count=limit.count if limit else 0,
        rate_key=call.key(rate.key) if rate else None,
        interval=rate.per / rate.count if rate else 0.0,
        burst=(rate.burst or rate.count) if rate else 1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether a job may start now. If not, `wait` is in how many seconds to ask again; None = when a permit is freed.
    `arrival` is what the store records for the rate key when the job starts (the theoretical arrival time)."""

    admitted: bool
    wait: float | None = None
    arrival: float | None = None


def admit(limit: JobLimit, holders: int, arrival: float | None, now: float) -> Admission:
    """Whether a job with this limit may start when `holders` jobs have its permit and `arrival` is on record.

    The rate is the generic cell rate algorithm (ITU-T I.371), which needs one number per key and is exact.
    """
    if limit.concurrency_key is not None and holders >= limit.count:
        return Admission(admitted=False)
    if limit.rate_key is None:
        return Admission(admitted=True)
    due = max(now, arrival if arrival is not None else now)
    earliest = due - (limit.burst - 1) * limit.interval
    if now < earliest:
        return Admission(admitted=False, wait=earliest - now)
    return Admission(admitted=True, arrival=due + limit.interval)
