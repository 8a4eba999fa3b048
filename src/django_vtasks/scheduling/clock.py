"""The store's clock, asked now and then and carried on by the monotonic clock in between."""

import time
from collections.abc import Callable

from ..stores.base import WorkerStore

STEP = 1.0
"""Seconds by which the store's clock must be off the expected to have been set."""


class StoreClock:
    """Tells the store's time without a round trip for each look; never ahead of it, unless it is put back.

    `steps` counts how often the store's clock was found to have been set.
    """

    def __init__(
        self, store: WorkerStore, *, every: float = 5.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._every = every
        self._monotonic = monotonic
        self.steps = 0
        self._told = 0.0
        self._asked_at: float | None = None

    async def read(self) -> float:
        """The store's time, in epoch seconds; asks the store when the last answer is older than `every` seconds."""
        if self._asked_at is None or self._monotonic() - self._asked_at >= self._every:
            told = await self._store.now()
            if self._asked_at is not None and abs(told - self.estimate()) > STEP:
                self.steps += 1
            self._told, self._asked_at = told, self._monotonic()
        return self.estimate()

    def estimate(self) -> float:
        """The store's time as far as known."""
        return self._told + self._monotonic() - (self._asked_at or 0.0)
