"""Running what is enqueued, in the test: as a worker would, where the test runs."""

import asyncio
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from asgiref.sync import async_to_sync

from ..backends.base import VTasksBaseBackend
from ..conf import queue_configs
from ..framework import TaskResult
from ..jobs.model import Claim, JobState
from .inline import InlineWorker
from .jobs import EnqueuedJob, backend_of, records_in, uncommitted_jobs
from .outcomes import DrainResult, RanJob
from .threads import in_callers_thread


class DrainLimit(AssertionError):
    """Raised when a drain ran as many attempts as it was allowed to, and jobs were still due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What a drain is to run: of these queues (None = all), of these jobs only (None = whatever is due), jobs that are
    not due too, at most so many attempts."""

    queues: tuple[str, ...] | None = None
    only: frozenset[str] | None = None
    delayed: bool = False
    recursive: bool = True
    limit: int = 1000
    raise_failures: bool = False


def drain(
    alias: str = "default",
    *,
    queues: Collection[str] | None = None,
    delayed: bool = False,
    recursive: bool = True,
    limit: int = 1000,
    raise_failures: bool = False,
) -> DrainResult:
    """Run every job of an alias that is due, and those that they enqueue, here and now; returns what was run.

    `queues` restricts it. With `delayed`, jobs that are not due yet run too, the earliest first, retries among them.
    Without `recursive`, only jobs that wait now are run, each once. Raises DrainLimit when jobs are still due after
    `limit` attempts, and with `raise_failures` what the first job raised that failed for good.
    """
    wish = _Wish(
        queues=_names(queues), delayed=delayed, recursive=recursive, limit=limit, raise_failures=raise_failures
    )
    return _warned(_from_sync(alias, wish, "drain"))


async def adrain(
    alias: str = "default",
    *,
    queues: Collection[str] | None = None,
    delayed: bool = False,
    recursive: bool = True,
    limit: int = 1000,
    raise_failures: bool = False,
) -> DrainResult:
    """As `drain`, in an async test."""
    wish = _Wish(
        queues=_names(queues), delayed=delayed, recursive=recursive, limit=limit, raise_failures=raise_failures
    )
    return _warned(await _drained(backend_of(alias), wish))


def flush_batches(queue: str | None = None, *, alias: str = "default", raise_failures: bool = False) -> DrainResult:
    """Run what the batch queues (or one of them) have collected, without waiting for batches to fill.

    Raises ValueError for a queue that is none.
    """
    return _from_sync(alias, _of_batches(queue, raise_failures=raise_failures), "flush_batches")


async def aflush_batches(
    queue: str | None = None, *, alias: str = "default", raise_failures: bool = False
) -> DrainResult:
    """As `flush_batches`, in an async test."""
    return await _drained(backend_of(alias), _of_batches(queue, raise_failures=raise_failures))


type JobId = str | EnqueuedJob | TaskResult[..., Any]


def run_job(job: JobId, *, alias: str | None = None, raise_failures: bool = False) -> RanJob:
    """Run one attempt of one job that waits, due or not; returns how it ended.

    Give its result, its id, or what `enqueued()` returned; the alias is that of the result, else the default. Raises
    LookupError for a job that does not wait.
    """
    backend, job_id = _meant(job, alias)
    wish = _of_one(backend, job_id, raise_failures=raise_failures)
    return _only(_from_sync(backend.alias, wish, "run_job"), backend, job_id)


async def arun_job(job: JobId, *, alias: str | None = None, raise_failures: bool = False) -> RanJob:
    """As `run_job`, in an async test."""
    backend, job_id = _meant(job, alias)
    wish = await in_callers_thread(partial(_of_one, backend, job_id, raise_failures=raise_failures))
    result = await _drained(backend, wish)
    return await in_callers_thread(_only, result, backend, job_id)


# -- what is asked for ------------------------------------------------------------------------------------------------


def _names(queues: Collection[str] | None) -> tuple[str, ...] | None:
    if isinstance(queues, str):
        raise TypeError(f"queues is a list of names: [{queues!r}]")
    return None if queues is None else tuple(queues)


def _of_batches(queue: str | None, *, raise_failures: bool) -> _Wish:
    names = [name for name, config in queue_configs().items() if config.batch is not None]
    if queue is not None and queue not in names:
        raise ValueError(f"{queue!r} is no batch queue of VTASKS_QUEUES; those are: {', '.join(names) or 'none'}")
    return _Wish(queues=tuple(names) if queue is None else (queue,), raise_failures=raise_failures)


def _meant(job: JobId, alias: str | None) -> tuple[VTasksBaseBackend, str]:
    if isinstance(job, str):
        return backend_of(alias or "default"), job
    own = job.alias if isinstance(job, EnqueuedJob) else job.backend
    return backend_of(alias or own), job.id


def _of_one(backend: VTasksBaseBackend, job_id: str, *, raise_failures: bool) -> _Wish:
    """The wish for one job. Raises LookupError for one that does not wait."""
    record = backend.client_store.get(job_id)
    if record is not None and record.state not in (JobState.READY, JobState.SCHEDULED):
        raise LookupError(f"The job {job_id} ({record.job.func}) does not wait: it is {record.state.value}.")
    queues = None if record is None else (record.job.queue,)
    return _Wish(only=frozenset((job_id,)), queues=queues, raise_failures=raise_failures)


