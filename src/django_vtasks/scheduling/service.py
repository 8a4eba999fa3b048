"""The service that fires schedule entries. Any number of them may run: a slot is fired by whoever comes first."""

import asyncio
import math
from collections.abc import Callable
from typing import Protocol

from ..events import Emitter, SlotFired, SlotSkipped, SlotsMissed
from ..jobs.errors import StoreRefused, StoreUnavailable
from ..jobs.model import Job
from ..stores.base import Added, AddStatus, Firing, WorkerStore
from ..worker.service import Pace, PeriodicService
from .clock import StoreClock
from .complaints import Complaints
from .due import Due, believable, due, first_sight
from .entries import Entries, ScheduleEntry
from .sharing import SharedLock

INTERVAL = 1.0
"""Seconds between two looks, when nothing is due earlier."""

SHORTEST = 0.02
"""Seconds between two looks at least, however short an interval is."""

LOST_PAUSE = 0.25
"""Seconds until an entry is looked at again that another scheduler was quicker to fire."""

CLOCK_SLACK = 60.0
"""Seconds that a recorded slot may be ahead of the store's clock before it is worth a line in the log."""

AHEAD = "the store's clock was put back; its slots up to then are not fired again"

BROKEN_PAUSE = 10.0
"""Seconds until an entry whose job could not be made is tried again."""


class Source(Protocol):
    """Where entries come from."""

    async def entries(self) -> Entries:
        """The entries as they are now; called at every look, so it answers from memory when it can."""
        ...

    def close(self) -> None:
        """Release what it holds; it may be asked again afterwards."""
        ...


class SchedulerService(PeriodicService):
    """Fires what is due. Owns when each entry is looked at next; what was fired is known by the store alone."""

    def __init__(
        self,
        store: WorkerStore,
        source: Source,
        make_job: Callable[[ScheduleEntry, float, float], Job],
        emitter: Emitter,
        pace: Pace,
        clock: StoreClock | None = None,
    ) -> None:
        super().__init__(pace, INTERVAL)
        self._store = store
        self._source = source
        self._make_job = make_job
        self._emitter = emitter
        self._clock = clock or StoreClock(store)
        self._lock = SharedLock(store)
        self._complaints = Complaints()
        self._entries: dict[str, ScheduleEntry] = {}
        self._look_at: dict[str, float] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Look and fire until `stop` is set."""
        try:
            await super().run(stop)
        finally:
            self._source.close()

    async def tick(self) -> float:
        """Fire what is due; returns in how many seconds to look again."""
        self._learn(await self._source.entries())
        if not self._entries or not await self._lock.is_ours():
            return INTERVAL
        now = await self._now()
        waiting = [entry for entry in self._entries.values() if self._look_at.get(entry.name, 0.0) <= now]
        if waiting:
            await self._fire_all(waiting)
        earliest = min(self._look_at.values(), default=math.inf)
        return min(INTERVAL, max(SHORTEST, earliest - self._clock.estimate()))

    async def _now(self) -> float:
        steps = self._clock.steps
        now = await self._clock.read()
        if self._clock.steps != steps:
            self._look_at.clear()
        return now

    def _learn(self, found: Entries) -> None:
        for problem in found.problems:
            self._complaints.say(problem.entry or "", f"{problem.message}. {problem.hint}")
        entries = {entry.name: entry for entry in found.usable if entry.enabled}
        unchanged = {name for name, entry in entries.items() if self._entries.get(name) == entry}
        self._look_at = {name: at for name, at in self._look_at.items() if name in unchanged}
        self._entries = entries

    async def _fire_all(self, waiting: list[ScheduleEntry]) -> None:
        last = await self._store.last_slots([entry.name for entry in waiting])
        refusals: list[StoreRefused] = []
        for entry in waiting:
            try:
                await self._fire_one(entry, last.get(entry.name))
            except StoreUnavailable:
                raise
            except StoreRefused as error:
                refusals.append(error)
            except Exception as error:
                self._complain(entry, error)
        if refusals and len(refusals) == len(waiting):
            raise refusals[-1]
        for refusal in refusals:
            self._complaints.say("", f"The store refused a scheduled job: {refusal}")

    async def _fire_one(self, entry: ScheduleEntry, recorded: float | None) -> None:
        now = self._clock.estimate()
        owed = self._owed(entry, recorded, now)
        expected = recorded
        for slot in owed.slots:
            job = self._make_job(entry, slot, now) if slot in owed.fire else None
            added = await self._store.fire(Firing(entry=entry.name, slot=slot, expected=expected, job=job))
            if added is None:
                # Somebody else fires this entry; the next look tells how far they came.
                self._look_at[entry.name] = now + LOST_PAUSE
                return
            self._report(entry, slot, job, added)
            expected = slot
            if owed.missed and slot == owed.slots[0]:
                self._emitter.emit(SlotsMissed(entry=entry.name, count=owed.missed, lost=owed.lost))
        self._look_again(entry, expected)

    def _owed(self, entry: ScheduleEntry, recorded: float | None, now: float) -> Due:
        last = believable(entry.schedule, recorded, now)
        if last is None:
            return first_sight(entry.schedule, run_on_start=entry.run_on_start, now=now)
        if last > now + CLOCK_SLACK:
            self._complaints.say(entry.name, f"Schedule entry {entry.name!r} was fired ahead of time: {AHEAD}")
        return due(entry.schedule, catch_up=entry.catch_up, last=max(last, entry.since or 0.0), now=now)

    def _look_again(self, entry: ScheduleEntry, last: float | None) -> None:
        following = entry.schedule.next_after(max(last or 0.0, entry.since or 0.0))
        self._look_at[entry.name] = math.inf if following is None else following

    def _report(self, entry: ScheduleEntry, slot: float, job: Job | None, added: Added) -> None:
        if job is None:
            return
        if added.status is AddStatus.DUPLICATE:
            self._emitter.emit(SlotSkipped(entry=entry.name, slot=slot, job_id=added.job_id))
        else:
            lag = max(0.0, self._clock.estimate() - slot)
            self._emitter.emit(SlotFired(entry=entry.name, slot=slot, lag=lag))

    def _complain(self, entry: ScheduleEntry, error: Exception) -> None:
        self._look_at[entry.name] = self._clock.estimate() + BROKEN_PAUSE
        what = f"Schedule entry {entry.name!r} could not be enqueued and is tried again: {error}"
        self._complaints.say(entry.name, what, error)
