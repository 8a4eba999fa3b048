"""The application's side of the database store."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import batched

from asgiref.sync import sync_to_async
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from ...jobs.model import Job, JobRecord
from ..base import Added, CancelStatus
from ..base.ends import Deaf, Ends, EndWait
from . import notify, reading
from .adding import add_rows, all_added
from .coalescing import Coalescer
from .ends import PostgresEars
from .ids import UnusedIds, canonical
from .insert import rows_of
from .options import DatabaseOptions
from .prepared import PreparedInsert
from .queries import vendor_of
from .session import Session, client_session


class DatabaseClientStore:
    """Enqueue, read, cancel on the caller's own connection. Safe to share between threads and after a fork."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._options = options
        self._coalescer = Coalescer(self._add_to)
        self._unused = UnusedIds()
        self._prepared = PreparedInsert()
        self._waits: dict[int, EndWait] = {}

    @property
    def transactional(self) -> bool:
        """A job is a row, so it is enqueued by the commit of the transaction it was added in."""
        return True

    def new_id(self) -> str:
        """A UUID; those made later are greater."""
        return self._unused.new()

    def add(self, jobs: Sequence[Job]) -> list[Added]:
        """See `ClientStore.add`. Large numbers are added in chunks; outside a transaction each is its own."""
        return self._add_to(alias_of(self._options), jobs)

    async def aadd(self, jobs: Sequence[Job]) -> list[Added]:
        """See `ClientStore.add`. Calls that are awaited at the same time go out together."""
        return await self._coalescer.add(alias_of(self._options), jobs)

    def get(self, job_id: str) -> JobRecord | None:
        """See `ClientStore.get`."""
        found = canonical(job_id)
        if found is None:
            return None
        with self._session() as session:
            return reading.read(session, found)

    async def aget(self, job_id: str) -> JobRecord | None:
        """See `ClientStore.get`."""
        return await sync_to_async(self.get)(job_id)

    def until_ended(self, job_id: str, timeout: float | None) -> bool:
        """See `ClientStore.until_ended`."""
        found = canonical(job_id)
        return found is None or self._end_wait().wait(found, timeout)

    async def auntil_ended(self, job_id: str, timeout: float | None) -> bool:
        """See `ClientStore.until_ended`."""
        found = canonical(job_id)
        return found is None or await self._end_wait().await_(found, timeout)

    def cancel(self, job_id: str) -> CancelStatus:
        """See `ClientStore.cancel`."""
        found = canonical(job_id)
        if found is None:
            return CancelStatus.UNKNOWN
        with self._session() as session, session.atomic():
            return reading.cancel(session, found, self._options)

    async def acancel(self, job_id: str) -> CancelStatus:
        """See `ClientStore.cancel`."""
        return await sync_to_async(self.cancel)(job_id)

    def _end_wait(self) -> EndWait:
        # A forked child has neither the thread that hears nor those that wait.
        pid = os.getpid()
        if pid not in self._waits:
            ends, alias = Ends(), alias_of(self._options)
            ears = PostgresEars(ends, alias) if connections[alias].vendor == "postgresql" else Deaf()
            self._waits = {pid: EndWait(ends, ears, self.get, self.aget)}
        return self._waits[pid]

    def _add_to(self, alias: str, jobs: Sequence[Job]) -> list[Added]:
        connection = connections[alias]
        if len(jobs) == 1:
            return self._add_chunk(connection, jobs)
        added: list[Added] = []
        for chunk in batched(jobs, vendor_of(connection).max_rows):
            added += self._add_chunk(connection, chunk)
        return added

    def _add_chunk(self, connection: BaseDatabaseWrapper, jobs: Sequence[Job]) -> list[Added]:
        rows = rows_of(jobs, self._unused)
        if len(rows) == 1 and self._options.clock is None and self._prepared.insert(connection, rows[0]):
            added = all_added(rows)
        else:
            with client_session(connection, self._options, len(rows)) as session:
                added = add_rows(session, rows)
        notify.after_commit(connection, jobs)
        return added

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with client_session(connections[alias_of(self._options)], self._options) as session:
            yield session


def alias_of(options: DatabaseOptions) -> str:
    """The alias of the database that holds the tables."""
    if options.using is not None:
        return options.using
    return router.db_for_write(_model())  # type: ignore[no-any-return,unused-ignore]


@cache
def _model() -> type[Model]:
    # Models cannot be imported before the apps are ready, and an import costs something each time.
    from ...db.models import QueuedTask

    return QueuedTask
