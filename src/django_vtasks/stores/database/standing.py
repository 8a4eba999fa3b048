"""What keeps one job where it is."""

from typing import Any

from ...jobs.model import Job, JobRecord, JobState
from ..base import MAX_AHEAD, Standing
from . import permits
from .names import ALIVE, JOBS, LOCKS, METADATA, column_text, lock_id, metadata_key
from .reading import read
from .session import Session
from .unique import STALE


def standing(session: Session, job_id: str) -> Standing | None:
    """What is known of a job and of what keeps it where it is; None when nothing is known."""
    record = read(session, job_id)
    if record is None:
        return None
    ahead, by_priority = _ahead(session, record) if record.state is JobState.READY else (0, 0)
    now, limit = session.now(), record.job.limit if record.state is JobState.READY else None
    return Standing(
        record=record,
        now=now,
        ahead=ahead,
        ahead_by_priority=by_priority,
        key_holder=_other_holder(session, record.job),
        lease_until=_lease_until(session, record) if record.running else None,
        cancel_requested=_cancel_requested(session, job_id),
        permit_holders=permits.holders(session, limit) if limit else (),
        rate_free_at=permits.rate_free_at(session, limit, now) if limit else None,
    )


def _ahead(session: Session, record: JobRecord) -> tuple[int, int]:
    me = session.vendor.id_in(record.job.id)
    row = session.row(f"SELECT queue, priority, created_at FROM {JOBS} WHERE id = %s", (me,))
    if row is None:
        return 0, 0
    queue, priority, created_at = row
    higher = _count(session, "priority > %s", queue, (priority,), MAX_AHEAD)
    earlier = "priority = %s AND created_at <= %s AND (created_at < %s OR id < %s)"
    params = (priority, created_at, created_at, me)
    return higher + _count(session, earlier, queue, params, MAX_AHEAD - higher), higher


def _count(session: Session, condition: str, queue: str, params: tuple[Any, ...], limit: int) -> int:
    line = f"SELECT 1 FROM {JOBS} WHERE status = 'QUEUED' AND run_after IS NULL AND queue = %s AND {condition}"
    row = session.row(f"SELECT COUNT(*) FROM ({line} LIMIT %s) line", (queue, *params, limit))
    return int(row[0])


def _other_holder(session: Session, job: Job) -> str | None:
    if job.unique is None:
        return None
    vendor = session.vendor
    query = f"SELECT {vendor.id_column('job_id')} FROM {LOCKS} WHERE id = %s AND NOT {STALE}"
    row = session.row(query, (lock_id(job.unique.key),)) or session.row(
        f"SELECT {vendor.id_column('id')} FROM {JOBS}"
        " WHERE queue = %s AND unique_key = %s AND status IN ('QUEUED', 'PROCESSING')",
        (column_text(job.queue), column_text(job.unique.key)),
    )
    holder = vendor.id_out(row[0]) if row else job.id
    return None if holder == job.id else holder


def _lease_until(session: Session, record: JobRecord) -> float | None:
    key = metadata_key(ALIVE, record.running.worker_id if record.running else "")
    until = session.vendor.epoch_column("expires_at")
    row = session.row(f"SELECT {until} FROM {METADATA} WHERE {{key}} = %s", (key,))
    return session.vendor.epoch_out(row[0]) if row else None


def _cancel_requested(session: Session, job_id: str) -> bool:
    query = f"SELECT 1 FROM {JOBS} WHERE id = %s AND cancel_requested_at IS NOT NULL"
    return session.row(query, (session.vendor.id_in(job_id),)) is not None
