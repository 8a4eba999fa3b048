"""Unique keys: one row of a lock table for each key that is taken, changed in the transaction of the job it is for.

A lock without an expiry counts only as long as its job waits or, in mode UNTIL_DONE, runs. So a claim need not touch
it, and nothing that removes a job can leave a key taken. A job of mode UNTIL_DONE writes its key into the job's row
too, whose partial unique index is how the 3.2 line excludes duplicates.
"""

from collections.abc import Sequence
from typing import Any

from ...jobs.errors import CodecError
from ...jobs.model import Job, UniqueMode
from ...jobs.uniqueness import debounced
from ..base import Added, AddStatus
from .insert import Row, insert_rows, known_ids, known_of, payload
from .names import JOBS, LOCKS, column_text, lock_id
from .rows import job_of, payload_of
from .session import Session

_UNTIL_CLAIMED = frozenset((UniqueMode.UNTIL_STARTED, UniqueMode.DEBOUNCE))


def ends_when_claimed(job: Job) -> bool:
    """Whether a job gives its key up when it is claimed."""
    return job.unique is not None and job.unique.mode in _UNTIL_CLAIMED


def ends_with_job(job: Job) -> bool:
    """Whether a job has no key any more once it is over."""
    return job.unique is not None and job.unique.mode is not UniqueMode.WINDOW


def add_unique(session: Session, rows: Sequence[Row]) -> list[Added]:
    """Add jobs of which some have a unique key, inside a transaction that the caller has begun."""
    known = known_of(session, rows)
    fresh = [row for row in rows if row.job.id not in known]
    first: dict[str, Row] = {}
    for row in fresh:
        if row.job.unique:
            first.setdefault(lock_id(row.job.unique.key), row)
    holders = _take(session, first)
    going = [row for row in fresh if _goes(row.job, holders)]
    complete = insert_rows(session, going) == len(going)
    beaten = {} if complete else _yield_to_3_2(session, _missing(session, going))
    return [_answer(session, row, known, holders, beaten) for row in rows]


def release(session: Session, jobs: Sequence[Job]) -> None:
    """Give back the keys that these jobs hold; those that others hold stay taken."""
    held = [(lock_id(job.unique.key), session.vendor.id_in(job.id)) for job in jobs if job.unique]
    if held:
        places = session.vendor.places(held)
        ids, owners = zip(*held, strict=True)
        session.run(f"DELETE FROM {LOCKS} WHERE id IN {places} AND job_id IN {places}", (*ids, *owners))


def _take(session: Session, wanted: dict[str, Row]) -> dict[str, str]:
    """Take every key that is free; returns who holds each afterwards. Sorted, so that two calls never deadlock."""
    keys = sorted(wanted)
    if not keys:
        return {}
    places = session.vendor.places(keys)
    session.run(f"DELETE FROM {LOCKS} WHERE id IN {places} AND {STALE}", keys)
    values = ", ".join(f"(%s, %s, %s, {'{later}' if _window(wanted[key].job) else 'NULL'})" for key in keys)
    params = [param for key in keys for param in _lock_values(session, key, wanted[key].job)]
    session.run(f"INSERT INTO {LOCKS} (id, job_id, until_claimed, expires_at) VALUES {values} {{ignore}}", params)
    holder = session.vendor.id_column("job_id")
    found = session.rows(f"SELECT id, {holder} FROM {LOCKS} WHERE id IN {places}", keys)
    return {row[0]: session.vendor.id_out(row[1]) for row in found}


STALE = (
    "((expires_at IS NOT NULL AND expires_at <= {now}) OR (expires_at IS NULL AND NOT EXISTS"
    f" (SELECT 1 FROM {JOBS} j WHERE j.id = {LOCKS}.job_id"
    f" AND (j.status = 'QUEUED' OR (j.status = 'PROCESSING' AND NOT {LOCKS}.until_claimed)))))"
)


def _lock_values(session: Session, key: str, job: Job) -> tuple[Any, ...]:
    window = _window(job)
    taken = (key, session.vendor.id_in(job.id), ends_when_claimed(job))
    return (*taken, session.moment.later(window)) if window else taken


def _window(job: Job) -> float | None:
    return job.unique.window if job.unique and job.unique.mode is UniqueMode.WINDOW else None


def _goes(job: Job, holders: dict[str, str]) -> bool:
    return job.unique is None or holders.get(lock_id(job.unique.key)) == job.id


def _missing(session: Session, rows: Sequence[Row]) -> list[Row]:
    there = known_ids(session, [row.job.id for row in rows])
    return [row for row in rows if row.job.id not in there]


def _yield_to_3_2(session: Session, rows: Sequence[Row]) -> dict[str, str | None]:
    """Give back the keys of jobs that a row of the 3.2 line excludes; returns that row's id for each job."""
    release(session, [row.job for row in rows])
    column = session.vendor.id_column("id")
    query = f"SELECT {column} FROM {JOBS} WHERE queue = %s AND unique_key = %s AND status IN ('QUEUED', 'PROCESSING')"
    beaten: dict[str, str | None] = {}
    for row in rows:
        key = row.job.unique.key if row.job.unique else ""
        found = session.row(query, (column_text(row.job.queue), column_text(key)))
        beaten[row.job.id] = session.vendor.id_out(found[0]) if found else None
    return beaten


def _answer(
    session: Session, row: Row, known: set[str], holders: dict[str, str], beaten: dict[str, str | None]
) -> Added:
    job = row.job
    if job.id in beaten:
        return Added(status=AddStatus.DUPLICATE, job_id=beaten[job.id])
    if job.id in known or _goes(job, holders):
        return Added(status=AddStatus.ADDED, job_id=job.id)
    holder = holders.get(lock_id(job.unique.key)) if job.unique else None
    if holder and _debounces(job) and _replace(session, holder, row):
        return Added(status=AddStatus.REPLACED, job_id=holder)
    return Added(status=AddStatus.DUPLICATE, job_id=holder)


def _debounces(job: Job) -> bool:
    return job.unique is not None and job.unique.mode is UniqueMode.DEBOUNCE


def _replace(session: Session, holder: str, row: Row) -> bool:
    """Put the newcomer into the place of the waiting holder of its key; False when that does not wait or debounce."""
    vendor = session.vendor
    holder_id = vendor.id_in(holder)
    query = f"SELECT queue, data FROM {JOBS} WHERE id = %s AND status = 'QUEUED' {{wait_for_lock}}"
    found = session.row(query, (holder_id,))
    waiting = found and _waiting(holder, *found)
    if not waiting or not _debounces(waiting):
        return False
    job = debounced(waiting, row.job)
    due = vendor.moment(job.run_after)
    params = (payload(job), column_text(job.queue), job.priority, session.moment.order(row.position), due, due)
    session.run(_REPLACE, (*params, holder_id))
    return True


_REPLACE = (
    f"UPDATE {JOBS} SET data = %s, queue = %s, priority = %s, created_at = {{order}}, limit_group = NULL,"
    " run_after = CASE WHEN {at} > {now} THEN {at} END WHERE id = %s"
)


def _waiting(job_id: str, queue: str, data: Any) -> Job | None:
    try:
        return job_of(payload_of(data), job_id, queue)
    except CodecError:
        return None
