"""The operators' side of the database store."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from django.db import connections

from ..base import Added, AddStatus, JobFilter, LetterGroup, Page, QueueCounts, Redrive, WorkerInfo
from . import leases, looking, paging, redriving, schedule
from .client import alias_of
from .names import METADATA, PAUSED, metadata_key
from .options import DatabaseOptions
from .session import Session, client_session


class DatabaseAdminStore:
    """Look, redrive, delete, pause, on the caller's own connection; see `AdminStore` for each method."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._options = options

    # --- looking -------------------------------------------------------------------------------------------------

    def counts(self) -> list[QueueCounts]:
        """See `AdminStore.counts`."""
        with self._session() as session:
            return looking.counts(session)

    def page(self, which: JobFilter, *, after: str | None = None, limit: int = 50) -> Page:
        """See `AdminStore.page`."""
        with self._session() as session:
            return paging.page(session, which, after, limit)

    def letter_groups(self, limit: int = 100) -> list[LetterGroup]:
        """See `AdminStore.letter_groups`."""
        with self._session() as session:
            return looking.letter_groups(session, limit)

    def workers(self) -> list[WorkerInfo]:
        """See `AdminStore.workers`."""
        with self._session() as session:
            return leases.live_workers(session)

    def recorded_slots(self, entries: Sequence[str]) -> Mapping[str, float]:
        """See `AdminStore.recorded_slots`."""
        with self._session() as session:
            return schedule.last_slots(session, entries)

    # --- changing ------------------------------------------------------------------------------------------------

    def redrive(self, ids: Sequence[str], changes: Redrive) -> list[Added]:
        """See `AdminStore.redrive`."""
        added: list[Added] = []
        for position, letter_id in enumerate(ids):
            with self._session() as session, session.atomic():
                job_id = redriving.redrive(session, letter_id, changes, position)
            added.append(job_id or Added(status=AddStatus.DUPLICATE, job_id=None))
        return added

    def delete(self, which: JobFilter, limit: int = 1000) -> int:
        """See `AdminStore.delete`."""
        with self._session() as session, session.atomic():
            return paging.delete(session, which, limit)

    def pause(self, queue: str) -> None:
        """See `AdminStore.pause`."""
        with self._session() as session:
            leases.put(session, metadata_key(PAUSED, queue), queue)

    def resume(self, queue: str) -> None:
        """See `AdminStore.resume`."""
        with self._session() as session:
            session.run(f"DELETE FROM {METADATA} WHERE {{key}} = %s", (metadata_key(PAUSED, queue),))

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with client_session(connections[alias_of(self._options)], self._options) as session:
            yield session
