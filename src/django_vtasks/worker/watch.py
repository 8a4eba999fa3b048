"""One pending `wait_for_jobs`: it outlives many turns of the consumer, because cancelling it costs a connection."""

import asyncio
import time
from collections.abc import Callable, Sequence

from ..stores.base import WorkerStore
from .service import OUTAGES, Pace

WAIT = 10.0
"""Seconds that one `wait_for_jobs` takes at most; the queues are asked at the end of it whatever it says."""

SLACK = 30.0
"""Seconds beyond that after which a wait is given up, should a store break its promise to return."""


class Watch:
    """Waits for jobs beside the consumer and rings when there may be some. Failures make it poll instead."""

    def __init__(self, store: WorkerStore, pace: Pace, ring: Callable[[], None], seconds: float = WAIT) -> None:
        self._store = store
        self._pace = pace
        self._ring = ring
        self._seconds = seconds
        self._task: asyncio.Task[bool] | None = None
        self._queues: frozenset[str] = frozenset()
        self._since = 0.0
        self._not_before = 0.0
        self.woken = False

    def take_news(self) -> bool:
        """Whether the queues are to be asked, because a wait has ended since the last call; `woken` says how."""
        task = self._task
        if task is None or not task.done():
            return False
        self._task = None
        try:
            self.woken = task.result()
        except OUTAGES as error:
            self.woken = False
            self._not_before = time.monotonic() + self._pace.failed(error)
        else:
            self._pace.turned()
        return True

    def keep_open(self, queues: Sequence[str]) -> float:
        """See to it that these queues are waited for; returns for how many seconds the consumer may sleep."""
        now = time.monotonic()
        if self._task is not None and not self._fits(queues, now):
            self.close()
        if not queues:
            # Health must not mind a wait that failed and is not needed.
            self._pace.turned()
            return WAIT
        if self._task is None:
            if now < self._not_before:
                return self._not_before - now
            self._open(queues, now)
        return WAIT + SLACK

    def hold_off(self, seconds: float) -> None:
        """Open no new wait for so long."""
        self._not_before = max(self._not_before, time.monotonic() + seconds)

    def close(self) -> None:
        """End the wait."""
        if self._task is not None:
            self._task.add_done_callback(_look_away)
            self._task.cancel()
            self._task = None

    async def closed(self) -> None:
        """End the wait and let the store clean up after it."""
        task = self._task
        self.close()
        if task is not None:
            await asyncio.wait([task], timeout=1.0)

    def rest(self) -> None:
        """Nothing to wait for in this turn; a wait that is open stays so. Health is not to mind."""
        if self._pace.down_since is None:
            self._pace.turned()

    def _fits(self, queues: Sequence[str], now: float) -> bool:
        return self._queues.issuperset(queues) and now - self._since < WAIT + SLACK

    def _open(self, queues: Sequence[str], now: float) -> None:
        self._queues = frozenset(queues)
        self._since = now
        self._task = asyncio.create_task(self._wait(queues), name="vtasks wait")

    async def _wait(self, queues: Sequence[str]) -> bool:
        # Rings itself, a turn of the loop before a callback could; when the consumer wakes, the task is done.
        try:
            woken = await self._store.wait_for_jobs(queues, self._seconds)
        except Exception:
            self._ring()
            raise
        self._ring()
        return woken


def _look_away(task: asyncio.Task[bool]) -> None:
    if not task.cancelled():
        task.exception()
