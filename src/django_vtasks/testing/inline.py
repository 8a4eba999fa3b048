"""A worker for the length of one test call: the parts of the real one, one attempt at a time, where the test runs."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from asgiref.sync import sync_to_async

from ..backends.base import VTasksBaseBackend
from ..conf import WorkerConfig
from ..events import events
from ..execution.environment import ExecutorOptions
from ..execution.executor import Executor
from ..execution.registry import Registry
from ..jobs.errors import QueueError
from ..jobs.model import Claim, OutcomeKind
from ..jobs.transitions import Place, Requeue, Settlement
from ..stores.base import ClaimRequest, Want, WorkerStore
from ..worker import Worker
from ..worker.attempts import Attempts
from ..worker.batching import collectors_of
from ..worker.executing import executor_options
from ..worker.policies import policies_of
from ..worker.reports import Reports
from ..worker.runtime import new_incarnation
from ..worker.service import Pace
from ..worker.settler import Settler
from ..worker.slots import Slots
from .environment import InlineEnvironment
from .footing import task_on_footing
from .outcomes import RanJob, ran_job

LEASE_SECONDS = 24 * 3600.0
"""Longer than any test: a debugger may stop it for hours."""

PROMOTED = 500
BATCH_WAIT = 5.0

_PASSING = (SystemExit, asyncio.CancelledError, GeneratorExit)


class InlineWorker:
    """Claims jobs, runs them and settles, as a worker does. Made and used on an event loop.

    `ran` are the attempts so far; `interruption` is what a task let through that means the test and not the task,
    such as KeyboardInterrupt.
    """

    def __init__(self, backend: VTasksBaseBackend, store: WorkerStore) -> None:
        config = WorkerConfig.from_settings(backend.alias, queues=["*"])
        self.store = store
        self.queues = config.queue_names
        self.ran: list[RanJob] = []
        self.interruption: BaseException | None = None
        self._owner = new_incarnation(f"{config.worker_id}-inline")
        self._settler = Settler(self._owner, events)
        self._reports = Reports(store, Pace("reports", events), _nothing)
        policies = policies_of(config)
        options = executor_options(config, backend, Worker, policies.of, events)
        self._executor = Executor(
            Registry(load=task_on_footing), replace(options, report=self._reports.put), self._surround
        )
        self.batches = {collector.queue: collector for collector in collectors_of(config.queues)}
        self._attempts = Attempts(self._executor, self._settler, Slots(1, {}), self.batches, policies.of, events)

    def _surround(self, options: ExecutorOptions) -> InlineEnvironment:
        self._environment = InlineEnvironment(options)
        return self._environment

    async def open(self) -> None:
        """Connect and take a lease. Raises StoreUnavailable."""
        await self.store.open()
        await sync_to_async(self.store.extend)(self._owner, LEASE_SECONDS)

    async def close(self, held: Iterable[Claim]) -> None:
        """Give back what is held, and the lease."""
        for claim in held:
            self._attempts.return_untouched(claim)
        self._attempts.return_members()
        # What led here is told; a store that fails meanwhile would only hide it.
        with suppress(QueueError):
            await self.settle()
            await sync_to_async(self.store.release)(self._owner)
        await self._executor.close()
        await self.store.close()

    async def promote(self) -> None:
        """Make due jobs ready."""
        while (await self.store.pulse(self._owner, PROMOTED)).promoted >= PROMOTED:
            pass

    async def claim(self, queues: Sequence[str]) -> tuple[Claim, ...]:
        """The next job of the queues, or as many as its batch takes if it is of a batch queue."""
        single = [Want(queue=queue, slots=1) for queue in queues if queue not in self.batches]
        claims = await self._claim(single, 1)
        for collector in (self.batches[queue] for queue in queues if queue in self.batches):
            if claims:
                break
            room = collector.wants()
            claims = await self._claim([Want(queue=collector.queue, slots=room)], room)
        return claims

    async def _claim(self, wants: Sequence[Want], limit: int) -> tuple[Claim, ...]:
        if not wants:
            return ()
        request = ClaimRequest(owner=self._owner, wants=tuple(wants), limit=limit)
        return (await self.store.exchange((), request)).claims

    async def run(self, claims: Sequence[Claim]) -> list[RanJob]:
        """Run claimed jobs to their end, collected for as long as it takes to fill a batch; returns what became."""
        attempts = self._attempts
        for claim in claims:
            attempts.accept(claim)
        attempts.hurry()
        while len(attempts.flight):
            attempts.wakeup.clear()
            attempts.begin_batches()
            await attempts.wakeup.sleep(BATCH_WAIT)
        return await self.settle()

    async def settle(self) -> list[RanJob]:
        """Write what ended; returns it."""
        settlements = list(self._settler.take(len(self._settler)))
        if not settlements:
            return []
        await self._reports.save_for([settlement.claim.lease.token for settlement in settlements])
        self._settler.written(settlements, await self.store.exchange(settlements, None))
        told = [self._told(settlement) for settlement in settlements if not _is_untouched(settlement)]
        self.ran += told
        return told

    def _told(self, settlement: Settlement) -> RanJob:
        error = self._environment.errors.pop(settlement.claim.lease.token, None)
        if error is not None and not isinstance(error, (Exception, *_PASSING)):
            self.interruption = error
        return ran_job(settlement, error)


def _is_untouched(settlement: Settlement) -> bool:
    decision = settlement.decision
    return (
        isinstance(decision, Requeue)
        and decision.place is Place.FRONT
        and decision.outcome is OutcomeKind.INTERRUPTED
        and decision.job is settlement.claim.job
    )


def _nothing() -> None:
    """A lease that lasts longer than the test is not lost."""
