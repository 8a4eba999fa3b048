"""The scheduler for a test: one look at the schedule, at the time that the test made it."""

from asgiref.sync import async_to_sync, sync_to_async

from ..backends.base import VTasksBaseBackend
from ..events import Emitter, SlotFired
from ..jobs.model import Job
from ..scheduling.entries import Entries, ScheduleEntry
from ..scheduling.firing import JobMaker
from ..scheduling.service import SchedulerService
from ..scheduling.sources import all_entries, lost_tasks
from ..stores.base import Firing, WorkerStore
from ..tasks import moved_clock
from ..worker.service import Pace
from .clock import TestClock
from .jobs import EnqueuedJob, backend_of, seen


def fire_due(alias: str = "default") -> list[EnqueuedJob]:
    """Have the schedule enqueue what is due now; returns those jobs, in the order of the entries.

    Inside `travel()` that is what came due since the clock was stopped, or since the last call. Outside, entries that
    were never fired behave as when a scheduler starts. An entry whose job is not done counts by its own rules
    (`catch_up`, `overlap`). Raises ValueError for entries that are wrong, and what making a job raises.
    """
    return async_to_sync(_fired)(backend_of(alias))


async def afire_due(alias: str = "default") -> list[EnqueuedJob]:
    """As `fire_due`, in an async test."""
    return await _fired(backend_of(alias))


async def _fired(backend: VTasksBaseBackend) -> list[EnqueuedJob]:
    entries = await sync_to_async(_entries)()
    store = await sync_to_async(backend.new_inline_store)()
    look = _Look(backend, entries)
    try:
        await store.open()
        await _begin(store, entries)
        await look.at(store)
    finally:
        await store.close()
    return [seen(job, backend.alias) for job in look.enqueued()]


def _entries() -> Entries:
    """Every entry, its task imported. Raises ValueError that lists every problem."""
    entries = all_entries()
    problems = [*entries.problems, *lost_tasks(entries.usable)]
    if problems:
        raise ValueError("\n".join(f"{problem.message}. {problem.hint}" for problem in problems))
    return entries


async def _begin(store: WorkerStore, entries: Entries) -> None:
    """Have every entry known since the clock was stopped, so that what came due afterwards is due."""
    clock = moved_clock()
    if not isinstance(clock, TestClock):
        return
    names = [entry.name for entry in entries.usable]
    recorded = await store.last_slots(names)
    for name in names:
        if name not in recorded:
            await store.fire(Firing(entry=name, slot=clock.started_at, expected=None, job=None))


class _Look:
    """One look of a scheduler; remembers the jobs it made, and the first error in making one."""

    def __init__(self, backend: VTasksBaseBackend, entries: Entries) -> None:
        self._entries = entries
        self._make = JobMaker(alias=backend.alias, sample_id=backend.client_store.new_id())
        self._made: dict[tuple[str, float], Job] = {}
        self._fired: set[tuple[str, float]] = set()
        self._error: Exception | None = None
        self._emitter = Emitter()
        self._emitter.subscribe(SlotFired, lambda event: self._fired.add((event.entry, event.slot)))

    async def at(self, store: WorkerStore) -> None:
        """Look once. Raises what making a job raised."""
        pace = Pace("scheduler", self._emitter)
        await SchedulerService(store, self, self._job, self._emitter, pace).tick()
        if self._error is not None:
            raise self._error

    def enqueued(self) -> list[Job]:
        """The jobs that were enqueued."""
        return [job for key, job in self._made.items() if key in self._fired]

    async def entries(self) -> Entries:
        """See `Source.entries`."""
        return self._entries

    def close(self) -> None:
        """See `Source.close`."""

    def _job(self, entry: ScheduleEntry, slot: float, now: float) -> Job:
        try:
            job = self._made[entry.name, slot] = self._make(entry, slot, now)
        except Exception as error:
            self._error = self._error or error
            raise
        return job
