"""Reading and cancelling one job."""

from dataclasses import replace

from ...jobs.errors import CodecError
from ...jobs.model import Job, JobRecord
from ...jobs.transitions import Bury, Policy, cancelled
from ..base import CancelStatus
from . import notify
from .letters import bury, evict
from .names import JOBS, RESULTS
from .options import DatabaseOptions
from .rows import JOB_COLUMNS, RESULT_COLUMNS, columns, job_of, payload_of, record_of, result_of
from .session import Session
from .unique import release


def read(session: Session, job_id: str) -> JobRecord | None:
    """What is known of a job. A job moves from one table to the other and never back, so this order misses none."""
    vendor = session.vendor
    row = session.row(f"SELECT {columns(vendor, JOB_COLUMNS)} FROM {JOBS} WHERE id = %s", (vendor.id_in(job_id),))
    if row is not None:
        return record_of(row, vendor)
    row = session.row(
        f"SELECT {columns(vendor, RESULT_COLUMNS)} FROM {RESULTS} WHERE id = %s AND expires_at > {{now}}",
        (vendor.id_in(job_id),),
    )
    return None if row is None else result_of(row, vendor)


def cancel(session: Session, job_id: str, options: DatabaseOptions) -> CancelStatus:
    """Bury a waiting job, or ask for the end of a leased one. Inside a transaction."""
    vendor = session.vendor
    now = vendor.epoch_column("{now}")
    query = f"SELECT status, queue, data, {now}, waited FROM {JOBS} WHERE id = %s {{wait_for_lock}}"
    row = session.row(query, (vendor.id_in(job_id),))
    if row is None:
        return CancelStatus.UNKNOWN if read(session, job_id) is None else CancelStatus.FINISHED
    status, queue, data, at, waited = row
    if status == "FAILED":
        return CancelStatus.FINISHED
    if status == "PROCESSING":
        session.run(f"UPDATE {JOBS} SET cancel_requested_at = {{now}} WHERE id = %s", (vendor.id_in(job_id),))
        return CancelStatus.REQUESTED
    policy = Policy(result_ttl=options.result_ttl)
    job, decision = _cancelled(job_id, queue, payload_of(data), vendor.epoch_out(at) or 0.0, policy)
    bury(session, [(decision.letter, decision.result_ttl)])
    evict(session, options.dead_letter_cap)
    if job and job.unique:
        release(session, [job])
    if waited:
        notify.of_end_after_commit(session.connection, job_id)
    return CancelStatus.CANCELLED


def _cancelled(job_id: str, queue: str, raw: bytes, at: float, policy: Policy) -> tuple[Job | None, Bury]:
    try:
        job = job_of(raw, job_id, queue)
    except CodecError:
        stand_in = cancelled(Job(id=job_id, func="", queue=queue), raw, at, policy)
        return None, replace(stand_in, letter=replace(stand_in.letter, job=None))
    return job, cancelled(job, raw, at, policy)
