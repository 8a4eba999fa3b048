"""Limits in the database: their rates, who has permits, and which groups of parked jobs are worth a look.

A leased row with `limit_key` is a permit, so whatever ends a lease frees it. The row of a key in `db_limitkey` is its
lock: who starts a job, parks one or frees a permit has it, and takes several in the order of their ids. The row of a
group in `db_limitgroup` is changed under the lock of its keys; without it no job is parked there.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

from ...jobs.limits import JobLimit, admit
from ...jobs.model import Job
from .names import GROUPS, JOBS, KEYS, column_text
from .session import Session

SECOND_LOOK = 30.0
"""Seconds after which jobs that wait for a permit are looked at although nobody told that one was freed."""


def concurrency_id(limit: JobLimit) -> str | None:
    """The id of the concurrency key."""
    return None if limit.concurrency_key is None else _digest("c", limit.concurrency_key)


def rate_id(limit: JobLimit) -> str | None:
    """The id of the rate key."""
    return None if limit.rate_key is None else _digest("r", limit.rate_key)


def group_id(queue: str, limit: JobLimit) -> str:
    """The id of the group in which jobs of a queue with these keys are parked."""
    return _digest(column_text(queue), limit.group)


def _digest(kind: str, text: str) -> str:
    return hashlib.sha256(f"{kind}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()


def lock_keys(session: Session, ids: Iterable[str]) -> dict[str, float | None]:
    """Lock keys, made where they are missing; returns their rates' next arrival. Inside a transaction."""
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    found = _locked(session, wanted)
    missing = [key for key in wanted if key not in found]
    if missing:
        values = ", ".join(["(%s)"] * len(missing))
        session.run(f"INSERT INTO {KEYS} (id) VALUES {values} {{ignore}}", missing)
        found |= _locked(session, missing)
    return found


def _locked(session: Session, ids: list[str]) -> dict[str, float | None]:
    places = session.vendor.places(ids)
    query = f"SELECT id, arrival FROM {KEYS} WHERE id IN {places} ORDER BY id {{wait_for_lock}}"
    return {key: None if arrival is None else float(arrival) for key, arrival in session.rows(query, ids)}


def count_permits(session: Session, ids: list[str]) -> dict[str, int]:
    """How many jobs have a permit of each key."""
    if not ids:
        return {}
    rows = session.rows(
        f"SELECT limit_key, COUNT(*) FROM {JOBS} WHERE status = 'PROCESSING'"
        f" AND limit_key IN {session.vendor.places(ids)} GROUP BY limit_key",
        ids,
    )
    return dict(rows)


def free(session: Session, jobs: Iterable[Job]) -> set[str]:
    """Let those who wait for the permits of these jobs, which just gave up their lease, be looked at; returns the
    queues. Inside the transaction that ends the leases."""
    keys = {concurrency_id(job.limit) for job in jobs if job.limit}
    ids = sorted(key for key in keys if key)
    if not ids:
        return set()
    lock_keys(session, ids)
    places = session.vendor.places(ids)
    rows = session.rows(f"SELECT DISTINCT queue FROM {GROUPS} WHERE limit_key IN {places}", ids)
    if rows:
        session.run(f"UPDATE {GROUPS} SET look_at = {{now}} WHERE limit_key IN {places}", ids)
    return {row[0] for row in rows}


def look_later(session: Session, group: str, queue: str, limit: JobLimit, at: float | None) -> None:
    """Nobody looks at a group before a moment (None = when a permit is freed). Under the lock of its keys."""
    moment = session.moment.later(SECOND_LOOK) if at is None else session.vendor.moment(at)
    place = "{later}" if at is None else "{at}"
    changed = session.run(f"UPDATE {GROUPS} SET look_at = {place} WHERE id = %s", (moment, group))
    if not changed:
        session.run(
            f"INSERT INTO {GROUPS} (id, queue, limit_key, look_at) VALUES (%s, %s, %s, {place}) {{ignore}}",
            (group, column_text(queue), concurrency_id(limit), moment),
        )


def due_groups(session: Session, queue: str) -> list[str]:
    """The groups of a queue that are worth a look."""
    query = f"SELECT id FROM {GROUPS} WHERE queue = %s AND look_at <= {{now}} ORDER BY look_at, id LIMIT 100"
    return [row[0] for row in session.rows(query, (queue,))]


def in_group(session: Session, queue: str, group: str) -> tuple[str, tuple[str, ...]]:
    """The condition of the rows parked in a group, by the index that the vendor has for it, and its parameters."""
    if session.vendor.has_partial_unique:
        return "WHERE limit_group = %s AND status = 'QUEUED'", (group,)
    line = "{by_line} WHERE status = 'QUEUED' AND queue = %s AND run_after IS NULL AND limit_group = %s"
    return line, (queue, group)


def known_groups(session: Session, groups: Iterable[str]) -> list[str]:
    """Those of the groups that have parked jobs."""
    ids = sorted(groups)
    if not ids:
        return []
    return [row[0] for row in session.rows(f"SELECT id FROM {GROUPS} WHERE id IN {session.vendor.places(ids)}", ids)]


def drop_empty(session: Session, queue: str, groups: Iterable[str]) -> None:
    """Forget groups of a queue in which nobody is parked, each in a transaction of its own."""
    for group in groups:
        with session.atomic():
            locked = session.row(f"SELECT 1 FROM {GROUPS} WHERE id = %s {{wait_for_lock}}", (group,))
            where, params = in_group(session, queue, group)
            if locked and not session.row(f"SELECT 1 FROM {JOBS} {where} LIMIT 1", params):
                session.run(f"DELETE FROM {GROUPS} WHERE id = %s", (group,))


def purge(session: Session, limit: int) -> None:
    """Remove keys that limit nobody any more."""
    unused = (
        f"NOT EXISTS (SELECT 1 FROM {JOBS} j WHERE j.limit_key = {KEYS}.id)"
        f" AND NOT EXISTS (SELECT 1 FROM {GROUPS} g WHERE g.limit_key = {KEYS}.id)"
    )
    past = session.now() - SECOND_LOOK
    rows = session.rows(
        f"SELECT id FROM {KEYS} WHERE (arrival IS NULL OR arrival < %s) AND {unused} LIMIT %s {{skip_locked}}",
        (past, limit),
    )
    for (key,) in rows:
        session.run(f"DELETE FROM {KEYS} WHERE id = %s AND {unused}", (key,))


def holders(session: Session, limit: JobLimit) -> tuple[str, ...]:
    """The jobs that have a permit of the concurrency key."""
    key = concurrency_id(limit)
    if key is None:
        return ()
    rows = session.rows(
        f"SELECT {session.vendor.id_column('id')} FROM {JOBS} WHERE status = 'PROCESSING' AND limit_key = %s"
        " ORDER BY claimed_at, id",
        (key,),
    )
    return tuple(session.vendor.id_out(row[0]) for row in rows)


def rate_free_at(session: Session, limit: JobLimit, now: float) -> float | None:
    """When the rate lets the next job start; None when that is now."""
    row: Any = session.row(f"SELECT arrival FROM {KEYS} WHERE id = %s", (rate_id(limit),))
    rate = JobLimit(rate_key=limit.rate_key, interval=limit.interval, burst=limit.burst)
    wait = admit(rate, 0, row[0] if row else None, now).wait
    return None if wait is None else now + wait
