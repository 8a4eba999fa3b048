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


def redrive(session: Session, ids: Sequence[str], changes: Redrive, start: int = 0) -> list[Added]:
    """What became of each letter, when as many are enqueued again as one statement may add. Inside a transaction.

    The first letter has the position `start` among those redriven. Either every letter that goes has its new job, or,
    when anything raises, all stay.
    """
    letters = _letters(session, {found for letter_id in ids if (found := canonical(letter_id))})
    at = session.now()
    answers = [Added(status=AddStatus.DUPLICATE, job_id=None)] * len(ids)
    places: list[tuple[int, str]] = []
    jobs: list[Job] = []
    for place, letter_id in enumerate(ids):
        letter = letters.pop(canonical(letter_id) or "", None)
        job = letter and _job(letter)
        if job:
            places.append((place, job.id))
            jobs.append(changes.applied(job, new_id=new_id(), at=at, position=start + place))
    added = add_rows(session, rows_of(jobs)) if jobs else []
    gone = []
    for (place, letter_id), answer in zip(places, added, strict=True):
        answers[place] = answer
        if answer.status is not AddStatus.DUPLICATE:
            gone.append(session.vendor.id_in(letter_id))
    remove(session, gone)
    notify.after_commit(session.connection, jobs if gone else [])
    return answers


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


def _letters(session: Session, ids: set[str]) -> dict[str, DeadLetter]:
    """The letters with these ids that are there, locked in the order of their ids so that two calls never deadlock."""
    vendor = session.vendor
    params = [vendor.id_in(letter_id) for letter_id in sorted(ids)]
    if not params:
        return {}
    rows = session.rows(
        f"SELECT {columns(vendor, JOB_COLUMNS)} FROM {JOBS} {{by_id}} WHERE id IN {vendor.places(params)}"
        " AND status = 'FAILED' ORDER BY id {wait_for_lock}",
        params,
    )
    letters = (letter_of(dict(zip(JOB_COLUMNS, row, strict=True)), vendor) for row in rows)
    return {letter.id: letter for letter in letters}


def _job(letter: DeadLetter) -> Job | None:
    try:
        return letter.job or decode(letter.raw, fallback_id=letter.id, fallback_queue=letter.queue)
    except CodecError:
        return None
