"""Schedule entries with what was recorded of them and when they are due next; and running one now."""

import time
from dataclasses import dataclass, replace
from typing import Any

from ..scheduling.due import believable, first_sight
from ..scheduling.entries import Entries, ScheduleEntry
from ..scheduling.firing import JobMaker
from ..scheduling.schedules import Cron
from ..scheduling.sources import lost_tasks, static_entries
from ..stores.base import Added
from .aliases import Alias
from .wording import duration

SHOWN = 5
"""How many coming slots of an entry are shown."""

LATE = 60.0
"""Seconds after which a slot that was not fired means that nobody schedules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One entry: its last slot (None = never), its next ones, and what is wrong (None = nothing)."""

    entry: ScheduleEntry
    last: float | None
    coming: tuple[float, ...]
    problem: str | None = None

    @property
    def schedule(self) -> str:
        """The schedule in words."""
        schedule = self.entry.schedule
        if isinstance(schedule, Cron):
            return f"{schedule.expression} ({schedule.timezone})"
        return f"every {duration(schedule.seconds)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agenda:
    """Every usable entry, by name, and what is wrong with others."""

    planned: tuple[Planned, ...] = ()
    problems: tuple[str, ...] = ()


def agenda_of(alias: Alias, *, now: float | None = None) -> Agenda:
    """The entries as the store of an alias knows them. Imports their tasks."""
    at = time.time() if now is None else now
    entries = static_entries()
    lost = {problem.entry: problem.message for problem in lost_tasks(entries.usable)}
    last = alias.admin.recorded_slots([entry.name for entry in entries.usable])
    planned = [
        plan(entry, last.get(entry.name), at, problem=lost.get(entry.name))
        for entry in sorted(entries.usable, key=_name)
    ]
    return Agenda(planned=tuple(planned), problems=_problems(entries))


def plan(entry: ScheduleEntry, last: float | None, now: float, *, problem: str | None = None) -> Planned:
    """What is to be said of one entry at `now`. Pure."""
    coming = _coming(entry, last, now) if entry.enabled else ()
    if problem is None and entry.enabled:
        problem = _lateness(coming, now)
    return Planned(entry=entry, last=last, coming=coming, problem=problem)


def run_now(alias: Alias, entry_name: str) -> Added | None:
    """Enqueue the job of an entry once more, now; its slots stay as they are. None for an unknown entry.

    Raises TaskNotFound, InvalidTask, TypeError or ValueError when the entry's task cannot be enqueued.
    """
    entry = next((entry for entry in static_entries().usable if entry.name == entry_name), None)
    if entry is None:
        return None
    make = JobMaker(alias=alias.name, sample_id=alias.client.new_id())
    now = time.time()
    job = replace(make(replace(entry, jitter=0.0), now, now), id=alias.client.new_id())
    return alias.client.add([job])[0]


def _coming(entry: ScheduleEntry, last: float | None, now: float) -> tuple[float, ...]:
    known = believable(entry.schedule, last, now)
    if known is None:
        fires = first_sight(entry.schedule, run_on_start=entry.run_on_start, now=now).fire
        slots, at = list(fires), now
    else:
        slots, at = [], known
    while len(slots) < SHOWN:
        following: Any = entry.schedule.next_after(at)
        if following is None:
            break
        slots.append(following)
        at = following
    return tuple(slots)


def _lateness(coming: tuple[float, ...], now: float) -> str | None:
    if not coming:
        return "It never fires."
    if now - coming[0] > LATE:
        return (
            f"It has been due for {duration(now - coming[0])}: does a worker run with --scheduler? "
            "What becomes of missed slots is said by its catch_up."
        )
    return None


def _problems(entries: Entries) -> tuple[str, ...]:
    return tuple(f"{problem.message}. {problem.hint}" for problem in entries.problems)


def _name(entry: ScheduleEntry) -> str:
    return entry.name
