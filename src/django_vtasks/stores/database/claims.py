"""Claiming: ready jobs of the wanted queues, in order, leased to one incarnation."""

import os
from collections.abc import Sequence
from typing import Any

from ...jobs.model import Claim
from ..base import ClaimRequest
from .names import ALIVE, GROUPS, JOBS, LIMITED, METADATA, PAUSED, column_text, metadata_key
from .queries.arrays import array_of, packed
from .rows import claims_of_round, payload_of
from .session import Session

READY = "status = 'QUEUED' AND run_after IS NULL AND limit_group IS NULL"
IN_ORDER = "ORDER BY priority DESC, created_at, id"
LEASED = "status = 'PROCESSING', worker_id = %s, lease_token = %s, claimed_at = {now}"

_HEAD = (
    f"SELECT id, queue, data FROM {JOBS} {{by_line}} WHERE queue = %s AND {READY} {IN_ORDER} LIMIT %s {{skip_locked}}"
)


def new_token() -> str:
    """The token of a round of claims."""
    return os.urandom(8).hex()


def wanted_slots(request: ClaimRequest) -> dict[str, int]:
    """Free slots by queue, in the order asked for."""
    return {column_text(want.queue): want.slots for want in request.wants if want.slots > 0}


def claim(session: Session, request: ClaimRequest) -> list[Claim] | None:
    """Lease jobs to the incarnation that asks, unless its own lease has run out. Inside a transaction.

    None, and nothing is claimed, where there are limited jobs: see `limits`.
    """
    wanted = wanted_slots(request) if request.limit > 0 else {}
    started_at, queues, limited = open_queues(session, request.owner, list(wanted))
    if limited:
        return None
    rows: list[Any] = []
    for queue in queues:
        limit = min(wanted[queue], request.limit - len(rows))
        if limit > 0:
            rows += session.rows(_HEAD, (queue, limit))
    if not rows:
        return []
    # The first limited job may have been added since the queues were read.
    if any(b'"limit"' in payload_of(row[2]) for row in rows) and is_limited(session):
        return None
    token, ids = new_token(), [row[0] for row in rows]
    lease = f"UPDATE {JOBS} {{by_id}} SET {LEASED} WHERE id IN {session.vendor.places(ids)}"
    session.run(lease, (request.owner, token, *ids))
    return claims_of_round(rows, session.vendor, request.owner, token, started_at)


def is_ready(session: Session, queues: Sequence[str]) -> bool:
    """Whether a job is ready in one of the queues that are not paused."""
    keys = {metadata_key(PAUSED, queue): queue for queue in queues}
    if session.vendor.has_unnest:
        return session.row(_IS_READY, (packed(keys.values()), packed(keys))) is not None
    names = (*keys, LIMITED)
    found = session.rows(f"SELECT {{key}} FROM {METADATA} WHERE {{key}} IN {session.vendor.places(names)}", names)
    for (key,) in found:
        keys.pop(key, None)
    if (LIMITED,) in map(tuple, found) and keys and _has_due_group(session, list(keys.values())):
        return True
    return any(session.row(FIRST, (queue,)) for queue in keys.values())


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


def is_limited(session: Session) -> bool:
    """Whether a limited job was ever added."""
    return session.row(f"SELECT 1 FROM {METADATA} WHERE {{key}} = %s", (LIMITED,)) is not None


def _has_due_group(session: Session, queues: Sequence[str]) -> bool:
    places = session.vendor.places(queues)
    query = f"SELECT 1 FROM {GROUPS} WHERE queue IN {places} AND look_at <= {{now}} LIMIT 1"
    return session.row(query, queues) is not None


def open_queues(session: Session, owner: str, queues: Sequence[str]) -> tuple[float, list[str], bool]:
    """What time it is, which of the queues the incarnation may claim from (none without a live lease), and whether a
    limited job was ever added."""
    if not queues:
        return 0.0, [], False
    alive = metadata_key(ALIVE, owner)
    keys = {metadata_key(PAUSED, queue): queue for queue in queues}
    found = session.rows(
        f"SELECT {{key}}, {session.vendor.epoch_column('{now}')} FROM {METADATA}"
        f" WHERE {{key}} IN {session.vendor.places(keys)} OR {{key}} = %s OR ({{key}} = %s AND expires_at > {{now}})",
        (*keys, LIMITED, alive),
    )
    now = {row[0]: row[1] for row in found}
    if alive not in now:
        return 0.0, [], False
    free = [queue for key, queue in keys.items() if key not in now]
    return session.vendor.epoch_out(now[alive]) or 0.0, free, LIMITED in now
