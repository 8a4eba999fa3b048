"""When an entry is due. Pure: a schedule is a value, a slot is a moment at which it is due, in epoch seconds.

The rule for clocks that change. A cron expression whose minute and hour fields both do not begin with `*` names fixed
local times: one that is skipped because the clock is put forward is due at the moment of the change, several skipped
ones together once; one that comes twice because the clock is put back is due the first time. Any other expression
follows the local clock as it runs: what is skipped does not happen, what comes twice happens twice.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from zoneinfo import ZoneInfo

from .expressions import normalised, readings_after, readings_before
from .local_time import EARLIEST, LATEST, STRETCH, Stretch, local_seconds, naive, stretch_at

MAX_COUNTED = 1000
"""How many slots of a cron expression are counted; more are reported as this many."""

_TWO_DAYS = 2 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """Slots that have passed: the newest ones asked for, oldest first, and how many there were in all."""

    slots: tuple[float, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Every:
    """Due every `seconds`, counted from the slot before: slot n+1 is slot n plus the interval, whenever it fired."""

    seconds: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"an interval must be a positive number of seconds, not {self.seconds!r}")

    def next_after(self, slot: float) -> float:
        """The slot that follows `slot`."""
        return slot + self.seconds

    def slots_between(self, slot: float, until: float) -> Iterator[float]:
        """The slots after `slot` up to and including `until`, oldest first."""
        return (slot + number * self.seconds for number in range(1, self._count(slot, until) + 1))

    def passed(self, slot: float, until: float, limit: int) -> Passed:
        """The newest `limit` of the slots after `slot` up to and including `until`, and their exact number."""
        count = self._count(slot, until)
        numbers = range(max(0, count - limit) + 1, count + 1)
        return Passed(slots=tuple(slot + number * self.seconds for number in numbers), count=count)

    def _count(self, slot: float, until: float) -> int:
        count = max(0, int((until - slot) // self.seconds))
        # The quotient is rounded, and a slot must be neither early nor left out.
        if slot + (count + 1) * self.seconds <= until:
            return count + 1
        return count - 1 if count and slot + count * self.seconds > until else count


@dataclass(frozen=True, slots=True)
class Cron:
    """Due whenever the clock of an IANA zone reads what a cron expression says; see the rule above.

    Raises ValueError for an expression or a zone that cannot be read.
    """

    expression: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        normalised(self.expression)
        try:
            ZoneInfo(self.timezone)
        except (OSError, ValueError, LookupError, TypeError):
            raise ValueError(f"unknown timezone {self.timezone!r}: use an IANA name such as 'Europe/Berlin'") from None

    @property
    def is_fixed(self) -> bool:
        """Whether the expression names fixed local times, as opposed to following the clock."""
        minute, hour, *_ = normalised(self.expression).split()
        return not (minute.startswith("*") or hour.startswith("*"))

    def next_after(self, at: float) -> float | None:
        """The first slot later than `at`; None when there is none within 50 years."""
        return next(self._slots_after(at), None)

    def latest_at_or_before(self, at: float) -> float | None:
        """The latest slot not later than `at`; None when there is none since 1970."""
        return next(self._slots_back_from(at), None)

    def slots_between(self, after: float, until: float) -> Iterator[float]:
        """The slots later than `after` up to and including `until`, oldest first."""
        for slot in self._slots_after(after):
            if slot > until:
                return
            yield slot

    def passed(self, after: float, until: float, limit: int) -> Passed:
        """The newest `limit` of the slots later than `after` up to and including `until`, and their number.

        The number is not exact when it is `MAX_COUNTED` or `limit`, whichever is more: that many or more.
        """
        newest: deque[float] = deque()
        count = 0
        for slot in islice(self._slots_back_from(until), max(limit, MAX_COUNTED)):
            if slot <= after:
                break
            count += 1
            if count <= limit:
                newest.appendleft(slot)
        return Passed(slots=tuple(newest), count=count)

    def _slots_after(self, at: float) -> Iterator[float]:
        text, previous = normalised(self.expression), at
        stretch = stretch_at(self.timezone, max(at, EARLIEST))
        while True:
            for reading in readings_after(text, naive(self._first_second(stretch, at) - 1)):
                local = local_seconds(reading)
                if local >= stretch.end + stretch.offset:
                    break
                slot = float(max(stretch.start, local - stretch.offset))
                if slot > previous:
                    previous = slot
                    yield slot
            else:
                return
            following = stretch_at(self.timezone, stretch.end)
            if self._begins(following) >= stretch.end + stretch.offset:
                # Nothing before `local` matches or comes again, so the stretches up to there need no look.
                onward = max(stretch.end, (local - _TWO_DAYS) // STRETCH * STRETCH)
                following = stretch_at(self.timezone, min(onward, LATEST))
            if following.end > LATEST:
                return
            stretch = following

    def _first_second(self, stretch: Stretch, at: float) -> int:
        """The first local second of a stretch that is later than `at` and may be due for the first time."""
        begins = self._begins(stretch)
        if at < stretch.start:
            return begins
        return max(begins, math.floor(at) + 1 + stretch.offset)

    def _begins(self, stretch: Stretch) -> int:
        return stretch.fresh if self.is_fixed else stretch.start + stretch.offset

    def _slots_back_from(self, at: float) -> Iterator[float]:
        text, previous, end = normalised(self.expression), math.inf, math.floor(at) + 1
        while end > EARLIEST:
            stretch = stretch_at(self.timezone, end - 1)
            local = begins = self._begins(stretch)
            for reading in readings_before(text, naive(end + stretch.offset)):
                local = local_seconds(reading)
                if local < begins:
                    break
                slot = float(max(stretch.start, local - stretch.offset))
                if slot < previous:
                    previous = slot
                    yield slot
            else:
                return
            end = stretch.start
            if end + stretch_at(self.timezone, end - 1).offset <= begins:
                end = min(end, (local + _TWO_DAYS) // STRETCH * STRETCH + STRETCH)


type Schedule = Cron | Every
