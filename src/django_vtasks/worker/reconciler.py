"""Compares what the store says this worker has with what it is doing, in both directions."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..jobs.model import Claim
from ..stores.base import WorkerStore
from .leases import LeaseKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """`unknown`: claims of ours that nobody here works on, as after a lost reply. `lost`: tokens that are worked on
    here although the lease is somebody else's by now. `losses` is what the keeper had counted before it was asked."""

    unknown: tuple[Claim, ...] = ()
    lost: frozenset[str] = frozenset()
    losses: int = 0


class Reconciler:
    """Knows when to compare: now and then, and at once when there is reason to doubt.

    `compare` may run only while no exchange is under way, since that one moves claims.
    """

    def __init__(self, store: WorkerStore, keeper: LeaseKeeper, *, interval: float) -> None:
        self._store = store
        self._keeper = keeper
        self._interval = interval
        self._losses = keeper.losses
        self._due_at = time.monotonic() + interval
        self._again = False

    def doubt(self) -> None:
        """A reply was lost, or the lease ran out: compare soon, and once more later.

        The second time is for a request that a hanging server answers after the first comparison.
        """
        self._due_at = 0.0
        self._again = True

    @property
    def certain(self) -> bool:
        """Whether what is worked on here is surely this worker's: the lease had no gap since that was compared.

        May be asked in any thread. What was claimed before a gap may be somebody else's by now.
        """
        return self._keeper.held_since_loss(self._losses)

    def confirm(self, found: Differences) -> None:
        """What was lost is given up: the rest is this worker's."""
        self._losses = found.losses

    @property
    def due(self) -> bool:
        """Whether it is time to compare."""
        return time.monotonic() >= self._due_at

    async def compare(self, working_on: Callable[[], set[str]], running: Callable[[], set[str]]) -> Differences:
        """Ask the store; `working_on` are all tokens this worker knows, `running` those it would have to give up."""
        # Before the answer, so that a doubt raised meanwhile counts.
        self._due_at = time.monotonic() + (min(self._interval, 10.0) if self._again else self._interval)
        self._again = False
        losses = self._keeper.losses
        try:
            held = await self._store.held(self._keeper.owner)
        except BaseException:
            self.doubt()
            raise
        known = working_on()
        tokens = {claim.lease.token for claim in held}
        return Differences(
            unknown=tuple(claim for claim in held if claim.lease.token not in known),
            lost=frozenset(running() - tokens),
            losses=losses,
        )
