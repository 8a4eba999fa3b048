"""The pulse: once a second due jobs become ready, and cancels and pauses from outside arrive."""

import time

from ..stores.base import Pulse, WorkerStore
from .attempts import Attempts
from .demand import Demand
from .service import Pace, PeriodicService

INTERVAL = 1.0
"""Seconds between two pulses while something runs that could be cancelled, or ran lately and may be tried again."""

IDLE_INTERVAL = 2.0
"""Seconds between two pulses of an idle worker: a job that is put off by less than this may start so much late."""

IDLE_AFTER = 2.0
"""Seconds without an attempt after which a worker is idle: what is tried again later than that, a pulse has told."""

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
        self._begun = 0
        self._busy_until = float("-inf")

    async def tick(self) -> float | None:
        """One pulse; the next comes when the next job is due, at the latest after the interval."""
        pulse = await self.beat()
        if pulse.promoted >= LARGEST_PROMOTION:
            return 0.0
        interval = self._interval()
        if pulse.next_due_in is None:
            return interval
        return min(interval, max(SHORTEST, pulse.next_due_in))

    def _interval(self) -> float:
        begun, now = self._attempts.begun, time.monotonic()
        if self._attempts.flight or begun != self._begun:
            self._begun, self._busy_until = begun, now + IDLE_AFTER
        return INTERVAL if now < self._busy_until else IDLE_INTERVAL

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
