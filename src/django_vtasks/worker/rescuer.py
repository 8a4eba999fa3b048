"""The rescuer: what an expired lease covered is decided here, like any other outcome."""

import logging
from collections.abc import Callable, Sequence

from ..events import Emitter, JobRescued, LetterBuried, LettersEvicted
from ..jobs.errors import StoreUnavailable
from ..jobs.model import Claim
from ..jobs.outcomes import LeaseExpired
from ..jobs.transitions import Bury, Policy, Settlement, decide
from ..stores.base import Exchange, WorkerStore
from .leases import LeaseKeeper
from .service import Pace, PeriodicService
from .tally import Tally

logger = logging.getLogger("django_vtasks.worker")

LARGEST_CHUNK = 500


class Rescuer(PeriodicService):
    """Decides about jobs whose lease ran out, whoever had it.

    It holds back while this worker has not had its own lease for a full term without a gap: after an outage of the
    store every lease of the fleet has run out, and their holders need the time to renew. A worker that got its lease
    at the first try has seen no outage and rescues at once.
    """

    def __init__(
        self,
        store: WorkerStore,
        keeper: LeaseKeeper,
        policy_of: Callable[[Claim], Policy],
        emitter: Emitter,
        pace: Pace,
        interval: float,
    ) -> None:
        super().__init__(pace, interval)
        self.tally = Tally()
        self._store = store
        self._keeper = keeper
        self._policy_of = policy_of
        self._emitter = emitter

    async def tick(self) -> float | None:
        """Rescue everything that can be rescued now."""
        wait = self._wait_for_others()
        if wait > 0:
            return min(wait, self.interval)
        while await self._rescue_some():
            self.pace.turned()
        return None

    def _wait_for_others(self) -> float:
        if not self._keeper.held:
            return 0.1
        return 0.0 if self._keeper.losses == 0 else self._keeper.seconds - self._keeper.held_for()

    async def _rescue_some(self) -> bool:
        """Rescue one chunk; returns whether there may be more."""
        claims = await self._store.expired(LARGEST_CHUNK)
        others = [claim for claim in claims if claim.lease.owner != self._keeper.owner]
        if not others:
            return False
        at = await self._store.now()
        # A server that hung answers late, and every lease of the fleet has run out by then.
        if self._wait_for_others() > 0:
            return False
        settlements = [self._decided(claim, at) for claim in others]
        try:
            written = self._tell(settlements, await self._store.exchange(settlements, None))
        except StoreUnavailable:
            raise
        except Exception:
            written = await self._rescue_each(settlements)
        return written > 0 and len(claims) >= LARGEST_CHUNK

    async def _rescue_each(self, settlements: Sequence[Settlement]) -> int:
        """One of them cannot be stored: it must not keep the others from being rescued."""
        written, errors = 0, []
        for settlement in settlements:
            try:
                written += self._tell([settlement], await self._store.exchange([settlement], None))
            except StoreUnavailable:
                raise
            except Exception as error:
                errors.append(error)
                logger.error("The job %s cannot be rescued: %s", settlement.claim.lease.job_id, error)
        if errors and not written:
            raise errors[0]
        return written

    def _decided(self, claim: Claim, at: float) -> Settlement:
        outcome = LeaseExpired(owner=claim.lease.owner)
        decision = decide(claim, outcome, self._policy_of(claim), max(at, claim.started_at))
        return Settlement(claim=claim, decision=decision, reclaim=True)

    def _tell(self, settlements: Sequence[Settlement], exchange: Exchange) -> int:
        written = [s for s in settlements if s.claim.lease.token not in exchange.refused]
        for settlement in written:
            self.tally.decided(settlement.claim.queue, settlement.decision)
            self._emitter.emit(JobRescued(claim=settlement.claim, decision=settlement.decision))
            if isinstance(settlement.decision, Bury):
                self._emitter.emit(LetterBuried(letter=settlement.decision.letter))
        if exchange.evicted:
            self._emitter.emit(LettersEvicted(count=exchange.evicted))
        return len(written)
