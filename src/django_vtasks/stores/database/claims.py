"""Claiming: ready jobs of the wanted queues, in order, leased to one incarnation."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...jobs.model import Claim
from ..base import ClaimRequest
from .names import ALIVE, GROUPS, JOBS, METADATA, PAUSED, column_text, metadata_key
from .plans import Plans
from .queries.arrays import array_of, packed
from .rows import claims_of_round, payload_of
from .session import Session

READY = "status = 'QUEUED' AND run_after IS NULL AND limit_group IS NULL"
IN_ORDER = "ORDER BY priority DESC, created_at, id"
LEASED = "status = 'PROCESSING', worker_id = %s, lease_token = %s, claimed_at = {now}"

_HEAD = (
    f"SELECT id, queue, data FROM {JOBS} {{by_line}} WHERE queue = %s AND {READY} {IN_ORDER} LIMIT %s {{skip_locked}}"
)


LIMIT_MARK = b'"limit":{"'
"""What the payload of a limited job has in it; others may speak of limits in their arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a claim brought, and the queues left out since jobs with limits are next there: see `limits`."""

    claims: tuple[Claim, ...] = ()
    limited: tuple[str, ...] = ()
    now: float = 0.0


def is_scarce(request: ClaimRequest) -> bool:
    """Whether what one queue gets may be missing for the next, so that they must be asked in order."""
    return sum(want.slots for want in request.wants) > request.limit


def new_token() -> str:
    """The token of a round of claims."""
    return os.urandom(8).hex()


def wanted_slots(request: ClaimRequest) -> dict[str, int]:
    """Free slots by queue, in the order asked for."""
    return {column_text(want.queue): want.slots for want in request.wants if want.slots > 0}


def claim(session: Session, request: ClaimRequest) -> Taken:
    """Lease jobs to the incarnation that asks, unless its own lease has run out. Inside a transaction."""
    wanted = wanted_slots(request) if request.limit > 0 else {}
    now, queues, limited = open_queues(session, request.owner, list(wanted))
    rows: list[Any] = []
    for queue in queues:
        limit = min(wanted[queue], request.limit - len(rows))
        if limit > 0 and queue not in limited:
            head = session.rows(_HEAD, (queue, limit))
            if any(LIMIT_MARK in payload_of(row[2]) for row in head):
                limited.add(queue)
            else:
                rows += head
        if queue in limited and is_scarce(request):
            break
    token, ids = new_token(), [row[0] for row in rows]
    if ids:
        lease = f"UPDATE {JOBS} {{by_id}} SET {LEASED} WHERE id IN {session.vendor.places(ids)}"
        session.run(lease, (request.owner, token, *ids))
    claims = claims_of_round(rows, session.vendor, request.owner, token, now)
    return Taken(claims=tuple(claims), limited=tuple(queue for queue in queues if queue in limited), now=now)


def is_ready(session: Session, queues: Sequence[str], plans: Plans | None = None) -> bool:
    """Whether a job is ready in one of the queues that are not paused."""
    keys = {metadata_key(PAUSED, queue): queue for queue in queues}
    if session.vendor.has_unnest:
        params = (packed(keys.values()), packed(keys))
        return bool(plans.rows(session, _IS_READY, params) if plans else session.rows(_IS_READY, params))
    if not keys:
        return False
    places = session.vendor.places(keys)
    paused = session.rows(f"SELECT {{key}} FROM {METADATA} WHERE {{key}} IN {places}", list(keys))
    for (key,) in paused:
        keys.pop(key, None)
    return any(session.row(FIRST, (queue,)) for queue in keys.values()) or bool(_due(session, list(keys.values())))


# In the order of the index: otherwise PostgreSQL expects to meet one soon among all rows, and reads them all in vain.
FIRST = f"SELECT id FROM {JOBS} {{by_line}} WHERE queue = %s AND {READY} {IN_ORDER} LIMIT 1"
_IS_READY = f"""
SELECT 1 FROM unnest({array_of("text")}, {array_of("text")}) AS w(queue, pause)
WHERE NOT EXISTS (SELECT 1 FROM {METADATA} m WHERE m.{{key}} = w.pause)
    AND (
        (SELECT j.id FROM {JOBS} j WHERE j.queue = w.queue AND {READY} {IN_ORDER} LIMIT 1) IS NOT NULL
        OR EXISTS (SELECT 1 FROM {GROUPS} g WHERE g.queue = w.queue AND g.look_at <= {{now}})
    )
LIMIT 1
"""


def _due(session: Session, queues: Sequence[str]) -> set[str]:
    """Those of the queues that have parked jobs worth a look."""
    if not queues:
        return set()
    query = f"SELECT queue FROM {GROUPS} WHERE look_at <= {{now}} AND queue IN {session.vendor.places(queues)}"
    return {row[0] for row in session.rows(query, queues)}


def open_queues(session: Session, owner: str, queues: Sequence[str]) -> tuple[float, list[str], set[str]]:
    """What time it is, which of the queues the incarnation may claim from (none without a live lease), and which of
    those have parked jobs worth a look."""
    if not queues:
        return 0.0, [], set()
    alive = metadata_key(ALIVE, owner)
    keys = {metadata_key(PAUSED, queue): queue for queue in queues}
    found = session.rows(
        f"SELECT {{key}}, {session.vendor.epoch_column('{now}')} FROM {METADATA}"
        f" WHERE {{key}} IN {session.vendor.places(keys)} OR ({{key}} = %s AND expires_at > {{now}})",
        (*keys, alive),
    )
    now = {row[0]: row[1] for row in found}
    if alive not in now:
        return 0.0, [], set()
    free = [queue for key, queue in keys.items() if key not in now]
    return session.vendor.epoch_out(now[alive]) or 0.0, free, _due(session, free)
