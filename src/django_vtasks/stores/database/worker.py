"""The worker's side of the database store."""

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ...jobs.errors import StoreUnavailable
from ...jobs.model import Claim, Lease, Progress
from ...jobs.samples import Sample
from ...jobs.transitions import Settlement
from ..base import (
    Added,
    ClaimRequest,
    Connections,
    Exchange,
    Firing,
    Pulse,
    Purged,
    QueueCounts,
    Retention,
    WorkerInfo,
)
from . import leases, looking, notify, schedule, upkeep
from . import samples as sampling
from .claims import is_ready
from .client import alias_of
from .exchange import exchange
from .listen import Listener
from .lowwater import LowWater
from .options import DatabaseOptions
from .plans import Plans
from .pulse import pulse
from .session import NewSession, Session, worker_session
from .threads import DatabaseThread, RunsWork
from .waiting import LONGEST, LONGEST_AT_SQLITE, JobWaiter, NewListener


class DatabaseWorkerStore:
    """Claim, settle, keep leases, and everything else a worker does; see `WorkerStore` for each method.

    Its statements run in one thread on one connection, those of the lease on another, so that neither user code nor
    a long statement delays a renewal. `new_thread` and `new_session` say otherwise.
    """

    parts = 1

    def __init__(
        self,
        options: DatabaseOptions,
        *,
        new_thread: Callable[[str, str], RunsWork] = DatabaseThread,
        new_session: NewSession = worker_session,
    ) -> None:
        self._options = options
        self._new_session = new_session
        alias = alias_of(options)
        self._thread = new_thread(alias, "vtasks-database")
        self._lease_thread = new_thread(alias, "vtasks-lease")
        self._vendor = connections[alias].vendor
        self._waiter = JobWaiter(self, self._listeners(alias), LONGEST_AT_SQLITE if self._is_sqlite else LONGEST)
        self._low_water = LowWater()
        self._plans = Plans()
        self._seen_version: tuple[int, int] | None = None

    async def open(self) -> None:
        """See `WorkerStore.open`."""
        await self.now()

    async def close(self) -> None:
        """See `WorkerStore.close`."""
        for thing in (self._waiter, self._thread, self._lease_thread):
            await asyncio.to_thread(thing.close)

    async def now(self) -> float:
        """See `WorkerStore.now`."""
        return await self._run(Session.now)

    def connections(self) -> Mapping[str, Connections]:
        """See `WorkerStore.connections`."""
        return {
            "store": self._thread.connections(),
            "lease": self._lease_thread.connections(),
            "wait": self._waiter.connections(),
        }

    # --- jobs ----------------------------------------------------------------------------------------------------

    async def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> Exchange:
        """See `WorkerStore.exchange`."""
        began_at = asyncio.get_running_loop().time()
        cap = self._options.dead_letter_cap

        def work(session: Session) -> tuple[Exchange, set[str]]:
            return exchange(session, settlements, request, cap, self._low_water, self._plans)

        found, refilled = await self._run(work, places=len(settlements))
        if request is not None:
            self._waiter.claimed(len(found.claims), began_at)
        if refilled:
            self._waiter.wake(refilled)
        return found

    async def held(self, owner: str) -> tuple[Claim, ...]:
        """See `WorkerStore.held`."""
        return await self._run(lambda session: upkeep.held(session, owner))

    async def expired(self, limit: int) -> tuple[Claim, ...]:
        """See `WorkerStore.expired`."""
        return await self._run(lambda session: upkeep.expired(session, limit))

    async def progress(self, lease: Lease, progress: Progress | None, metadata: Mapping[str, Any] | None) -> bool:
        """See `WorkerStore.progress`."""
        return await self._run(lambda session: upkeep.progress(session, lease, progress, metadata))

    async def pulse(self, owner: str, limit: int) -> Pulse:
        """See `WorkerStore.pulse`."""

        def work(session: Session) -> tuple[Pulse, set[str]]:
            found, refilled = pulse(session, owner, limit)
            notify.from_worker(session, refilled)
            return found, refilled

        found, refilled = await self._run(work, places=limit)
        self._waiter.wake(refilled)
        return found

    async def wait_for_jobs(self, queues: Sequence[str], timeout: float) -> bool:
        """See `WorkerStore.wait_for_jobs`."""
        return await self._waiter.wait(queues, timeout)

    async def look(self, queues: Sequence[str]) -> bool:
        """Whether a job is ready in one of the queues, asked as cheaply as the database allows."""
        return await self._run(lambda session: self._look(session, queues))

    async def send(self, text: str) -> None:
        """Notify everybody who listens to this database of a queue."""
        await self._run(lambda session: notify.from_worker(session, [text]))

    # --- leases and roles ----------------------------------------------------------------------------------------

    def extend(self, owner: str, seconds: float) -> bool:
        """See `WorkerStore.extend`."""
        return self._run_lease(lambda session: leases.extend(session, owner, seconds), seconds / 3)

    def release(self, owner: str) -> None:
        """See `WorkerStore.release`."""
        self._run_lease(lambda session: leases.release(session, owner), self._options.reply_timeout)

    async def announce(self, info: WorkerInfo) -> None:
        """See `WorkerStore.announce`."""
        await self._run(lambda session: leases.announce(session, info))

    async def hold(self, role: str, owner: str, seconds: float) -> bool:
        """See `WorkerStore.hold`."""
        return await self._run(lambda session: leases.hold(session, role, owner, seconds))

    # --- samples -------------------------------------------------------------------------------------------------

    async def glance(self) -> list[QueueCounts]:
        """See `WorkerStore.glance`."""
        return await self._run(looking.counts)

    async def record(self, owner: str, span: int, samples: Sequence[Sample]) -> None:
        """See `WorkerStore.record`."""
        await self._run(lambda session: sampling.record(session, owner, span, samples))

    # --- schedule ------------------------------------------------------------------------------------------------

    async def last_slots(self, entries: Sequence[str]) -> Mapping[str, float]:
        """See `WorkerStore.last_slots`."""
        return await self._run(lambda session: schedule.last_slots(session, entries))

    async def fire(self, firing: Firing) -> Added | None:
        """See `WorkerStore.fire`."""

        def work(session: Session) -> Added | None:
            with session.atomic():
                added = schedule.fire(session, firing)
            notify.from_worker(session, queues if added else ())
            return added

        queues = {firing.job.queue} if firing.job is not None and firing.job.run_after is None else set()
        added = await self._run(work)
        # What this store writes itself, it does not see as a change by others.
        self._waiter.wake(queues if added else ())
        return added

    # --- cleaning ------------------------------------------------------------------------------------------------

    async def purge(self, retention: Retention, limit: int) -> Purged:
        """See `WorkerStore.purge`."""

        def work(session: Session) -> Purged:
            with session.atomic():
                return upkeep.purge(session, retention, limit)

        return await self._run(work)

    # --- how it is done ------------------------------------------------------------------------------------------

    async def _run[T](self, work: Callable[[Session], T], *, places: int = 1) -> T:
        self._plans.kept = self._waiter.hears
        try:
            return await self._thread.call(self._in_session(work, places), self._options.reply_timeout)
        except StoreUnavailable:
            # Whoever lost the server may have lost the connection he listens on without hearing of it.
            self._waiter.distrust()
            raise

    def _listeners(self, alias: str) -> NewListener | None:
        if self._vendor != "postgresql":
            return None
        return functools.partial(Listener, alias, self._options.reply_timeout)

    @property
    def _is_sqlite(self) -> bool:
        return self._vendor == "sqlite"

    def _look(self, session: Session, queues: Sequence[str]) -> bool:
        if self._is_sqlite:
            version = (id(session.connection.connection), session.row("PRAGMA data_version")[0])
            if version == self._seen_version:
                return False
            self._seen_version = None if (found := is_ready(session, queues)) else version
            return found
        return is_ready(session, queues, self._plans)

    def _run_lease[T](self, work: Callable[[Session], T], timeout: float) -> T:
        return self._lease_thread.call_blocking(self._in_session(work, 1), timeout)

    def _in_session[T](self, work: Callable[[Session], T], places: int) -> Callable[[BaseDatabaseWrapper], T]:
        def in_session(connection: BaseDatabaseWrapper) -> T:
            with self._new_session(connection, self._options, places) as session:
                return work(session)

        return in_session
