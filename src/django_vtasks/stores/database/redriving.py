"""Enqueuing a dead letter again."""

from ...jobs.codec import decode
from ...jobs.errors import CodecError
from ...jobs.model import DeadLetter, Job
from ..base import Added, AddStatus, Redrive
from .adding import add_rows
from .ids import canonical, new_id
from .insert import rows_of
from .letters import remove
from .names import JOBS
from .rows import JOB_COLUMNS, columns, letter_of
from .session import Session


def redrive(session: Session, letter_id: str, changes: Redrive, position: int) -> Added | None:
    """The answer for a letter enqueued again; None when it is not there or does not decode. Inside a transaction."""
    found = canonical(letter_id)
    letter = _letter(session, found) if found else None
    job = letter and _job(letter)
    if not job:
        return None
    vendor = session.vendor
    at = vendor.epoch_out(session.row(f"SELECT {vendor.epoch_column('{now}')}")[0]) or 0.0
    new = changes.applied(job, new_id=new_id(), at=at, position=position)
    [added] = add_rows(session, rows_of([new]))
    if added.status is not AddStatus.DUPLICATE:
        remove(session, [vendor.id_in(job.id)])
    return added


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
