"""The cleaner: nothing a store keeps grows for ever."""

from ..events import Emitter, LettersEvicted
from ..stores.base import Retention, WorkerStore
from .service import Pace, PeriodicService

INTERVAL = 60.0
LARGEST_BATCH = 1000


class Cleaner(PeriodicService):
    """Removes results past their time, dead letters beyond the retention, and traces of dead workers."""

    def __init__(self, store: WorkerStore, retention: Retention, emitter: Emitter, pace: Pace) -> None:
        super().__init__(pace, INTERVAL, first_after=5.0)
        self._store = store
        self._retention = retention
        self._emitter = emitter

    async def tick(self) -> float | None:
        """Remove one batch; a full one is followed by the next at once, so that other services have their turn."""
        purged = await self._store.purge(self._retention, LARGEST_BATCH)
        if purged.dead_letters:
            self._emitter.emit(LettersEvicted(count=purged.dead_letters))
        full = LARGEST_BATCH in (purged.results, purged.dead_letters, purged.workers)
        return 0.05 if full else None
