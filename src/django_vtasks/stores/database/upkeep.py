"""Looking after what dead workers and time leave behind."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...jobs.model import Claim, Lease, Progress
from ..base import Purged, Retention
from . import permits, samples
from .leases import like
from .letters import adopt, evict, remove
from .names import ALIVE, JOBS, LOCKS, METADATA, RESULTS, WORKER
from .rows import CLAIM_COLUMNS, ascii_json, claim_of, columns, progress_text, round_of
from .session import Session
from .unique import STALE

# --- leases ------------------------------------------------------------------------------------------------------


def held(session: Session, owner: str) -> tuple[Claim, ...]:
    """Every claim of an incarnation."""
    return _claims(session, "worker_id = %s", (owner,), "")


def expired(session: Session, limit: int) -> tuple[Claim, ...]:
    """Claims whose incarnation has no live lease; a row of the 3.2 line that names no worker is one."""
    live = _live(session)
    condition = f"(worker_id IS NULL OR worker_id NOT IN {session.vendor.places(live)})" if live else "1 = 1"
    return _claims(session, condition, tuple(live), f"LIMIT {int(limit)}")


def _claims(session: Session, condition: str, params: Sequence[Any], limit: str) -> tuple[Claim, ...]:
    rows = session.rows(
        f"SELECT {columns(session.vendor, CLAIM_COLUMNS)} FROM {JOBS}"
        f" WHERE status = 'PROCESSING' AND {condition} ORDER BY claimed_at, id {limit}",
        params,
    )
    return tuple(claim_of(row, session.vendor) for row in rows)


def _live(session: Session) -> list[str]:
    query = f"SELECT value FROM {METADATA} WHERE {{key}} LIKE %s AND expires_at > {{now}}"
    return [row[0] for row in session.rows(query, (like(ALIVE),))]


# --- what a running job says ---------------------------------------------------------------------------------------


def progress(session: Session, lease: Lease, said: Progress | None, metadata: Mapping[str, Any] | None) -> bool:
    """Record what a running job says of itself, while its lease holds."""
    changes, params = [], []
    if said is not None:
        changes.append("progress = %s, progress_at = {now}")
        params.append(progress_text(said))
    if metadata is not None:
        changes.append("metadata = %s")
        params.append(ascii_json(dict(metadata)))
    fence = (session.vendor.id_in(lease.job_id), lease.owner, round_of(lease.token))
    changed = session.run(
        f"UPDATE {JOBS} SET {', '.join(changes) or 'worker_id = worker_id'}"
        " WHERE id = %s AND status = 'PROCESSING' AND worker_id = %s AND COALESCE(lease_token, '') = %s",
        (*params, *fence),
    )
    return changed > 0


# --- cleaning ------------------------------------------------------------------------------------------------------


def purge(session: Session, retention: Retention, limit: int) -> Purged:
    """Remove what has had its time, at most `limit` of each kind."""
    adopt(session, limit)
    _purge_locks(session, limit)
    permits.purge(session, limit)
    samples.purge(session)
    return Purged(
        results=_purge_results(session, limit),
        dead_letters=_purge_letters(session, retention, limit),
        workers=_purge_workers(session, limit),
    )


def _purge_results(session: Session, limit: int) -> int:
    query = f"SELECT id FROM {RESULTS} WHERE expires_at <= {{now}} ORDER BY expires_at LIMIT %s"
    return _delete(session, RESULTS, "id", [row[0] for row in session.rows(query, (limit,))])


def _purge_letters(session: Session, retention: Retention, limit: int) -> int:
    evicted = evict(session, retention.dead_letter_cap, limit)
    if retention.dead_letter_age is None:
        return evicted
    old = session.rows(
        f"SELECT id FROM {JOBS} WHERE status = 'FAILED' AND buried_at < {{later}} ORDER BY buried_at LIMIT %s",
        (session.moment.later(-retention.dead_letter_age), limit - evicted),
    )
    return evicted + remove(session, [row[0] for row in old])


def _purge_locks(session: Session, limit: int) -> None:
    stale = session.rows(f"SELECT id FROM {LOCKS} WHERE {STALE} LIMIT %s", (limit,))
    for (key,) in stale:
        session.run(f"DELETE FROM {LOCKS} WHERE id = %s AND {STALE}", (key,))


def _purge_workers(session: Session, limit: int) -> int:
    """Remove leases that ran out and descriptions without a lease, unless the incarnation still holds jobs."""
    live = set(_live(session))
    known = session.rows(
        f"SELECT {{key}} FROM {METADATA} WHERE {{key}} LIKE %s OR {{key}} LIKE %s", (like(ALIVE), like(WORKER))
    )
    dead = sorted({row[0].partition(":")[2] for row in known} - live)[:limit]
    holding = _holding(session, dead)
    gone = [owner for owner in dead if owner not in holding]
    keys = [prefix + owner for owner in gone for prefix in (ALIVE, WORKER)]
    _delete(session, METADATA, "{key}", keys)
    return len(gone)


def _holding(session: Session, owners: Sequence[str]) -> set[str]:
    if not owners:
        return set()
    places = session.vendor.places(owners)
    query = f"SELECT DISTINCT worker_id FROM {JOBS} WHERE status = 'PROCESSING' AND worker_id IN {places}"
    return {row[0] for row in session.rows(query, owners)}


def _delete(session: Session, table: str, column: str, values: Sequence[Any]) -> int:
    if not values:
        return 0
    return session.run(f"DELETE FROM {table} WHERE {column} IN {session.vendor.places(values)}", values)
