"""Schedule entries as an operator sees them: when they ran, when they will, and why one never will. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from .due import STILL_WORTH, believable
from .entries import Entries, Problem, ScheduleEntry
from .schedules import Cron, Every, Schedule

UPCOMING = 5
"""How many next runs are told."""


class Standing(StrEnum):
    """How an entry stands."""

    WAITING = "waiting"
    NEW = "new"
    OVERDUE = "overdue"
    DISABLED = "disabled"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    """One entry at a glance. `last` is the last recorded slot, `upcoming` the next ones, in epoch seconds.

    `why` explains a standing other than waiting, or what in the entry has no effect.
    """

    name: str
    standing: Standing
    task: str = ""
    when: str = ""
    description: str = ""
    last: float | None = None
    upcoming: tuple[float, ...] = ()
    why: str = ""

    @property
    def next(self) -> float | None:
        """The next slot, None when there is none."""
        return self.upcoming[0] if self.upcoming else None


def overview(entries: Entries, lost: Sequence[Problem], recorded: Mapping[str, float], now: float) -> list[EntryView]:
    """Every entry, by name. `lost` has the problems of entries without a task, `recorded` the last slots."""
    never = {problem.entry or "VTASKS_SCHEDULE": problem for problem in (*lost, *entries.problems) if problem.fatal}
    notes = {problem.entry: problem.message for problem in entries.problems if not problem.fatal}
    views = [
        _usable(entry, recorded.get(entry.name), now, never.pop(entry.name, None), notes.get(entry.name, ""))
        for entry in entries.usable
    ]
    views += [EntryView(name=name, standing=Standing.NEVER, why=_said(problem)) for name, problem in never.items()]
    return sorted(views, key=lambda view: view.name)


def wording(schedule: Schedule) -> str:
    """A schedule in words: `every 60 s`, or the cron expression with its zone."""
    if isinstance(schedule, Cron):
        return f"{schedule.expression} {schedule.timezone}"
    return f"every {schedule.seconds:g} s"


def upcoming(entry: ScheduleEntry, last: float | None, now: float) -> Iterator[float]:
    """The slots of an entry from `now` on; a slot that is due already counts as one of now."""
    schedule = entry.schedule
    last = believable(schedule, last, now)
    if last is None and _starts_at_once(entry):
        yield now
        last = now
    slot = max(last if last is not None else now, entry.since or 0.0)
    following = schedule.next_after(slot)
    if following is not None and following <= now:
        yield now
        slot = schedule.passed(slot, now, 1).slots[-1]
    while (following := schedule.next_after(slot)) is not None:
        yield following
        slot = following


def past_slots(entry: ScheduleEntry, last: float) -> Iterator[float]:
    """The last recorded slot of an entry and those that its schedule has before it, the latest first."""
    slot: float | None = last
    while slot is not None and slot > 0:
        yield slot
        schedule = entry.schedule
        slot = slot - schedule.seconds if isinstance(schedule, Every) else schedule.latest_at_or_before(slot - 0.5)


def _usable(entry: ScheduleEntry, last: float | None, now: float, fatal: Problem | None, note: str) -> EntryView:
    standing, why = _standing(entry, last, now)
    if fatal is not None:
        standing, why = Standing.NEVER, _said(fatal)
    runs = standing not in {Standing.NEVER, Standing.DISABLED}
    return EntryView(
        name=entry.name,
        standing=standing,
        task=entry.task,
        when=wording(entry.schedule),
        description=entry.description,
        last=last,
        upcoming=tuple(islice(upcoming(entry, last, now), UPCOMING)) if runs else (),
        why=why or note,
    )


def _standing(entry: ScheduleEntry, last: float | None, now: float) -> tuple[Standing, str]:
    if not entry.enabled:
        return Standing.DISABLED, "it is disabled"
    known = believable(entry.schedule, last, now)
    if known is None:
        return Standing.NEW, "no scheduler has seen it yet; one runs in a worker started with --scheduler"
    due_at = entry.schedule.next_after(max(known, entry.since or 0.0))
    if due_at is not None and now - due_at > STILL_WORTH:
        return Standing.OVERDUE, "no scheduler fires it any more; one runs in a worker started with --scheduler"
    return Standing.WAITING, ""


def _starts_at_once(entry: ScheduleEntry) -> bool:
    return isinstance(entry.schedule, Every) if entry.run_on_start is None else entry.run_on_start


def _said(problem: Problem) -> str:
    return f"{problem.message}. {problem.hint}"
