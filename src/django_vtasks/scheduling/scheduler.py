"""The scheduler as one piece: for a worker to run beside its own services, or alone."""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Protocol

from ..conf import settings
from ..events import Emitter, events
from ..stores.base import ClientStore, WorkerStore
from ..worker.runtime import MakeService, Parts
from ..worker.service import OUTAGES, Pace, unless_stopped
from .entries import Entries
from .firing import JobMaker
from .rows import RowSource, has_rows
from .service import SchedulerService
from .sources import lost_tasks, static_entries

NAME = "scheduler"


class SchedulingBackend(Protocol):
    """What a scheduler needs of a backend of this package."""

    alias: str

    @property
    def client_store(self) -> ClientStore:
        """The store that application code uses."""
        ...

    def new_worker_store(self) -> WorkerStore:
        """A store for one event loop."""
        ...


class Sources:
    """Every entry there is: of the setting and of declared tasks, read when a setting changes, and of the database."""

    def __init__(self) -> None:
        self._generation = settings.generation
        self._static = _loaded()
        self._rows = RowSource() if has_rows() else None

    async def entries(self) -> Entries:
        """See `Source.entries`."""
        if self._generation != settings.generation:
            self._generation = settings.generation
            self._static = await asyncio.to_thread(_loaded)
        return self._static if self._rows is None else self._static + await self._rows.entries()

    def close(self) -> None:
        """See `Source.close`."""
        if self._rows is not None:
            self._rows.close()


def make_service(backend: SchedulingBackend) -> MakeService:
    """What a worker's `add_service` takes. Imports the tasks of all entries, so call it before the loop runs."""
    source = Sources()
    make_job = JobMaker(alias=backend.alias, sample_id=backend.client_store.new_id())

    def make(parts: Parts) -> SchedulerService:
        return SchedulerService(parts.store, source, make_job, parts.emitter, parts.pace)

    return make


class Scheduler:
    """A scheduler without a worker around it: `await Scheduler(backend).run()`, ended by `stop()`."""

    def __init__(self, backend: SchedulingBackend, *, emitter: Emitter = events) -> None:
        self._store = backend.new_worker_store()
        self._make = make_service(backend)
        self._emitter = emitter
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Fire what is due until stopped, through outages of the store."""
        pace = Pace(NAME, self._emitter)
        service = self._make(Parts(self._store, NAME, self._emitter, pace))
        try:
            while not self._stop.is_set():
                try:
                    await self._store.open()
                except OUTAGES as error:
                    await unless_stopped(self._stop, pace.failed(error))
                else:
                    await service.run(self._stop)
        finally:
            await self._store.close()

    def stop(self) -> Awaitable[None]:
        """End `run` after the present look; may be awaited or not."""
        self._stop.set()
        return _Done()


class _Done:
    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def _loaded() -> Entries:
    entries = static_entries()
    # Loads the modules here, where they may use the ORM; what is wrong with a path is said when it is due.
    lost_tasks(entries.usable)
    return entries
