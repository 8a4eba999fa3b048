"""Gauges for a worker that serves metrics: its slots and connections, and the depth of its queues."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from .. import metrics
from ..stores.base import Connections, QueueCounts
from .service import Pace, PeriodicService

INTERVAL = 15.0


class Watched(Protocol):
    """What the gauges read of a worker; neither waits for anybody."""

    @property
    def slots(self) -> tuple[int, int]:
        """How many slots are busy, and how many are free."""
        ...

    @property
    def abandoned_threads(self) -> int:
        """How many threads that were given up still run."""
        ...

    @property
    def connections(self) -> Mapping[str, Connections]:
        """Connections by what they are for."""
        ...


class Gauges(PeriodicService):
    """Sets the gauges now and then; `counts` blocks and is called in a thread."""

    def __init__(
        self, counts: Callable[[], Sequence[QueueCounts]], queues: Sequence[str], watched: Watched, pace: Pace
    ) -> None:
        super().__init__(pace, INTERVAL)
        self._counts = counts
        self._queues = queues
        self._watched = watched
        self._opened: dict[str, int] = {}

    async def tick(self) -> float | None:
        """Read and set."""
        metrics.begin(self._queues)
        metrics.abandoned_threads.set(self._watched.abandoned_threads)
        for state, count in zip(("busy", "free"), self._watched.slots, strict=True):
            metrics.slots.labels(state).set(count)
        self._tell_connections()
        ready = {count.queue: count.ready for count in await asyncio.to_thread(self._read)}
        for queue in self._queues:
            metrics.queue_depth.labels(queue).set(ready.get(queue, 0))
        return None

    def _tell_connections(self) -> None:
        for use, known in self._watched.connections.items():
            metrics.connections.labels(use).set(known.open)
            metrics.connections_opened_total.labels(use).inc(known.opened - self._opened.get(use, 0))
            self._opened[use] = known.opened

    def _read(self) -> Sequence[QueueCounts]:
        from django.db import connections

        try:
            return self._counts()
        finally:
            connections.close_all()  # The thread belongs to nobody: its connection would stay open.
