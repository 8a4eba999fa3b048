"""Counts and groups, by queries whose cost follows what is counted and nothing else."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ..base import LetterGroup, QueueCounts
from .leases import like, paused, paused_queue
from .letters import BATCH, adopt
from .names import JOBS, METADATA, PAUSED
from .rows import JOB_COLUMNS, columns, letter_of
from .session import Session

_COUNTED = {
    "scheduled": "status = 'QUEUED' AND run_after IS NOT NULL",
    "leased": "status = 'PROCESSING'",
    "dead": "status = 'FAILED'",
}
_READY = ("limit_group IS NULL", "limit_group IS NOT NULL")

type Counts = defaultdict[str, dict[str, Any]]


def counts(session: Session) -> list[QueueCounts]:
    """Every queue that has jobs or is paused, by name."""
    queues: Counts = defaultdict(dict)
    count = _count_from_indexes if session.vendor.reads_partial_indexes_alone else _count_ready_as_the_rest
    count(session, queues)
    return [QueueCounts(queue=queue, **queues[queue]) for queue in sorted(queues)]


def _count_from_indexes(session: Session, queues: Counts) -> None:
    """All in one statement, each part of it from one index."""
    oldest = session.vendor.epoch_column("MIN(created_at)")
    # First those that say when, of which the others learn the type of that column.
    parts = [
        f"SELECT 'ready', queue, COUNT(*), {oldest} FROM {JOBS}"
        f" WHERE status = 'QUEUED' AND run_after IS NULL AND {limited} GROUP BY queue"
        for limited in _READY
    ]
    parts += [
        f"SELECT '{name}', queue, COUNT(*), NULL FROM {JOBS} WHERE {condition} GROUP BY queue"
        for name, condition in _COUNTED.items()
    ]
    parts.append(f"SELECT 'paused', value, 0, NULL FROM {METADATA} WHERE {{key}} LIKE %s")
    for name, queue, number, at in session.rows(" UNION ALL ".join(parts), (like(PAUSED),)):
        if name == "paused":
            queues[paused_queue(queue)][name] = True
            continue
        queues[queue][name] = queues[queue].get(name, 0) + number
        if name == "ready":
            _note_oldest(queues[queue], session.vendor.epoch_out(at))


def _count_ready_as_the_rest(session: Session, queues: Counts) -> None:
    """Ready is what waits and is not scheduled; the oldest is the first of one of the priorities."""
    for queue in paused(session):
        queues[queue]["paused"] = True
    for name, condition in _COUNTED.items():
        # Not in the order of queues, which would make SQLite prefer an index without all that is needed.
        rows = session.rows(f"SELECT queue, COUNT(*) FROM {JOBS} WHERE {condition} GROUP BY +queue")
        for queue, number in rows:
            queues[queue][name] = number
    for queue, waiting in session.rows(f"SELECT queue, COUNT(*) FROM {JOBS} WHERE status = 'QUEUED' GROUP BY queue"):
        ready = max(0, waiting - queues[queue].get("scheduled", 0))
        if ready:
            queues[queue]["ready"] = ready
            for at in _first_of_each_priority(session, queue):
                _note_oldest(queues[queue], at)


def _first_of_each_priority(session: Session, queue: str) -> Iterator[float | None]:
    below = ""
    params: list[Any] = [queue]
    created_at = session.vendor.epoch_column("created_at")
    while row := session.row(
        f"SELECT priority, {created_at} FROM {JOBS}"
        f" WHERE status = 'QUEUED' AND run_after IS NULL AND queue = %s{below}"
        " ORDER BY priority DESC, created_at LIMIT 1",
        params,
    ):
        yield session.vendor.epoch_out(row[1])
        below, params = " AND priority < %s", [queue, row[0]]


def _note_oldest(count: dict[str, Any], at: float | None) -> None:
    known = count.get("oldest_ready_at")
    count["oldest_ready_at"] = at if known is None or at is None else min(at, known)


def letter_groups(session: Session, limit: int) -> list[LetterGroup]:
    """Dead letters by fingerprint, the largest group first."""
    adopt(session, BATCH)
    vendor = session.vendor
    rows = session.rows(
        f"SELECT fingerprint, COUNT(*), {vendor.epoch_column('MIN(first_failed_at)')},"
        f" {vendor.epoch_column('MAX(failed_at)')} FROM {JOBS} WHERE status = 'FAILED' AND buried_at IS NOT NULL"
        " GROUP BY fingerprint ORDER BY COUNT(*) DESC, MIN(buried_at) LIMIT %s",
        (limit,),
    )
    return [_group(session, *row) for row in rows]


def _group(session: Session, fingerprint: str, count: int, first: Any, last: Any) -> LetterGroup:
    vendor = session.vendor
    row = session.row(
        f"SELECT {columns(vendor, JOB_COLUMNS)} FROM {JOBS} WHERE status = 'FAILED' AND fingerprint = %s"
        " ORDER BY buried_at DESC, id DESC LIMIT 1",
        (fingerprint,),
    )
    letter = letter_of(dict(zip(JOB_COLUMNS, row, strict=True)), vendor)
    return LetterGroup(
        fingerprint=letter.failure.fingerprint,
        func=letter.job.func if letter.job else "",
        exception_class=letter.failure.exception_class,
        message=letter.failure.message,
        count=count,
        first_failed_at=vendor.epoch_out(first) or 0.0,
        last_failed_at=vendor.epoch_out(last) or 0.0,
        job=letter.job,
    )
