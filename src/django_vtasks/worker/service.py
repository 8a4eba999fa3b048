"""What a service is, how it lives through an outage of the store, and how all of them are supervised."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from ..events import Emitter, StoreOutage, StoreRecovered
from ..jobs.errors import StoreRefused, StoreUnavailable

logger = logging.getLogger("django_vtasks.worker")

OUTAGES = (StoreUnavailable, StoreRefused)
"""What a service sits out: the store is away, full or read-only. Anything else is a defect and ends the service."""

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Service(Protocol):
    """A loop that the worker runs."""

    @property
    def name(self) -> str:
        """What logs, health and metrics call it."""
        ...

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        ...


class Pace:
    """How one service fares: when it last got through its loop, and how long to wait while the store is away.

    Written by the service, read by health from other threads. Times are of the monotonic clock. It is expected to
    turn every `expected` seconds; `patience` is how much later it may come, and how long the store may be away.
    """

    def __init__(self, name: str, emitter: Emitter, *, expected: float = 10.0, patience: float = 30.0) -> None:
        self.name = name
        self.expected = expected
        self.patience = patience
        self.turned_at = time.monotonic()
        self.down_since: float | None = None
        self.restarts = 0
        self.crashed: BaseException | None = None
        self._emitter = emitter
        self._attempt = 0

    def turned(self) -> None:
        """The loop came round, with the store if it needed it."""
        self.turned_at = time.monotonic()
        self.crashed = None
        if self.down_since is not None:
            self._recovered()

    def failed(self, error: BaseException, at_most: float = LONGEST_PAUSE) -> float:
        """The store could not be used; returns how many seconds to wait before the next try, `at_most` so many."""
        if self.down_since is None:
            self.down_since = time.monotonic()
        self._attempt += 1
        ceiling = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._attempt, 10))
        pause: float = min(ceiling * random.uniform(0.5, 1.0), at_most)
        self._emitter.emit(StoreOutage(service=self.name, error=error, attempt=self._attempt, pause=pause))
        return pause

    def _recovered(self) -> None:
        seconds = time.monotonic() - (self.down_since or 0.0)
        self.down_since = None
        self._attempt = 0
        self._emitter.emit(StoreRecovered(service=self.name, seconds=seconds))


class PeriodicService:
    """Calls `tick` again and again. A subclass says what a tick does; outages and pauses are handled here."""

    def __init__(self, pace: Pace, interval: float, *, first_after: float = 0.0) -> None:
        self.pace = pace
        self.interval = interval
        self.first_after = first_after
        pace.expected = max(interval, first_after)

    @property
    def name(self) -> str:
        """The name under which it reports."""
        return self.pace.name

    async def tick(self) -> float | None:
        """One turn; returns in how many seconds the next is due, None for the usual interval."""
        raise NotImplementedError

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until `stop` is set."""
        await unless_stopped(stop, self.first_after)
        while not stop.is_set():
            await unless_stopped(stop, await self._turn())

    async def _turn(self) -> float:
        try:
            due_in = await self.tick()
        except OUTAGES as error:
            return self.pace.failed(error)
        self.pace.turned()
        return self.interval * random.uniform(0.95, 1.05) if due_in is None else due_in


async def unless_stopped(stop: asyncio.Event, seconds: float) -> None:
    """Wait `seconds`, or until `stop` is set; others have a turn in any case."""
    if seconds <= 0 or stop.is_set():
        await asyncio.sleep(0)
        return
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass


class WhenCrashed(StrEnum):
    """What becomes of the worker when one of its services ends with an unexpected error."""

    END = "end"
    RESTART = "restart"


class ServiceCrashed(Exception):
    """Raised when a service ended with an error that is no outage of the store; the cause is that error."""


class Supervisor:
    """Runs services and watches over them: the only place that decides what an unexpected error means."""

    def __init__(self, on_crash: Callable[[], None]) -> None:
        self.when_crashed = WhenCrashed.END
        self.crash: BaseException | None = None
        self._on_crash = on_crash
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, service: Service, pace: Pace, stop: asyncio.Event) -> asyncio.Task[None]:
        """Run a service until `stop` is set; returns the task that runs it."""
        task = asyncio.create_task(self._watch(service, pace, stop), name=f"vtasks {service.name}")
        self._tasks.append(task)
        return task

    async def join(self, seconds: float) -> None:
        """Wait for the services to end, and cancel those that have not after `seconds`."""
        pending = [task for task in self._tasks if not task.done()]
        if pending:
            _, pending_now = await asyncio.wait(pending, timeout=seconds)
            for task in pending_now:
                task.cancel()
            await asyncio.gather(*pending_now, return_exceptions=True)

    def fail(self, name: str, error: BaseException) -> None:
        """Something that is no service of the event loop, such as the lease thread, ended with an error."""
        logger.critical("%s ended with an unexpected error", name, exc_info=error)
        if self.crash is None:
            self.crash = error
        self._on_crash()

    async def _watch(self, service: Service, pace: Pace, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await service.run(stop)
            except Exception as error:
                pace.crashed = error
                if self.when_crashed is WhenCrashed.END:
                    self.fail(service.name, error)
                    return
                logger.exception("%s ended with an unexpected error and is started again", service.name)
                pace.restarts += 1
                await unless_stopped(stop, min(30.0, 2.0 ** min(pace.restarts, 5) * random.uniform(0.5, 1.0)))
            else:
                if not stop.is_set():
                    self.fail(service.name, RuntimeError(f"{service.name} ended although nobody asked it to"))
                return
