"""When to try again: the retry rule of a task, as a value. Chance comes in as a number, so nothing here is random."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_DELAY = 365 * 24 * 3600.0
"""The longest delay in seconds that a retry or a snooze may ask for; longer ones are clamped to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """`base * factor ** (failures - 1)` seconds, at most `cap`, with full jitter down to `floor`."""

    base: float = 15.0
    factor: float = 2.0
    cap: float = 3600.0
    floor: float = 1.0

    def delay(self, failures: int, chance: float) -> float:
        """The delay after the given number of failures; `chance` is a number in [0, 1)."""
        try:
            ceiling = min(self.cap, self.base * self.factor ** max(0, failures - 1))
        except OverflowError:
            ceiling = self.cap
        return min(self.cap, max(self.floor, ceiling * chance))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """Always the same number of seconds."""

    seconds: float

    def delay(self, failures: int, chance: float) -> float:  # noqa: ARG002 - the protocol of a policy
        """The delay; the arguments do not matter."""
        return self.seconds


type Backoff = Exponential | Fixed | Callable[[BaseException, Any], float | None]

NAMED: dict[str, Exponential] = {
    "exponential": Exponential(),
    "fast": Exponential(base=1.0, cap=60.0, floor=0.1),
    "slow": Exponential(base=60.0, cap=24 * 3600.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """What a task says about its retries. `max_attempts` counts the first attempt too."""

    max_attempts: int = 1
    backoff: Backoff = NAMED["exponential"]
    retry_on: tuple[type[BaseException], ...] | None = None
    give_up_on: tuple[type[BaseException], ...] = ()

    def wants(self, exception: BaseException) -> bool:
        """Whether this exception is one to retry at all."""
        if isinstance(exception, self.give_up_on):
            return False
        if self.retry_on is None:
            return isinstance(exception, Exception)
        return isinstance(exception, self.retry_on)


def clamp_delay(value: object) -> float | None:
    """A delay in seconds made safe: None stays None, negative becomes 0, absurd becomes `MAX_DELAY`.

    Raises TypeError or ValueError for what is no number of seconds (text, bool, NaN).
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a delay must be a number of seconds or None, not {type(value).__name__}")
    if value != value:  # noqa: PLR0124 - only NaN is; math.isnan overflows on large whole numbers
        raise ValueError("a delay must be a number of seconds or None, not NaN")
    return float(min(max(value, 0), MAX_DELAY))


def named_backoff(value: object) -> Backoff:
    """The backoff that a task option means: seconds, a policy name, a policy, or a callable.

    Raises TypeError or ValueError with the choices when it means none.
    """
    if isinstance(value, Exponential | Fixed):
        return value
    if isinstance(value, str):
        if value not in NAMED:
            raise ValueError(
                f"unknown backoff {value!r}: use one of {', '.join(sorted(NAMED))}, seconds or a callable"
            )
        return NAMED[value]
    if callable(value):
        return value
    seconds = clamp_delay(value)
    if seconds is None:
        raise TypeError("backoff must be seconds, a policy name, a policy or a callable")
    return Fixed(seconds=seconds)
