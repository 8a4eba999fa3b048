"""The operators' side of the database store."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import batched

from django.db import connections

from ...jobs.model import DeadLetter
from ...jobs.samples import Sample
from ..base import Added, JobFilter, LetterGroup, Page, QueueCounts, Redrive, Standing, WorkerInfo
from . import leases, looking, notify, paging, samples, schedule
from .client import alias_of
from .ids import canonical
from .letters import evict, restore
from .names import METADATA, PAUSED, metadata_key
from .options import DatabaseOptions
from .redriving import hasten, redrive
from .session import Session, client_session
from .standing import standing

CHUNK = 100
"""How many jobs one transaction of an operator changes."""


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

    def standing(self, job_id: str) -> Standing | None:
        """See `AdminStore.standing`."""
        found = canonical(job_id)
        if found is None:
            return None
        with self._session() as session:
            return standing(session, found)

    def letter_groups(self, limit: int = 100) -> list[LetterGroup]:
        """See `AdminStore.letter_groups`."""
        with self._session() as session:
            return looking.letter_groups(session, limit)

    def workers(self) -> list[WorkerInfo]:
        """See `AdminStore.workers`."""
        with self._session() as session:
            return leases.live_workers(session)

    def samples(self) -> list[Sample]:
        """See `AdminStore.samples`."""
        with self._session() as session:
            return samples.samples(session)

    def recorded_slots(self, entries: Sequence[str]) -> Mapping[str, float]:
        """See `AdminStore.recorded_slots`."""
        with self._session() as session:
            return schedule.last_slots(session, entries)

    # --- changing ------------------------------------------------------------------------------------------------

    def redrive(self, ids: Sequence[str], changes: Redrive) -> list[Added]:
        """See `AdminStore.redrive`."""
        added: list[Added] = []
        for chunk in batched(ids, CHUNK):
            with self._session(len(chunk)) as session, session.atomic():
                added += redrive(session, chunk, changes, start=len(added))
        return added

    def restore(self, letters: Sequence[DeadLetter]) -> int:
        """See `AdminStore.restore`."""
        restored = 0
        for chunk in batched(letters, CHUNK):
            with self._session(len(chunk)) as session, session.atomic():
                restored += restore(session, chunk)
                evict(session, self._options.dead_letter_cap)
        return restored

    def hasten(self, ids: Sequence[str]) -> int:
        """See `AdminStore.hasten`."""
        hastened = 0
        for chunk in batched(filter(None, map(canonical, ids)), CHUNK):
            with self._session(len(chunk)) as session, session.atomic():
                jobs = hasten(session, chunk)
                notify.after_commit(session.connection, jobs)
            hastened += len(jobs)
        return hastened

    def delete(self, which: JobFilter, limit: int = 1000) -> int:
        """See `AdminStore.delete`."""
        with self._session() as session, session.atomic():
            return paging.delete(session, which, limit)

    def level_priorities(self) -> int:
        """See `AdminStore.level_priorities`; there is nothing to move."""
        return 0

    def pause(self, queue: str) -> None:
        """See `AdminStore.pause`."""
        with self._session() as session:
            leases.pause(session, queue)

    def resume(self, queue: str) -> None:
        """See `AdminStore.resume`."""
        with self._session() as session:
            session.run(f"DELETE FROM {METADATA} WHERE {{key}} = %s", (metadata_key(PAUSED, queue),))

    @contextmanager
    def _session(self, places: int = 1) -> Iterator[Session]:
        with client_session(connections[alias_of(self._options)], self._options, places) as session:
            yield session
