"""Once a second: due jobs become ready, and the worker learns what changed from outside."""

from functools import lru_cache
from typing import Any

from ..base import Pulse
from .leases import like, paused, paused_queue
from .names import GROUPS, JOBS, METADATA, PAUSED
from .queries.vendor import Vendor
from .rows import lease_token
from .session import Session


def pulse(session: Session, owner: str, limit: int) -> tuple[Pulse, set[str]]:
    """What a worker learns, and the queues that have more ready jobs."""
    if session.vendor.has_unnest:
        return _in_one_statement(session, owner, limit)
    with session.atomic():
        return _in_several(session, owner, limit)


def _in_several(session: Session, owner: str, limit: int) -> tuple[Pulse, set[str]]:
    queues = _promote(session, limit)
    vendor = session.vendor
    row = session.row(_next_due(vendor))
    due_at, now = vendor.epoch_out(row[0]), vendor.epoch_out(row[1]) or 0.0
    going_on: list[str] = []
    if row[2] is not None:
        going_on = [found[0] for found in session.rows(_GOING_ON)]
        limits_at = vendor.epoch_out(session.row(_next_start(vendor))[0])
        due_at = min((at for at in (due_at, limits_at) if at is not None), default=None)
    cancelled = session.rows(_CANCELLED.format(id=vendor.id_column("id")), (owner,))
    found = Pulse(
        cancelled=frozenset(lease_token(token, vendor.id_out(job_id)) for job_id, token in cancelled),
        paused=frozenset(paused(session)),
        promoted=len(queues),
        next_due_in=None if due_at is None else max(0.0, due_at - now),
    )
    return found, {*queues, *going_on}


_GOING_ON = f"SELECT DISTINCT queue FROM {GROUPS} WHERE look_at <= {{now}}"


def _next_start(vendor: Vendor) -> str:
    return f"SELECT {vendor.epoch_column('MIN(look_at)')} FROM {GROUPS} WHERE look_at > {{now}}"


_CANCELLED = (
    f"SELECT {{id}}, lease_token FROM {JOBS}"
    " WHERE worker_id = %s AND cancel_requested_at IS NOT NULL AND status = 'PROCESSING'"
)


@lru_cache(8)
def _next_due(vendor: Vendor) -> str:
    waiting = f"FROM {JOBS} WHERE status = 'QUEUED' AND run_after IS NOT NULL"
    first = f"(SELECT run_after {waiting} ORDER BY run_after LIMIT 1)"
    return f"SELECT {vendor.epoch_column(first)}, {vendor.epoch_column('{now}')}, (SELECT MIN(look_at) FROM {GROUPS})"


def _promote(session: Session, limit: int) -> list[str]:
    due = session.rows(
        f"SELECT id, queue FROM {JOBS} {{by_time}} WHERE status = 'QUEUED' AND run_after <= {{now}}"
        " ORDER BY run_after, id LIMIT %s {skip_locked}",
        (limit,),
    )
    if due:
        sets: list[Any] = [(session.moment.order(place), job_id) for place, (job_id, _) in enumerate(due)]
        session.run_many(f"UPDATE {JOBS} SET run_after = NULL, created_at = {{order}} WHERE id = %s", sets)
    return [queue for _, queue in due]


def _in_one_statement(session: Session, owner: str, limit: int) -> tuple[Pulse, set[str]]:
    queues, next_due_in, cancelled, texts, going_on = session.row(_PULSE, (limit, owner, like(PAUSED)))
    promoted = len(queues or ())
    found = Pulse(
        cancelled=frozenset(cancelled or ()),
        paused=frozenset(map(paused_queue, texts or ())),
        promoted=promoted,
        # Where the limit was reached, more may be due.
        next_due_in=0.0 if promoted >= limit else next_due_in and max(0.0, next_due_in),
    )
    return found, {*(queues or ()), *(going_on or ())}


_PULSE = f"""
WITH due AS MATERIALIZED (
    SELECT id, run_after FROM {JOBS} WHERE status = 'QUEUED' AND run_after <= {{now}}
    ORDER BY run_after, id LIMIT %s FOR UPDATE SKIP LOCKED
), ranked AS (
    SELECT id, row_number() OVER (ORDER BY run_after, id) AS place FROM due
), moved AS (
    UPDATE {JOBS} j SET run_after = NULL, created_at = {{base}} + r.place * interval '1 microsecond'
    FROM ranked r WHERE j.id = r.id
    RETURNING j.queue
)
SELECT
    (SELECT array_agg(queue) FROM moved),
    LEAST((
        SELECT EXTRACT(EPOCH FROM run_after - {{now}})::float8 FROM {JOBS}
        WHERE status = 'QUEUED' AND run_after > {{now}} ORDER BY run_after LIMIT 1
    ), (SELECT EXTRACT(EPOCH FROM MIN(look_at) - {{now}})::float8 FROM {GROUPS} WHERE look_at > {{now}})),
    (
        SELECT array_agg(COALESCE(lease_token, '') || '.' || id) FROM {JOBS}
        WHERE worker_id = %s AND cancel_requested_at IS NOT NULL AND status = 'PROCESSING'
    ),
    (SELECT array_agg(value) FROM {METADATA} WHERE {{key}} LIKE %s),
    (SELECT array_agg(DISTINCT queue) FROM {GROUPS} WHERE look_at <= {{now}})
"""
