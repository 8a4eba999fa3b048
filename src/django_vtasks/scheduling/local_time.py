"""Stretches of constant UTC offset, so that a schedule need not reason about clocks that jump. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

STRETCH = 7 * 24 * 3600
"""The longest stretch in seconds; no zone changes its offset twice within one."""

EARLIEST, LATEST = 0, 253_000_000_000
"""The epoch seconds that are supported: 1970 to about 9987."""


_DAY = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Epoch seconds from `start` to before `end`, during which local time is epoch plus `offset` seconds.

    `fresh` is the local second from which on a reading comes for the first time: later than the local start after the
    clock was put back, earlier by the skipped time after it was put forward.
    """

    start: int
    end: int
    offset: int
    fresh: int


def stretch_at(timezone: str, at: float) -> Stretch:
    """The stretch of this IANA zone that `at` (epoch seconds) lies in."""
    stretches = _week(timezone, int(at // STRETCH))
    return next(stretch for stretch in stretches if at < stretch.end)


@lru_cache(maxsize=512)
def _week(timezone: str, number: int) -> tuple[Stretch, ...]:
    start, end = number * STRETCH, (number + 1) * STRETCH
    first, last = _offset(timezone, start), _offset(timezone, end - 1)
    fresh = _fresh_at(timezone, start)
    if first == last:
        return (Stretch(start=start, end=end, offset=first, fresh=fresh),)
    change = _change(timezone, start, end - 1)
    return (
        Stretch(start=start, end=change, offset=first, fresh=fresh),
        Stretch(start=change, end=end, offset=last, fresh=change + first),
    )


def _fresh_at(timezone: str, at: int) -> int:
    """As `Stretch.fresh`, for a second that may lie in the day after a change, or be a change."""
    before, now = _offset(timezone, at - _DAY), _offset(timezone, at)
    if before == now:
        return at + now
    change = _change(timezone, at - _DAY, at)
    return change + before if change == at else max(change + before, at + now)


def _offset(timezone: str, at: int) -> int:
    offset = datetime.fromtimestamp(at, ZoneInfo(timezone)).utcoffset()
    return int(offset.total_seconds()) if offset else 0


def _change(timezone: str, low: int, high: int) -> int:
    """The second at which the offset that rules at `low` ends; it rules no longer at `high`."""
    old = _offset(timezone, low)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(timezone, middle) == old:
            low = middle
        else:
            high = middle
    return high


def naive(local_seconds: float) -> datetime:
    """The calendar reading, without a zone, of local time given in seconds since 1970-01-01 00:00 local."""
    return datetime.fromtimestamp(local_seconds, UTC).replace(tzinfo=None, microsecond=0)


def local_seconds(reading: datetime) -> int:
    """The inverse of `naive`."""
    return int(reading.replace(tzinfo=UTC).timestamp())
