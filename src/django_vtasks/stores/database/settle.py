"""Settling: decisions about claimed jobs, written where the lease still holds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import batched, chain
from typing import Any

from ...jobs.errors import CodecError
from ...jobs.model import Claim, DeadLetter, Job, JobState, evolve_job
from ...jobs.transitions import Bury, Finish, Place, Requeue, Settlement
from .insert import payload
from .letters import bury, evict
from .names import ALIVE, JOBS, METADATA, RESULTS, column_text, metadata_key
from .oneround import stored_result
from .permits import free
from .rows import lease_token
from .session import Session
from .unique import ends_when_claimed, ends_with_job, release


@dataclass(slots=True, kw_only=True)
class Settled:
    """What became of some settlements: refused tokens, evicted letters, queues that have a job more, and jobs that are
    over and for whose end somebody waits."""

    refused: set[str] = field(default_factory=set)
    evicted: int = 0
    refilled: set[str] = field(default_factory=set)
    waited: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A leased row as it was found: who holds it, and what its attempt said."""

    owner: str
    token: str
    progress: str | None
    progress_at: Any
    waited: bool


def settle(session: Session, settlements: Sequence[Settlement], dead_letter_cap: int) -> Settled:
    """Write decisions. Inside a transaction."""
    settled = Settled()
    if not settlements:
        return settled
    accepted = _accepted(session, settlements, settled)
    finishes = [(item.claim, item.decision, held) for item, held in accepted if isinstance(item.decision, Finish)]
    buries = [(item.claim, item.decision) for item, _ in accepted if isinstance(item.decision, Bury)]
    requeues = [(item.claim, item.decision) for item, _ in accepted if isinstance(item.decision, Requeue)]
    if finishes:
        _finish(session, finishes)
    if buries:
        bury(session, [(_named(decision.letter, claim), decision.result_ttl) for claim, decision in buries])
        settled.evicted = evict(session, dead_letter_cap)
    if requeues:
        _requeue(session, requeues)
        settled.refilled = {decision.job.queue for _, decision in requeues if not (decision.delay or 0) > 0}
    settled.waited = [
        item.claim.lease.job_id for item, held in accepted if held.waited and not isinstance(item.decision, Requeue)
    ]
    limited = [item.claim.job for item, _ in accepted if item.claim.job and item.claim.job.limit]
    if limited:
        settled.refilled |= free(session, limited)
    release(session, [item.claim.job for item, _ in accepted if item.claim.job and _gives_key_back(item)])
    return settled


def _gives_key_back(item: Settlement) -> bool:
    job = item.claim.job
    if job is None or job.unique is None:
        return False
    return ends_when_claimed(job) if isinstance(item.decision, Requeue) else ends_with_job(job)


def _accepted(session: Session, settlements: Sequence[Settlement], settled: Settled) -> list[tuple[Settlement, Held]]:
    held = _lock(session, {item.claim.lease.job_id for item in settlements})
    live = _live(session, {item.claim.lease.owner for item in settlements if item.reclaim})
    accepted = []
    for item in settlements:
        lease = item.claim.lease
        found = held.get(lease.job_id)
        if found is None or (found.owner, found.token) != (lease.owner, lease.token) or lease.owner in live:
            settled.refused.add(lease.token)
        else:
            accepted.append((item, held.pop(lease.job_id)))
    return accepted


def _lock(session: Session, job_ids: Iterable[str]) -> dict[str, Held]:
    vendor = session.vendor
    params = [vendor.id_in(job_id) for job_id in sorted(job_ids)]
    found = session.rows(
        f"SELECT {vendor.id_column('id')}, worker_id, lease_token, progress, progress_at, waited"
        f" FROM {JOBS} {{by_id}}"
        f" WHERE id IN {vendor.places(params)} AND status = 'PROCESSING' {{wait_for_lock}}",
        params,
    )
    held = {}
    for raw_id, owner, token, progress, progress_at, waited in found:
        job_id = vendor.id_out(raw_id)
        held[job_id] = Held(
            owner=owner or "",
            token=lease_token(token, job_id),
            progress=progress,
            progress_at=progress_at,
            waited=bool(waited),
        )
    return held


