"""Waking the event loops that wait for jobs, from whichever thread a job arrives in."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class Waiter:
    """One coroutine that waits for a job in one of its queues."""

    queues: frozenset[str]
    loop: asyncio.AbstractEventLoop
    event: asyncio.Event = field(default_factory=asyncio.Event)


class Waiters:
    """Owns the waiting coroutines. The caller holds the store's lock for every call."""

    def __init__(self) -> None:
        self._waiters: set[Waiter] = set()

    def enter(self, queues: Iterable[str]) -> Waiter:
        """Begin to wait in the running event loop."""
        waiter = Waiter(frozenset(queues), asyncio.get_running_loop())
        self._waiters.add(waiter)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """End a wait."""
        self._waiters.discard(waiter)

    def wake(self, queue: str) -> None:
        """Wake who waits for this queue."""
        for waiter in self._waiters:
            if queue in waiter.queues and not waiter.loop.is_closed():
                waiter.loop.call_soon_threadsafe(waiter.event.set)
