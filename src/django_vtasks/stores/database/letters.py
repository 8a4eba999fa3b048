"""Dead letters: rows of status FAILED, with what lists need in columns of their own and the letter in `data`."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from ...jobs.codec import encode_letter, squeeze_if_possible
from ...jobs.errors import CodecError
from ...jobs.model import DeadLetter, JobState
from .ids import canonical
from .insert import known_ids
from .names import JOBS, RESULTS, ascii_text, cleaned, column_text
from .rows import JOB_COLUMNS, columns, letter_of
from .session import Session

BATCH = 1000
"""How many letters one call removes at most."""


def bury(session: Session, letters: Sequence[tuple[DeadLetter, float]]) -> None:
    """Turn rows into dead letters whose results are kept for the given seconds."""
    for place, (letter, result_ttl) in enumerate(letters):
        kept = result_ttl > 0
        until = (session.moment.later(result_ttl),) if kept else ()
        session.run(
            f"{_BURY}{', result_until = {later}' if kept else ', result_until = NULL'} WHERE id = %s",
            (*_values(session, letter, place), *until, session.vendor.id_in(letter.id)),
        )


_BURY = (
    f"UPDATE {JOBS} SET status = 'FAILED', worker_id = NULL, lease_token = NULL, claimed_at = NULL, metadata = NULL,"
    " cancel_requested_at = NULL, run_after = NULL, data = %s, buried_at = {order}, failed_at = {at},"
    " first_failed_at = {at}, func = %s, reason = %s, fingerprint = %s"
)


def _values(session: Session, letter: DeadLetter, place: int) -> tuple[Any, ...]:
    vendor = session.vendor
    return (
        letter_bytes(letter),
        session.moment.order(place),
        vendor.moment(letter.failed_at),
        vendor.moment(letter.first_failed_at),
        *listed(letter),
    )


def listed(letter: DeadLetter) -> tuple[str, str, str]:
    """What a letter is filtered and grouped by: path, reason, fingerprint."""
    func = ascii_text(letter.job.func) if letter.job else ""
    return func, letter.reason.value, ascii_text(letter.failure.fingerprint)


def letter_bytes(letter: DeadLetter) -> bytes:
    """The bytes of a letter; parts that are not JSON are written out or, at worst, the job is kept as it came."""
    try:
        data = encode_letter(letter, compress=False)
    except CodecError:
        failure = letter.failure
        clean = replace(failure, message=cleaned(failure.message), traceback=cleaned(failure.traceback))
        data = encode_letter(replace(letter, job=None, failure=clean), compress=False)
    return squeeze_if_possible(data)


def restore(session: Session, letters: Sequence[DeadLetter]) -> int:
    """Put letters in whose ids the store does not know; returns how many. Inside a transaction."""
    vendor = session.vendor
    ids = {_stored_id(letter.id): letter for letter in letters}
    known = known_ids(session, list(ids))
    new = [(job_id, letter) for job_id, letter in ids.items() if job_id not in known]
    for place, (job_id, letter) in enumerate(new):
        priority = letter.job.priority if letter.job else 0
        params = (vendor.id_in(job_id), column_text(letter.queue), priority, session.moment.order(place))
        session.run(_RESTORE, (*params, *_values(session, letter, place)))
    return len(new)


_RESTORE = (
    f"INSERT INTO {JOBS} (id, queue, priority, created_at, status, data, buried_at, failed_at, first_failed_at,"
    " func, reason, fingerprint) VALUES (%s, %s, %s, {order}, 'FAILED', %s, {order}, {at}, {at}, %s, %s, %s)"
)


def _stored_id(letter_id: str) -> str:
    """The id in a form that this store holds; letters of other stores get one made from theirs."""
    return canonical(letter_id) or str(uuid.uuid5(uuid.NAMESPACE_OID, letter_id))


def evict(session: Session, cap: int, limit: int = BATCH) -> int:
    """Remove the oldest letters beyond the cap, at most `limit`; returns how many."""
    surplus = session.rows(
        f"SELECT id FROM {JOBS} WHERE status = 'FAILED' ORDER BY buried_at DESC, id DESC LIMIT %s OFFSET %s",
        (limit, max(0, cap)),
    )
    return remove(session, [row[0] for row in surplus])


def remove(session: Session, ids: Sequence[Any]) -> int:
    """Remove letters (ids as they were read); a result that is to be kept longer stays as a result."""
    if not ids:
        return 0
    places = session.vendor.places(ids)
    session.run(_KEEP_RESULTS.format(places=places), ids)
    return session.run(f"{{delete_jobs}} WHERE id IN {places} AND status = 'FAILED'", ids)


_KEEP_RESULTS = (
    f"INSERT INTO {RESULTS} (id, queue, state, data, progress, progress_at, settled_at, finished_at, expires_at)"
    f" SELECT id, queue, '{JobState.DEAD.value}', data, progress, progress_at, buried_at, failed_at, result_until"
    f" FROM {JOBS} WHERE id IN {{places}} AND status = 'FAILED' AND result_until > {{{{now}}}}"
    f" AND NOT EXISTS (SELECT 1 FROM {RESULTS} r WHERE r.id = {JOBS}.id)"
)


def adopt(session: Session, limit: int) -> None:
    """Fill the columns of letters that the 3.2 line wrote, at most `limit` of them, in transactions of `BATCH`."""
    for size in [BATCH] * (limit // BATCH) + [limit % BATCH]:
        if size:
            with session.atomic():
                adopted = _adopt(session, size)
            if adopted < size:
                return


def _adopt(session: Session, limit: int) -> int:
    vendor = session.vendor
    rows = session.rows(
        f"SELECT {columns(vendor, JOB_COLUMNS)} FROM {JOBS} WHERE status = 'FAILED' AND buried_at IS NULL"
        " ORDER BY id LIMIT %s",
        (limit,),
    )
    sets = []
    for row in rows:
        values = dict(zip(JOB_COLUMNS, row, strict=True))
        letter = letter_of(values, vendor)
        moments = (vendor.moment(letter.failed_at), vendor.moment(letter.first_failed_at))
        sets.append((*moments, *moments[:1], *listed(letter), vendor.id_in(letter.id)))
    if sets and vendor.has_unnest:
        lines = ", ".join([_ADOPTED.format(id=vendor.id_place)] * len(sets))
        session.run(_ADOPT_ALL.format(values=lines), list(chain.from_iterable(sets)))
    else:
        session.run_many(_ADOPT, sets)
    return len(rows)


_ADOPT = (
    f"UPDATE {JOBS} SET failed_at = {{at}}, first_failed_at = {{at}}, buried_at = {{at}}, func = %s, reason = %s,"
    " fingerprint = %s WHERE id = %s AND buried_at IS NULL"
)
_ADOPTED = "({{at}}, {{at}}, {{at}}, %s, %s, %s, {id})"
_ADOPT_ALL = (
    f"UPDATE {JOBS} j SET failed_at = v.failed_at, first_failed_at = v.first_failed_at, buried_at = v.buried_at,"
    " func = v.func, reason = v.reason, fingerprint = v.fingerprint"
    " FROM (VALUES {values}) v (failed_at, first_failed_at, buried_at, func, reason, fingerprint, id)"
    " WHERE j.id = v.id AND j.buried_at IS NULL"
)
