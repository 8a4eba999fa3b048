"""What an entry owes: which slots to fire now and which to pass over. Pure."""

import zlib
from dataclasses import dataclass

from .schedules import Every, Schedule

ON_TIME = 5.0
"""Seconds. Slots not older than this are fired whatever the catch-up rule says: a hiccup is not an outage."""

STILL_WORTH = 60.0
"""Seconds. Without catch-up, the latest slot is fired late if it is not older than this."""

ALL = 1000
"""How many slots `catch_up="all"` catches up with at most."""

BATCH = 50
"""How many slots of one entry are fired in one go, so that one entry does not keep the others waiting."""

MAX_AHEAD = 24 * 3600.0
"""Seconds. A recorded slot further in the future than this was not written by a working clock."""

RESTART = 60.0
"""Seconds. An interval whose recorded slot is further in the future than this (and than itself) starts anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Slots to fire, oldest first; or a slot to record without firing; and how many are passed over: `lost` of them
    although the entry asks for them."""

    fire: tuple[float, ...] = ()
    record: float | None = None
    missed: int = 0
    lost: int = 0

    @property
    def slots(self) -> tuple[float, ...]:
        """Every slot to record."""
        return self.fire if self.record is None else (self.record,)


def first_sight(schedule: Schedule, *, run_on_start: bool | None, now: float) -> Due:
    """What is due of an entry that was never recorded: an interval at once, a cron expression at its next slot."""
    at_once = isinstance(schedule, Every) if run_on_start is None else run_on_start
    return Due(fire=(now,)) if at_once else Due(record=now)


def due(schedule: Schedule, *, catch_up: int, last: float, now: float) -> Due:
    """What is due at `now` of an entry whose slot `last` was the latest dealt with.

    `catch_up` is how many late slots are fired at most, the newest ones; 0 fires none that is really late.
    """
    first = schedule.next_after(last)
    if first is None or first > now:
        return Due()
    hiccup = now - first <= ON_TIME
    passed = schedule.passed(last, now, BATCH if hiccup else max(catch_up, 1))
    latest = passed.slots[-1]
    if not (hiccup or catch_up or now - latest <= STILL_WORTH):
        return Due(record=latest, missed=passed.count)
    missed = passed.count - len(passed.slots)
    return Due(fire=passed.slots[:BATCH], missed=missed, lost=missed if hiccup or catch_up >= ALL else 0)


def believable(schedule: Schedule, last: float | None, now: float) -> float | None:
    """The recorded slot, or None when it is so far in the future that the entry is better treated as a new one.

    A cron slot that is ahead was fired already (the store's clock was put back) and is not fired again. An interval
    has no such claim on the time of day and would only stand still.
    """
    if last is None or not 0 <= last <= now + MAX_AHEAD:
        return None
    if isinstance(schedule, Every) and last > now + max(RESTART, schedule.seconds):
        return None
    return last


def spread(entry: str, slot: float, jitter: float) -> float:
    """The delay in seconds, below `jitter`, of this slot; the same whoever computes it."""
    return jitter * zlib.crc32(f"{entry}@{slot!r}".encode()) / 2**32
