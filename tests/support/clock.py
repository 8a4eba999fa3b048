"""A clock that tests turn by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading

START = 1_700_000_000.0


class FakeClock:
    """Epoch seconds that pass only in `advance`, which also wakes the coroutines that `sleep` on this clock."""

    def __init__(self, start: float = START) -> None:
        self._now = start
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.AbstractEventLoop, asyncio.Event]] = []

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> float:
        """Let time pass; returns what time it is then."""
        if seconds < 0:
            raise ValueError("a clock does not go back: make a second one to test a jump")
        with self._lock:
            self._now += seconds
            while self._sleepers and self._sleepers[0][0] <= self._now:
                _, _, loop, event = heapq.heappop(self._sleepers)
                loop.call_soon_threadsafe(event.set)
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Return when the clock was advanced by that much."""
        if seconds <= 0:
            return
        event = asyncio.Event()
        with self._lock:
            until = self._now + seconds
            heapq.heappush(self._sleepers, (until, next(self._numbers), asyncio.get_running_loop(), event))
        await event.wait()

    @property
    def sleepers(self) -> int:
        """How many coroutines wait for this clock."""
        return len(self._sleepers)
