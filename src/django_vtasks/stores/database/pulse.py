"""Once a second: due jobs become ready, and the worker learns what changed from outside."""

from functools import lru_cache
from typing import Any

from ..base import Pulse
from .leases import paused
from .names import JOBS
from .queries.vendor import Vendor
from .rows import lease_token
from .session import Session


def pulse(session: Session, owner: str, limit: int) -> tuple[Pulse, set[str]]:
    """What a worker learns, and the queues that have more ready jobs. Inside a transaction where it has two parts."""
    queues = _promote(session, limit)
    vendor = session.vendor
    row = session.row(_next_due(vendor))
    due_at, now = vendor.epoch_out(row[0]), vendor.epoch_out(row[1]) or 0.0
    cancelled = session.rows(_CANCELLED.format(id=vendor.id_column("id")), (owner,))
    found = Pulse(
        cancelled=frozenset(lease_token(token, vendor.id_out(job_id)) for job_id, token in cancelled),
        paused=frozenset(paused(session)),
        promoted=len(queues),
        next_due_in=None if due_at is None else max(0.0, due_at - now),
    )
    return found, set(queues)


_CANCELLED = (
    f"SELECT {{id}}, lease_token FROM {JOBS}"
    " WHERE worker_id = %s AND cancel_requested_at IS NOT NULL AND status = 'PROCESSING'"
)


@lru_cache(8)
def _next_due(vendor: Vendor) -> str:
    waiting = f"FROM {JOBS} WHERE status = 'QUEUED' AND run_after IS NOT NULL"
    first = f"(SELECT run_after {waiting} ORDER BY run_after LIMIT 1)"
    return f"SELECT {vendor.epoch_column(first)}, {vendor.epoch_column('{now}')}"


def _promote(session: Session, limit: int) -> list[str]:
    due = session.rows(
        f"SELECT id, queue FROM {JOBS} WHERE status = 'QUEUED' AND run_after <= {{now}}"
        " ORDER BY run_after, id LIMIT %s {skip_locked}",
        (limit,),
    )
    if due:
        sets: list[Any] = [(session.moment.order(place), job_id) for place, (job_id, _) in enumerate(due)]
        session.run_many(f"UPDATE {JOBS} SET run_after = NULL, created_at = {{order}} WHERE id = %s", sets)
    return [queue for _, queue in due]
