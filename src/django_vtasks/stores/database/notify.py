"""Waking idle workers on PostgreSQL, always by a statement of its own.

A NOTIFY inside a transaction that writes would let only one such transaction of the whole server commit at a time.
"""

import threading
import time
from collections.abc import Iterable, Sequence

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ...jobs.model import Job
from .names import CHANNEL, ENDED, column_text
from .session import Session

PAUSE = 0.01
"""Seconds in which one process wakes the workers of a queue once; workers look again after that time."""

_NOTIFY_ONE = "SELECT pg_notify(%s, %s)"
_NOTIFY = "SELECT pg_notify(%s, queue) FROM unnest(%s::text[]) AS queues(queue)"


class Limiter:
    """Says which queues of an alias may be notified of now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[tuple[str, str], float] = {}

    def allowed(self, alias: str, queues: Iterable[str]) -> list[str]:
        """Those of the queues that were not notified of within `PAUSE`."""
        now = time.monotonic()
        with self._lock:
            due = [queue for queue in queues if now - self._last.get((alias, queue), 0.0) >= PAUSE]
            for queue in due:
                self._last[alias, queue] = now
        return due


_limiter = Limiter()


def after_commit(connection: BaseDatabaseWrapper, jobs: Sequence[Job]) -> None:
    """Wake workers for these jobs once the caller's transaction has committed; at once outside one."""
    if connection.vendor != "postgresql":
        return
    horizon = time.time()
    queues = {column_text(job.queue) for job in jobs if job.run_after is None or job.run_after <= horizon}
    # Without autocommit there is no moment after the commit to wait for; workers find the jobs by looking.
    if not queues or not (connection.in_atomic_block or connection.get_autocommit()):
        return
    if connection.in_atomic_block:
        transaction.on_commit(lambda: _notify_if_due(connection, queues), using=connection.alias, robust=True)
    elif due := _limiter.allowed(connection.alias, queues):
        transaction.on_commit(lambda: _notify(connection, due), using=connection.alias, robust=True)


def _notify_if_due(connection: BaseDatabaseWrapper, queues: Iterable[str]) -> None:
    if due := _limiter.allowed(connection.alias, queues):
        _notify(connection, due)


def _notify(connection: BaseDatabaseWrapper, queues: list[str]) -> None:
    with connection.cursor() as cursor:
        if len(queues) == 1:
            # An array costs the driver and the server as much again as all else.
            cursor.execute(_NOTIFY_ONE, (CHANNEL, *queues))
        else:
            cursor.execute(_NOTIFY, (CHANNEL, queues))


def of_end_after_commit(connection: BaseDatabaseWrapper, job_id: str) -> None:
    """Wake those who wait for the end of a job once the caller's transaction has committed."""

    def notify() -> None:
        with connection.cursor() as cursor:
            cursor.execute(_NOTIFY, (ENDED, [job_id]))

    if connection.vendor == "postgresql":
        transaction.on_commit(notify, using=connection.alias, robust=True)


def of_ends(session: Session, job_ids: Sequence[str]) -> None:
    """Wake those who wait for the ends of these jobs; outside a transaction."""
    if job_ids and session.connection.vendor == "postgresql":
        session.rows(_NOTIFY, (ENDED, list(job_ids)))


def from_worker(session: Session, queues: Iterable[str]) -> None:
    """Wake other workers for jobs that this one made ready; outside a transaction."""
    texts = sorted({column_text(queue) for queue in queues})
    if texts and session.connection.vendor == "postgresql":
        session.rows(_NOTIFY, (CHANNEL, texts))
