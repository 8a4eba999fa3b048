"""Counts and groups, by queries whose cost follows what is counted and nothing else."""

from collections import defaultdict
from typing import Any

from ..base import LetterGroup, QueueCounts
from .leases import paused
from .letters import BATCH, adopt
from .names import JOBS
from .rows import JOB_COLUMNS, columns, letter_of
from .session import Session

_COUNTED = {
    "ready": "status = 'QUEUED' AND run_after IS NULL",
    "scheduled": "status = 'QUEUED' AND run_after IS NOT NULL",
    "leased": "status = 'PROCESSING'",
    "dead": "status = 'FAILED'",
}


def counts(session: Session) -> list[QueueCounts]:
    """Every queue that has jobs or is paused, by name."""
    vendor = session.vendor
    queues: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name, condition in _COUNTED.items():
        oldest = vendor.epoch_column("MIN(created_at)")
        rows = session.rows(f"SELECT queue, COUNT(*), {oldest} FROM {JOBS} WHERE {condition} GROUP BY queue")
        for queue, number, at in rows:
            queues[queue][name] = number
            if name == "ready":
                queues[queue]["oldest_ready_at"] = vendor.epoch_out(at)
    for queue in paused(session):
        queues[queue]["paused"] = True
    return [QueueCounts(queue=queue, **queues[queue]) for queue in sorted(queues)]


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
    )
