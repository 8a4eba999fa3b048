"""The announcer: tells operators that this worker is here and what it does."""

from collections.abc import Callable

from ..stores.base import WorkerInfo, WorkerStore
from .leases import LeaseKeeper
from .service import Pace, PeriodicService


class Announcer(PeriodicService):
    """Publishes what the worker says of itself, as long as it has its lease."""

    def __init__(
        self, store: WorkerStore, keeper: LeaseKeeper, info: Callable[[], WorkerInfo], pace: Pace, interval: float
    ) -> None:
        super().__init__(pace, interval)
        self._store = store
        self._keeper = keeper
        self._info = info

    async def tick(self) -> float | None:
        """Publish once; while the lease is not held there is nothing that it could vanish with."""
        if not self._keeper.held:
            return min(0.5, self.interval)
        await self._store.announce(self._info())
        return None
