"""Settling one by one after a round failed, so that an outcome the store cannot take holds up nothing else."""

import time
from collections.abc import Sequence
from dataclasses import replace

from ..jobs.errors import QueueError, StoreRefused, StoreUnavailable
from ..jobs.model import Failure
from ..jobs.outcomes import Raised
from ..jobs.transitions import Policy, Settlement, decide
from ..stores.base import WorkerStore
from .leases import LeaseKeeper
from .settler import Settler

UNSTORABLE = (QueueError, ValueError, TypeError, OverflowError)
"""Errors that a value can cause; others are defects of the code, whatever is stored."""


class Isolation:
    """Tells an outcome that cannot be stored from a store that takes nothing, and buries the job of the former."""

    def __init__(self, store: WorkerStore, settler: Settler, keeper: LeaseKeeper) -> None:
        self._store = store
        self._settler = settler
        self._keeper = keeper
        self._refused_at: dict[str, float] = {}
        #: Tokens of outcomes that the store did not take while it took others.
        self._convicted: set[str] = set()

    async def settle_each(self, settlements: Sequence[Settlement], error: Exception) -> None:
        """Settle each by itself. Raises `error` when that shows that the trouble is with the store; what is not
        written is put back, however this ends."""
        left = {settlement.claim.lease.token: settlement for settlement in settlements}
        try:
            failed = await self._settle_all(left)
            if len(failed) < len(settlements):
                self._convicted.update(settlement.claim.lease.token for settlement, _ in failed)
            for settlement, refusal in failed:
                if not self._is_unstorable(settlement, refusal, alone=len(failed) == 1):
                    raise error
                await self._bury(settlement, refusal)
                del left[settlement.claim.lease.token]
        finally:
            if left:
                self._settler.put_back(list(left.values()))

    async def _settle_all(self, left: dict[str, Settlement]) -> list[tuple[Settlement, Exception]]:
        """Settle each alone and take it out of `left`; returns those that the store did not take, with its reasons."""
        failed: list[tuple[Settlement, Exception]] = []
        for token, settlement in list(left.items()):
            try:
                await self._settle(settlement)
            except StoreUnavailable:
                raise
            except Exception as alone:
                failed.append((settlement, alone))
            else:
                del left[token]
        return failed

    async def _settle(self, settlement: Settlement) -> None:
        self._settler.written([settlement], await self._store.exchange([settlement], None))
        self._refused_at.pop(settlement.claim.lease.token, None)
        self._convicted.discard(settlement.claim.lease.token)

    def _is_unstorable(self, settlement: Settlement, error: Exception, *, alone: bool) -> bool:
        """Whether it is this outcome that cannot be stored; a store that renews leases takes what it can take."""
        if settlement.claim.lease.token in self._convicted:
            return True
        if not isinstance(error, StoreRefused):
            return alone and isinstance(error, UNSTORABLE)
        since = self._refused_at.setdefault(settlement.claim.lease.token, time.monotonic())
        return self._keeper.pace.turned_at > since

    async def _bury(self, settlement: Settlement, error: Exception) -> None:
        claim = settlement.claim
        kind = type(error)
        failure = Failure(
            exception_class=f"{kind.__module__}.{kind.__qualname__}",
            message=f"The outcome could not be stored: {error}"[:1000].encode("utf-8", "replace").decode(),
            fingerprint=f"{claim.job.func if claim.job else ''}:{kind.__qualname__}",
        )
        at = max(time.time(), claim.started_at)
        decision = decide(claim, Raised(failure=failure), Policy(max_attempts=1), at)
        await self._settle(replace(settlement, decision=decision))
