"""The pulse: once a second due jobs become ready, and cancels and pauses from outside arrive."""

from ..stores.base import Pulse, WorkerStore
from .attempts import Attempts
from .demand import Demand
from .service import Pace, PeriodicService

INTERVAL = 1.0
"""Seconds between two pulses while something runs that could be cancelled."""

IDLE_INTERVAL = 2.0
"""Seconds between two pulses while nothing runs: a job that is put off by less than this may start so much late."""

SHORTEST = 0.02
LARGEST_PROMOTION = 500


class Promoter(PeriodicService):
    """Moves due jobs to their queue, tells running attempts that they are cancelled, leaves out paused queues."""

    def __init__(self, store: WorkerStore, owner: str, attempts: Attempts, demand: Demand, pace: Pace) -> None:
        super().__init__(pace, INTERVAL)
        self._store = store
        self._owner = owner
        self._attempts = attempts
        self._demand = demand

    async def tick(self) -> float | None:
        """One pulse; the next comes when the next job is due, at the latest after the interval."""
        pulse = await self.beat()
        if pulse.promoted >= LARGEST_PROMOTION:
            return 0.0
        interval = INTERVAL if self._attempts.flight else IDLE_INTERVAL
        if pulse.next_due_in is None:
            return interval
        return min(interval, max(SHORTEST, pulse.next_due_in))

    async def beat(self) -> Pulse:
        """One pulse, at once."""
        pulse = await self._store.pulse(self._owner, LARGEST_PROMOTION)
        if pulse.cancelled:
            self._attempts.cancel(pulse.cancelled)
        resumed = self._demand.pause(pulse.paused)
        if resumed or pulse.promoted:
            self._demand.refresh()
            self._attempts.wakeup.ring()
        return pulse
