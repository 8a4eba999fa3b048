"""Finds the queues that there are, for a worker that serves all of them on an alias that takes any queue name."""

import logging
from collections.abc import Callable

from ..stores.base import WorkerStore
from .demand import Demand
from .service import Pace, PeriodicService

INTERVAL = 5.0

logger = logging.getLogger("django_vtasks.worker")


class Finder(PeriodicService):
    """Adds each queue that has jobs to those that are served. `known` are their names; new ones are appended."""

    def __init__(
        self, store: WorkerStore, demand: Demand, known: list[str], ring: Callable[[], None], pace: Pace
    ) -> None:
        super().__init__(pace, INTERVAL)
        self._store = store
        self._demand = demand
        self._known = known
        self._ring = ring

    async def tick(self) -> float | None:
        """Look once."""
        await self.look()
        return None

    async def look(self) -> bool:
        """Serve the queues that are new; returns whether there were any. Raises StoreUnavailable."""
        counts = await self._store.glance()
        found = [count.queue for count in counts if count.queue not in self._known]
        for queue in found:
            logger.info("The queue %s is served as well from now on", queue)
            self._known.append(queue)
            self._demand.serve(queue)
        if found:
            self._ring()
        return bool(found)
