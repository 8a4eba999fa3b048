"""Gauges for a worker that serves metrics: its slots, and the depth of its queues."""

import asyncio
from collections.abc import Callable, Sequence

from .. import metrics
from ..stores.base import QueueCounts
from .service import Pace, PeriodicService
from .slots import Slots

INTERVAL = 15.0


class Gauges(PeriodicService):
    """Sets the gauges now and then; `counts` blocks and is called in a thread.

    `abandoned` tells how many threads that were given up still run.
    """

    def __init__(
        self,
        counts: Callable[[], Sequence[QueueCounts]],
        queues: Sequence[str],
        slots: Slots,
        abandoned: Callable[[], int],
        pace: Pace,
    ) -> None:
        super().__init__(pace, INTERVAL)
        self._abandoned = abandoned
        self._counts = counts
        self._queues = queues
        self._slots = slots

    async def tick(self) -> float | None:
        """Read and set."""
        metrics.begin(self._queues)
        metrics.abandoned_threads.set(self._abandoned())
        metrics.slots.labels("busy").set(self._slots.taken)
        metrics.slots.labels("free").set(self._slots.free)
        ready = {count.queue: count.ready for count in await asyncio.to_thread(self._read)}
        for queue in self._queues:
            metrics.queue_depth.labels(queue).set(ready.get(queue, 0))
        return None

    def _read(self) -> Sequence[QueueCounts]:
        from django.db import connections

        try:
            return self._counts()
        finally:
            connections.close_all()  # The thread belongs to nobody: its connection would stay open.
