"""Making jobs ready by hand: dead letters again, scheduled jobs before their time."""

from collections.abc import Sequence
from dataclasses import replace

from ...jobs.codec import decode
from ...jobs.errors import CodecError
from ...jobs.model import DeadLetter, Job
from ..base import Added, AddStatus, Redrive
from . import notify
from .adding import add_rows
from .ids import canonical, new_id
from .insert import payload, rows_of
from .letters import remove
from .names import JOBS
from .rows import JOB_COLUMNS, columns, job_of, letter_of, payload_of
from .session import Session


def redrive(session: Session, letter_id: str, changes: Redrive, position: int) -> Added | None:
    """The answer for a letter enqueued again; None when it is not there or does not decode. Inside a transaction."""
    found = canonical(letter_id)
    letter = _letter(session, found) if found else None
    job = letter and _job(letter)
    if not job:
        return None
    new = changes.applied(job, new_id=new_id(), at=session.now(), position=position)
    [added] = add_rows(session, rows_of([new]))
    if added.status is not AddStatus.DUPLICATE:
        remove(session, [session.vendor.id_in(job.id)])
        notify.after_commit(session.connection, [new])
    return added


def hasten(session: Session, ids: Sequence[str]) -> list[Job]:
    """Make scheduled jobs ready; returns those that were. Inside a transaction."""
    vendor = session.vendor
    params = [vendor.id_in(job_id) for job_id in ids]
    rows = session.rows(
        f"SELECT {vendor.id_column('id')}, queue, data FROM {JOBS} {{by_id}} WHERE id IN {vendor.places(params)}"
        " AND status = 'QUEUED' AND run_after IS NOT NULL {wait_for_lock}",
        params,
    )
    scheduled = {vendor.id_out(raw_id): (queue, payload_of(data)) for raw_id, queue, data in rows}
    return [
        _hasten(session, place, job_id, *scheduled[job_id]) for place, job_id in enumerate(ids) if job_id in scheduled
    ]


def _hasten(session: Session, place: int, job_id: str, queue: str, raw: bytes) -> Job:
    try:
        job = replace(job_of(raw, job_id, queue), run_after=None)
        raw = payload(job)
    except CodecError:
        job = Job(id=job_id, func="", queue=queue)
    params = (raw, session.moment.order(place), session.vendor.id_in(job_id))
    session.run(f"UPDATE {JOBS} SET data = %s, run_after = NULL, created_at = {{order}} WHERE id = %s", params)
    return job


def _letter(session: Session, letter_id: str) -> DeadLetter | None:
    vendor = session.vendor
    query = f"SELECT {columns(vendor, JOB_COLUMNS)} FROM {JOBS} WHERE id = %s AND status = 'FAILED' {{wait_for_lock}}"
    row = session.row(query, (vendor.id_in(letter_id),))
    return None if row is None else letter_of(dict(zip(JOB_COLUMNS, row, strict=True)), vendor)


def _job(letter: DeadLetter) -> Job | None:
    try:
        return letter.job or decode(letter.raw, fallback_id=letter.id, fallback_queue=letter.queue)
    except CodecError:
        return None