def _live(session: Session, owners: set[str]) -> set[str]:
    keys = {metadata_key(ALIVE, owner): owner for owner in owners}
    if not keys:
        return set()
    query = f"SELECT {{key}} FROM {METADATA} WHERE {{key}} IN {session.vendor.places(keys)} AND expires_at > {{now}}"
    return {keys[row[0]] for row in session.rows(query, list(keys))}


# --- finish ------------------------------------------------------------------------------------------------------


def _finish(session: Session, finishes: Sequence[tuple[Claim, Finish, Held]]) -> None:
    vendor = session.vendor
    kept = [item for item in finishes if item[1].result_ttl > 0]
    for some in batched(enumerate(kept), RESULTS_AT_ONCE):
        values = chain.from_iterable(_result_values(session, place, *item) for place, item in some)
        session.run(f"{_INSERT_RESULT} {', '.join([_RESULT] * len(some))} {{ignore}}", list(values))
    ids = [vendor.id_in(claim.lease.job_id) for claim, *_ in finishes]
    session.run(f"{{delete_jobs}} WHERE id IN {vendor.places(ids)}", ids)


_INSERT_RESULT = (
    f"INSERT INTO {RESULTS}"
    " (id, queue, state, data, ending, value, progress, progress_at, settled_at, finished_at, expires_at) VALUES"
)
_RESULT = "(%s, %s, %s, %s, %s, %s, %s, %s, {order}, {at}, {later})"
RESULTS_AT_ONCE = 50
"""Results in one statement."""


def _result_values(session: Session, place: int, claim: Claim, finish: Finish, held: Held) -> tuple[Any, ...]:
    data, ending = stored_result(claim, finish)
    return (
        session.vendor.id_in(claim.lease.job_id),
        column_text(claim.queue),
        finish.state.value,
        claim.raw if data is None else data,
        ending,
        finish.value if finish.state is JobState.SUCCEEDED else None,
        held.progress,
        held.progress_at,
        session.moment.order(place),
        session.vendor.moment(finish.finished_at),
        session.moment.later(finish.result_ttl),
    )


# --- bury --------------------------------------------------------------------------------------------------------


def _named(letter: DeadLetter, claim: Claim) -> DeadLetter:
    return letter if letter.id == claim.lease.job_id else replace(letter, id=claim.lease.job_id)


# --- requeue -----------------------------------------------------------------------------------------------------


def _requeue(session: Session, requeues: Sequence[tuple[Claim, Requeue]]) -> None:
    now = session.now() if any(requeue.delay for _, requeue in requeues) else 0.0
    for place, (claim, requeue) in enumerate(requeues):
        job, delay = requeue.job, requeue.delay or 0.0
        moments: tuple[Any, ...] = ()
        if delay > 0:
            job = evolve_job(job, run_after=now + delay)
            change, moments = ", run_after = {at}", (session.vendor.moment(job.run_after),)
        elif requeue.place is Place.FRONT:
            change = ", run_after = NULL"
        else:
            change, moments = ", run_after = NULL, created_at = {order}", (session.moment.order(place),)
        params = (_payload(job, claim), column_text(job.queue), job.priority, *moments)
        session.run(f"{_REQUEUE}{change} WHERE id = %s", (*params, session.vendor.id_in(claim.lease.job_id)))


_REQUEUE = (
    f"UPDATE {JOBS} SET status = 'QUEUED', worker_id = NULL, lease_token = NULL, claimed_at = NULL, metadata = NULL,"
    " data = %s, queue = %s, priority = %s"
)


def _payload(job: Job, claim: Claim) -> bytes:
    try:
        return payload(job)
    except CodecError:
        return claim.raw