def _only(result: DrainResult, backend: VTasksBaseBackend, job_id: str) -> RanJob:
    if result.attempts:
        return result.attempts[0]
    if any(job.id == job_id for job in uncommitted_jobs(backend.alias)):
        raise LookupError(
            f"The job {job_id} waits for the commit of the open transaction, which a TestCase never does: wrap what "
            "enqueues in `with self.captureOnCommitCallbacks(execute=True):`."
        )
    raise LookupError(f"No job {job_id} of {backend.alias!r} can be run: is its queue paused, or a limit in the way?")


def _from_sync(alias: str, wish: _Wish, name: str) -> DrainResult:
    if _loop_runs():
        raise RuntimeError(f"{name}() blocks the event loop that runs here: use `await a{name}()`")
    return async_to_sync(_drained)(backend_of(alias), wish)


def _warned(result: DrainResult) -> DrainResult:
    """The result. A drain that could run nothing says so where it is called: the test is about to miss its effects."""
    if result.uncommitted and not result.attempts:
        text = (
            f"Nothing was run: {result.uncommitted} job(s) wait for the commit of the open transaction, which a "
            "TestCase never does. Wrap what enqueues in `with self.captureOnCommitCallbacks(execute=True):`."
        )
        warnings.warn(text, skip_file_prefixes=(str(Path(__file__).parent),))
    return result


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# -- doing it ---------------------------------------------------------------------------------------------------------


async def _drained(backend: VTasksBaseBackend, wish: _Wish) -> DrainResult:
    worker = InlineWorker(backend, await in_callers_thread(backend.new_inline_store))
    drain = _Drain(backend, worker, wish)
    try:
        await worker.open()
        await drain.run()
    finally:
        await worker.close(drain.held)
    if worker.interruption is not None:
        raise worker.interruption
    uncommitted = await in_callers_thread(uncommitted_jobs, backend.alias)
    result = DrainResult(attempts=tuple(worker.ran), uncommitted=len(uncommitted), limited=drain.limited)
    if wish.raise_failures:
        result.raise_failures()
    return result


@dataclass(slots=True)
class _Drain:
    """One drain. `held` are claims of jobs that are not to be run by it, `limited` how many jobs a rate keeps."""

    backend: VTasksBaseBackend
    worker: InlineWorker
    wish: _Wish
    held: list[Claim] = field(default_factory=list)
    limited: int = 0
    _left: set[str] | None = None
    _known: Sequence[str] = ()
    _ready: int = 0
    _failed: bool = False

    async def run(self) -> None:
        """Run what is wished for."""
        self._left = await in_callers_thread(self._chosen)
        while not self._is_over():
            claims = await self.worker.claim(self._known) or await self._look_again()
            if claims:
                await self._take(claims)
            elif not (self.wish.delayed and await in_callers_thread(self._hasten_next)):
                self.limited = 0 if self._left is not None else self._ready
                return

    def _is_over(self) -> bool:
        enough = self._left is not None and not self._left
        return enough or self.worker.interruption is not None or (self.wish.raise_failures and self._failed)

    async def _take(self, claims: Sequence[Claim]) -> None:
        mine = [claim for claim in claims if self._left is None or claim.lease.job_id in self._left]
        self.held += [claim for claim in claims if claim not in mine]
        if len(self.worker.ran) + len(mine) > self.wish.limit:
            self.held += mine
            raise DrainLimit(self._complaint(mine))
        if self._left is not None:
            self._left -= {claim.lease.job_id for claim in mine}
        if mine:
            ended = await self.worker.run(mine)
            self._failed = self._failed or bool(DrainResult(attempts=tuple(ended)).failed)

    async def _look_again(self) -> tuple[Claim, ...]:
        """Make due jobs ready and claim of whatever is ready then."""
        await self.worker.promote()
        self._known = await in_callers_thread(self._ready_queues)
        return await self.worker.claim(self._known)

    # --- looking, in the caller's thread ---

    def _chosen(self) -> set[str] | None:
        """The ids of the jobs to be run; None when it is whatever is due."""
        if self.wish.only is not None:
            self.backend.admin_store.hasten(list(self.wish.only))
            return set(self.wish.only)
        if self.wish.recursive:
            return None
        states = (JobState.READY, JobState.SCHEDULED)
        records = [record for state in states for record in records_in(self.backend.admin_store, state)]
        return {record.job.id for record in records if self._is_wanted(record.job.queue)}

    def _ready_queues(self) -> list[str]:
        counts = [count for count in self.backend.admin_store.counts() if count.ready and not count.paused]
        self._ready = sum(count.ready for count in counts if self._is_wanted(count.queue))
        ready = {count.queue for count in counts}
        order = [queue for queue in self.worker.queues if queue in ready]
        return [queue for queue in (*order, *sorted(ready.difference(order))) if self._is_wanted(queue)]

    def _is_wanted(self, queue: str) -> bool:
        return self.wish.queues is None or queue in self.wish.queues

    def _hasten_next(self) -> bool:
        """Make the next delayed job ready that is to be run; False when there is none."""
        store = self.backend.admin_store
        for record in records_in(store, JobState.SCHEDULED):
            chosen = self._left is None or record.job.id in self._left
            if chosen and self._is_wanted(record.job.queue) and store.hasten([record.job.id]):
                return True
        return False

    def _complaint(self, due: Sequence[Claim]) -> str:
        counts = Counter(ran.task for ran in self.worker.ran)
        task, count = counts.most_common(1)[0] if counts else (due[0].queue, 0)
        return (
            f"drain() ran {len(self.worker.ran)} attempts and jobs are still due. {task} ran {count} times: does it "
            "enqueue itself, retry without a delay, or snooze for ever? Use recursive=False, or a higher limit."
        )
