"""The worker's side of the memory store."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...jobs.codec import encode
from ...jobs.model import Claim, Lease, Progress
from ...jobs.samples import Sample, spans_kept
from ...jobs.transitions import Settlement
from ..base import (
    Added,
    AddStatus,
    ClaimRequest,
    Connections,
    Exchange,
    Firing,
    Pulse,
    Purged,
    QueueCounts,
    Retention,
    WorkerInfo,
)
from .counting import counts
from .state import State
from .stored import Stored


class MemoryWorkerStore:
    """Claim, settle, keep leases, and everything else a worker does; see `WorkerStore` for each method."""

    parts = 1

    def __init__(self, state: State) -> None:
        self._state = state

    async def open(self) -> None:
        """See `WorkerStore.open`; there is nothing to connect."""

    async def close(self) -> None:
        """See `WorkerStore.close`; there is nothing to release."""

    async def now(self) -> float:
        """See `WorkerStore.now`."""
        return self._state.now()

    def connections(self) -> Mapping[str, Connections]:
        """See `WorkerStore.connections`; there is no server."""
        return {}

    # --- jobs ----------------------------------------------------------------------------------------------------

    async def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> Exchange:
        """See `WorkerStore.exchange`."""
        state = self._state
        with state.lock:
            refused = [item.claim.lease.token for item in settlements if not state.settle(item)]
            evicted = state.evict(state.dead_letter_cap)
            claims = self._claims(request) if request and state.lease_is_live(request.owner) else []
        return Exchange(claims=tuple(claims), refused=frozenset(refused), evicted=evicted)

    def _claims(self, request: ClaimRequest) -> list[Claim]:
        claims: list[Claim] = []
        for want in request.wants:
            if want.queue not in self._state.paused:
                limit = min(want.slots, request.limit - len(claims))
                claims.extend(self._state.claim(want.queue, limit, request.owner))
        return claims

    async def wait_for_jobs(self, queues: Sequence[str], timeout: float) -> bool:
        """See `WorkerStore.wait_for_jobs`."""
        state = self._state
        with state.lock:
            if any(state.ready[queue] or state.limits.due(queue) for queue in queues if queue not in state.paused):
                return True
            waiter = state.waiters.enter(queues)
        try:
            async with asyncio.timeout(timeout):
                return await waiter.event.wait()
        except TimeoutError:
            return False
        finally:
            with state.lock:
                state.waiters.leave(waiter)

    async def held(self, owner: str) -> tuple[Claim, ...]:
        """See `WorkerStore.held`."""
        with self._state.lock:
            return tuple(stored.claim() for stored in self._leased_to(owner))

    async def expired(self, limit: int) -> tuple[Claim, ...]:
        """See `WorkerStore.expired`."""
        state = self._state
        with state.lock:
            claims = [stored.claim() for stored in state.leased.values()]
            return tuple([claim for claim in claims if not state.lease_is_live(claim.lease.owner)][:limit])

    async def progress(self, lease: Lease, progress: Progress | None, metadata: Mapping[str, Any] | None) -> bool:
        """See `WorkerStore.progress`."""
        with self._state.lock:
            stored = self._state.leased.get(lease.token)
            if stored is None:
                return False
            if progress is not None:
                stored.progress = replace(progress, updated_at=self._state.now())
            if metadata is not None:
                stored.job = replace(stored.job, metadata=dict(metadata))
            return True

    async def pulse(self, owner: str, limit: int) -> Pulse:
        """See `WorkerStore.pulse`."""
        state = self._state
        with state.lock:
            promoted = state.promote(limit)
            times = [time for time in (state.scheduled.first(), state.limits.next_look()) if time is not None]
            return Pulse(
                cancelled=frozenset(
                    stored.claim().lease.token for stored in self._leased_to(owner) if stored.cancel_requested
                ),
                paused=frozenset(state.paused),
                promoted=promoted,
                next_due_in=max(0.0, min(times) - state.now()) if times else None,
            )

    def _leased_to(self, owner: str) -> list[Stored]:
        return [stored for stored in self._state.leased.values() if stored.claim().lease.owner == owner]

    # --- leases and roles ----------------------------------------------------------------------------------------

    def extend(self, owner: str, seconds: float) -> bool:
        """See `WorkerStore.extend`."""
        state = self._state
        with state.lock:
            was_live = state.lease_is_live(owner)
            state.leases[owner] = state.now() + seconds
            return was_live

    def release(self, owner: str) -> None:
        """See `WorkerStore.release`."""
        with self._state.lock:
            self._state.leases.pop(owner, None)
            self._state.workers.pop(owner, None)

    async def announce(self, info: WorkerInfo) -> None:
        """See `WorkerStore.announce`."""
        with self._state.lock:
            self._state.workers[info.incarnation] = replace(info, seen_at=self._state.now())

    async def hold(self, role: str, owner: str, seconds: float) -> bool:
        """See `WorkerStore.hold`."""
        state = self._state
        with state.lock:
            holder, until = state.roles.get(role, (owner, 0.0))
            if holder != owner and until > state.now():
                return False
            state.roles[role] = (owner, state.now() + seconds)
            return True

    # --- samples -------------------------------------------------------------------------------------------------

    async def glance(self) -> list[QueueCounts]:
        """See `WorkerStore.glance`."""
        return counts(self._state)

    async def record(self, owner: str, span: int, samples: Sequence[Sample]) -> None:
        """See `WorkerStore.record`."""
        state = self._state
        with state.lock:
            kept = spans_kept(state.now())
            for key in [key for key in state.samples if key[0] not in kept]:
                del state.samples[key]
            state.samples[span, owner] = tuple(samples)

    # --- schedule ------------------------------------------------------------------------------------------------

    async def last_slots(self, entries: Sequence[str]) -> Mapping[str, float]:
        """See `WorkerStore.last_slots`."""
        with self._state.lock:
            return {entry: self._state.slots[entry] for entry in entries if entry in self._state.slots}

    async def fire(self, firing: Firing) -> Added | None:
        """See `WorkerStore.fire`."""
        state = self._state
        with state.lock:
            if state.slots.get(firing.entry) != firing.expected:
                return None
            added = Added(status=AddStatus.ADDED, job_id=None)
            if firing.job:
                added = state.add(firing.job, encode(firing.job, compress=False))
            state.slots[firing.entry] = firing.slot
            return added

    # --- cleaning ------------------------------------------------------------------------------------------------

    async def purge(self, retention: Retention, limit: int) -> Purged:
        """See `WorkerStore.purge`."""
        with self._state.lock:
            self._state.limits.forget_rates()
            return Purged(
                results=self._purge_results(limit),
                dead_letters=self._purge_letters(retention, limit),
                workers=self._purge_workers(limit),
            )

    def _purge_results(self, limit: int) -> int:
        state = self._state
        over = [job_id for job_id, kept in state.results.items() if kept.until <= state.now()][:limit]
        for job_id in over:
            del state.results[job_id]
        return len(over)

    def _purge_letters(self, retention: Retention, limit: int) -> int:
        state = self._state
        evicted = state.evict(retention.dead_letter_cap, limit)
        if retention.dead_letter_age is None:
            return evicted
        horizon = state.now() - retention.dead_letter_age
        old = [job_id for job_id, record in state.letters.items() if (record.finished_at or 0.0) < horizon]
        for job_id in old[: limit - evicted]:
            del state.letters[job_id]
        return evicted + len(old[: limit - evicted])

    def _purge_workers(self, limit: int) -> int:
        state = self._state
        holding = {stored.claim().lease.owner for stored in state.leased.values()}
        dead = {*state.leases, *state.workers} - holding
        gone = [owner for owner in sorted(dead) if not state.lease_is_live(owner)][:limit]
        for owner in gone:
            state.leases.pop(owner, None)
            state.workers.pop(owner, None)
        return len(gone)
