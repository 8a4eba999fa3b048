"""Claiming: ready jobs of the wanted queues, in order, leased to one incarnation."""

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ...jobs.model import Claim, Job
from ..base import ClaimRequest
from .names import ALIVE, JOBS, METADATA, PAUSED, column_text, metadata_key
from .queries.vendor import Vendor
from .rows import CLAIM_COLUMNS, claim_of, columns
from .session import Session
from .unique import UNTIL_CLAIMED, release


def claim(session: Session, request: ClaimRequest) -> tuple[Claim, ...]:
    """Lease jobs to the incarnation that asks, unless its own lease has run out. Inside a transaction."""
    if request.limit <= 0:
        return ()
    token = os.urandom(8).hex()
    rows = _take(session, request, token)
    claims = tuple(claim_of(row, session.vendor) for row in rows)
    started = [claim.job for claim in claims if claim.job and _until_claimed(claim.job)]
    if started:
        release(session, started)
    return claims


def is_ready(session: Session, queues: Sequence[str]) -> bool:
    """Whether a job is ready in one of the queues that are not paused."""
    keys = {metadata_key(PAUSED, queue): queue for queue in queues}
    paused = session.rows(f"SELECT {{key}} FROM {METADATA} WHERE {{key}} IN {session.vendor.places(keys)}", list(keys))
    for (key,) in paused:
        del keys[key]
    return any(session.row(_HEAD_OF_LINE, (queue,)) for queue in keys.values())


def _until_claimed(job: Job) -> bool:
    return job.unique is not None and job.unique.mode in UNTIL_CLAIMED


def _take(session: Session, request: ClaimRequest, token: str) -> list[Any]:
    wants = {column_text(want.queue): want.slots for want in request.wants if want.slots > 0}
    if session.vendor.has_unnest:
        alive, pauses = metadata_key(ALIVE, request.owner), [metadata_key(PAUSED, queue) for queue in wants]
        params = (alive, list(wants), list(wants.values()), pauses, request.limit, request.owner, token)
        found = session.rows(_one_statement(session.vendor), params)
        places = {queue: place for place, queue in enumerate(wants)}
        return sorted(found, key=lambda row: (places[row[1]], -row[-2], row[-1], row[0]))
    ids: list[Any] = []
    for queue in _open_queues(session, request.owner, list(wants)):
        limit = min(wants[queue], request.limit - len(ids))
        if limit > 0:
            ids += [row[0] for row in session.rows(_HEAD, (queue, limit))]
    return _lease(session, ids, request.owner, token)


_READY = f"FROM {JOBS} WHERE queue = {{queue}} AND status = 'QUEUED' AND run_after IS NULL"
_ORDER = "ORDER BY priority DESC, created_at, id"
_HEAD = f"SELECT id {_READY} {_ORDER} LIMIT %s {{skip_locked}}".replace("{queue}", "%s")
_HEAD_OF_LINE = f"SELECT 1 {_READY} LIMIT 1".replace("{queue}", "%s")
_LEASED = "status = 'PROCESSING', worker_id = %s, lease_token = %s, claimed_at = {now}"


@lru_cache(8)
def _one_statement(vendor: Vendor) -> str:
    ready = _READY.replace("{queue}", "w.queue")
    returned = columns(vendor, CLAIM_COLUMNS, "j")
    return f"""
WITH wanted AS MATERIALIZED (
    SELECT w.queue, w.slots, w.place
    FROM (SELECT 1 FROM {METADATA} WHERE {{key}} = %s AND expires_at > {{now}}) alive,
        unnest(%s::text[], %s::int[], %s::text[]) WITH ORDINALITY AS w(queue, slots, pause, place)
    WHERE NOT EXISTS (SELECT 1 FROM {METADATA} m WHERE m.{{key}} = w.pause)
    ORDER BY w.place
), head AS (
    SELECT ready.id FROM wanted w CROSS JOIN LATERAL (
        SELECT id {ready} {_ORDER} LIMIT w.slots {{skip_locked}}
    ) ready LIMIT %s
)
UPDATE {JOBS} j SET {_LEASED} WHERE j.id = ANY(ARRAY(SELECT id FROM head))
RETURNING {returned}, j.priority, {vendor.epoch_column("j.created_at")}
"""


def _open_queues(session: Session, owner: str, queues: Sequence[str]) -> list[str]:
    alive = metadata_key(ALIVE, owner)
    keys = {metadata_key(PAUSED, queue): queue for queue in queues}
    found = session.rows(
        f"SELECT {{key}} FROM {METADATA} WHERE {{key}} IN {session.vendor.places(keys)}"
        f" OR ({{key}} = %s AND expires_at > {{now}})",
        (*keys, alive),
    )
    present = {row[0] for row in found}
    return [queue for key, queue in keys.items() if key not in present] if alive in present else []


def _lease(session: Session, ids: Sequence[Any], owner: str, token: str) -> list[Any]:
    if not ids:
        return []
    vendor = session.vendor
    places = vendor.places(ids)
    session.run(f"UPDATE {JOBS} SET {_LEASED} WHERE id IN {places}", (owner, token, *ids))
    found = session.rows(f"SELECT {columns(vendor, CLAIM_COLUMNS)} FROM {JOBS} WHERE id IN {places}", ids)
    rank = {job_id: place for place, job_id in enumerate(ids)}
    return sorted(found, key=lambda row: rank[row[0]])
