"""One run of a worker: wires the services together, starts them, and brings everything to an end."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..conf import WorkerConfig
from ..events import Emitter
from ..execution.environment import MayBegin
from ..jobs.model import Claim
from ..jobs.transitions import Policy
from ..stores.base import WorkerInfo, WorkerStore
from .announcer import Announcer
from .attempts import Attempts, Executing
from .batching import collectors_of
from .cleaner import Cleaner
from .consumer import Consumer
from .demand import Demand
from .finder import Finder
from .leases import LeaseKeeper
from .promoter import Promoter
from .reconciler import Reconciler
from .reports import Report, Reports
from .rescuer import Rescuer
from .sampler import Sampler
from .service import OUTAGES, Pace, PeriodicService, Service, ServiceCrashed, Supervisor, WhenCrashed, unless_stopped
from .settler import Settler
from .slots import Slots, turns_of
from .watch import WAIT, Watch

logger = logging.getLogger("django_vtasks.worker")

INTERRUPT_GRACE = 0.8
"""Seconds that interrupted attempts have to end by themselves."""

SETTLE_GRACE = 0.4
"""Seconds that the last settlements have to be written."""

CLOSE_GRACE = 0.2
"""Seconds that threads have to end when nothing is left to do for them."""

RECONCILE_INTERVAL = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """When a run ends by itself: when nothing is due (`drain`), or after so many jobs (`max_jobs`). `interval` is the
    longest time in seconds between two looks at the queues."""

    drain: bool = False
    max_jobs: int | None = None
    interval: float | None = None


class Parts(NamedTuple):
    """What a further service is made of."""

    store: WorkerStore
    owner: str
    emitter: Emitter
    pace: Pace


type MakeService = Callable[[Parts], Service]

type MakeExecutor = Callable[[Report, MayBegin], Executing]
"""Makes the executor; given are where reports go, and whether what waits for its start may still begin."""


def new_incarnation(worker_id: str) -> str:
    """The name under which one run of a worker has its lease: two workers with one id are two workers."""
    return f"{worker_id}:{os.urandom(6).hex()}"


class Runtime:
    """Owns the services of one run. `run` returns when stopped, and raises ServiceCrashed when one of them crashed."""

    def __init__(
        self,
        config: WorkerConfig,
        store: WorkerStore,
        make_executor: MakeExecutor,
        policy_of: Callable[[Claim], Policy],
        emitter: Emitter,
        limits: RunLimits,
    ) -> None:
        self.config = config
        self.store = store
        self.owner = new_incarnation(config.worker_id)
        self.started_at = time.time()
        self.pid = os.getpid()
        self.queues = list(config.queue_names)
        self.paces: list[Pace] = []
        self._emitter = emitter
        self._limits = limits
        self._policy_of = policy_of
        self._makers: list[tuple[str, MakeService]] = []
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._end = asyncio.Event()
        self._wire(make_executor)

    @property
    def when_crashed(self) -> WhenCrashed:
        """What an unexpected error in a service means for the run."""
        return self._supervisor.when_crashed

    @when_crashed.setter
    def when_crashed(self, value: WhenCrashed) -> None:
        self._supervisor.when_crashed = value

    def add_service(self, name: str, make: MakeService) -> None:
        """Run a further service beside the worker's own."""
        self._makers.append((name, make))

    def stop(self) -> None:
        """Claim nothing more and end when what runs is finished, at the latest after the shutdown timeout."""
        self._stop.set()

    def stop_at_once(self) -> None:
        """End now, and hand back what runs."""
        self._stop.set()
        self._hurry.set()

    @property
    def stopping(self) -> bool:
        """Whether the run is asked to end."""
        return self._stop.is_set()

    def info(self) -> WorkerInfo:
        """What this worker says of itself."""
        return WorkerInfo(
            incarnation=self.owner,
            worker_id=self.config.worker_id,
            host=socket.gethostname(),
            pid=self.pid,
            version=_version(),
            queues=tuple(self.queues),
            concurrency=self.config.concurrency,
            started_at=self.started_at,
            running=self.attempts.slots.taken,
        )

    async def run(self) -> None:
        """Work until stopped."""
        try:
            if await self._opened():
                consuming = self._start()
                await self._stop.wait()
                self.attempts.executor.request_shutdown()
                await self._finish(consuming)
        finally:
            await self._close()
        if self._supervisor.crash is not None:
            raise ServiceCrashed("a service of the worker crashed, see the log") from self._supervisor.crash

    # --- wiring --------------------------------------------------------------------------------------------------

    def _pace(self, name: str) -> Pace:
        pace = Pace(name, self._emitter)
        self.paces.append(pace)
        return pace

    def _wire(self, make_executor: MakeExecutor) -> None:
        config = self.config
        batches = collectors_of(config.queues)
        slots = Slots(config.concurrency, {q.name: q.concurrency for q in config.queues if q.concurrency is not None})
        turns = turns_of(config)
        self.settler = Settler(self.owner, self._emitter)
        self.reports = Reports(self.store, self._pace("reports"), self._doubt)
        self.keeper = LeaseKeeper(
            self.store,
            self.owner,
            seconds=config.lease_seconds,
            every=config.heartbeat_interval,
            pace=self._pace("lease"),
            emitter=self._emitter,
        )
        self.reconciler = Reconciler(self.store, self.keeper, interval=RECONCILE_INTERVAL)
        self.attempts = Attempts(
            make_executor(self.reports.put, lambda: self.reconciler.certain),
            self.settler,
            slots,
            {collector.queue: collector for collector in batches},
            self._policy_of,
            self._emitter,
        )
        self.demand = Demand(slots, turns, batches, self._limits.max_jobs, parts=self.store.parts)
        self._supervisor = Supervisor(self._stop.set)

    def _doubt(self) -> None:
        self.reconciler.doubt()
        self.attempts.wakeup.ring()

    def _consumer(self, promoter: Promoter, finder: Finder | None) -> Consumer:
        consumer = Consumer(self.store, self.keeper, self.demand, self.attempts, self.settler, self.reconciler)
        wait = WAIT if self._limits.interval is None else min(WAIT, max(0.01, self._limits.interval))
        watch = Watch(self.store, self._pace("wait"), self.attempts.wakeup.ring, wait)
        consumer.accompany(self._pace("consumer"), watch, self.reports)
        if self._limits.drain:

            async def more_is_due() -> bool:
                found = finder is not None and await finder.look()
                return bool((await promoter.beat()).promoted) or found

            consumer.on_dry = more_is_due
        return consumer

    def _finder(self) -> Finder:
        return Finder(self.store, self.demand, self.queues, self.attempts.wakeup.ring, self._pace("finder"))

    def _periodic(self, promoter: Promoter) -> list[PeriodicService]:
        services: list[PeriodicService] = [
            promoter,
            self.reports,
            Cleaner(self.store, self.config.retention, self._emitter, self._pace("cleaner")),
            Announcer(
                self.store,
                self.keeper,
                self.info,
                self._pace("announcer"),
                max(1.0, 2 * self.config.heartbeat_interval),
            ),
            Sampler(self.store, self.owner, self.queues, self.attempts.tally, self._pace("sampler")),
        ]
        if self.config.rescue_interval > 0:
            pace = self._pace("rescuer")
            interval = self.config.rescue_interval
            rescuer = Rescuer(self.store, self.keeper, self._policy_of, self._emitter, pace, interval)
            rescuer.tally = self.attempts.tally
            services.append(rescuer)
        return services

    # --- life ----------------------------------------------------------------------------------------------------

    async def _opened(self) -> bool:
        pace = self._pace("store")
        while not self._stop.is_set():
            try:
                await self.store.open()
            except OUTAGES as error:
                await unless_stopped(self._stop, pace.failed(error))
            else:
                pace.turned()
                self.paces.remove(pace)
                return True
        return False

    def _start(self) -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()
        ring = self.attempts.wakeup.ring
        self.keeper.start(
            on_change=lambda: _in_loop(loop, ring),
            on_crash=lambda error: _in_loop(loop, lambda: self._supervisor.fail("the lease thread", error)),
        )
        promoter = Promoter(self.store, self.owner, self.attempts, self.demand, self._pace("promoter"))
        finder = self._finder() if self.config.every_queue else None
        consumer = self._consumer(promoter, finder)
        services: Sequence[PeriodicService] = [*self._periodic(promoter), *([finder] if finder else [])]
        for service in services:
            self._supervisor.start(service, service.pace, self._end)
        for name, make in self._makers:
            pace = self._pace(name)
            self._supervisor.start(make(Parts(self.store, self.owner, self._emitter, pace)), pace, self._end)
        return self._supervisor.start(consumer, consumer.pace, self._stop)

    async def _finish(self, consuming: asyncio.Task[None]) -> None:
        """Let what runs end until the deadline; then interrupt it, and hand back what does not end."""
        if not await self._ended(consuming, self.config.shutdown_timeout, self._hurry) or self.attempts.flight:
            self.attempts.flight.interrupt_all()
            if not await self._ended(consuming, INTERRUPT_GRACE):
                self.attempts.return_rest()
                self.attempts.wakeup.ring()
                await self._ended(consuming, SETTLE_GRACE)

    async def _ended(self, consuming: asyncio.Task[None], seconds: float, unless: asyncio.Event | None = None) -> bool:
        if unless is None:
            await asyncio.wait([consuming], timeout=seconds)
            return consuming.done()
        hurry = asyncio.ensure_future(unless.wait())
        await asyncio.wait([consuming, hurry], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        return consuming.done()

    async def _close(self) -> None:
        self._stop.set()
        self._end.set()
        await self._supervisor.join(SETTLE_GRACE)
        if self.attempts.flight or self.settler:
            await self._settle_rest()
        if self.attempts.flight or self.settler:
            self.keeper.abandon()
        else:
            self.keeper.end()
        await asyncio.to_thread(self.keeper.join, SETTLE_GRACE)
        await self.attempts.executor.close(CLOSE_GRACE)
        await self.store.close()

    async def _settle_rest(self) -> None:
        """The consumer crashed, was cancelled, or hangs at a store that is away: one last try."""
        self.attempts.flight.interrupt_all()
        self.attempts.return_rest()
        settlements = self.settler.take_all()
        try:
            async with asyncio.timeout(SETTLE_GRACE):
                self.settler.written(settlements, await self.store.exchange(settlements, None))
        except Exception as error:
            self.settler.put_back(settlements)
            logger.error("%d outcomes could not be written at the end: %r", len(settlements), error)


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        pass  # The loop is closed: nobody is left to tell.


def _version() -> str:
    from .. import __version__

    return __version__
