"""Runs tasks where they are enqueued, for tests."""

import asyncio
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .. import framework
from ..conf import queue_configs
from ..framework import AnyTask, BaseTaskBackend, is_only_logged, logged_as_no_error
from ..jobs.errors import Discard
from ..jobs.model import Job
from ..stores.base import AdminStore, ClientStore, WorkerStore
from ..tasks import VTaskResult, clock, load_task, new_result, to_job
from .base import VTasksBaseBackend, triple
from .inline import Announcement, Attempt, Group

logger = logging.getLogger(__name__)

type Result = VTaskResult[..., Any]


class ImmediateBackend(VTasksBaseBackend):
    """Runs each call inline and returns its finished result; what the task raises is in the result.

    Delays, unique rules and transactions have no effect. Calls to batch queues are collected until a flush.
    """

    supports_get_result = False
    supports_unique = False
    supports_throttle = False
    runs_elsewhere = False

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self.pending_batches: dict[str, list[dict[str, Any]]] = {}
        self._batch_tasks: dict[str, AnyTask] = {}

    @property
    def client_store(self) -> ClientStore:
        """There is none. Raises NotImplementedError."""
        raise NotImplementedError("ImmediateBackend keeps nothing: use the result that enqueue() returned.")

    @property
    def admin_store(self) -> AdminStore:
        """There is none. Raises NotImplementedError."""
        raise NotImplementedError("ImmediateBackend keeps nothing, so there is nothing to administer.")

    def new_worker_store(self) -> WorkerStore:
        """There is none. Raises NotImplementedError."""
        raise NotImplementedError("ImmediateBackend runs tasks itself and needs no worker.")

    async def acquire_lock(self, _key: str, _ttl: float) -> bool:
        """Never: there is nobody to share it with."""
        return False

    def get_result(self, result_id: str) -> Any:
        """Not supported. Raises NotImplementedError."""
        return BaseTaskBackend.get_result(self, result_id)

    async def aget_result(self, result_id: str) -> Any:
        """As `get_result`."""
        return BaseTaskBackend.get_result(self, result_id)

    # --- enqueuing

    def enqueue(self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the call; returns its result, or None when it was collected for a batch."""
        accepted = self._accept(task, args, kwargs)
        if accepted is None:
            return None
        job, result = accepted
        self._announce([(framework.task_enqueued, {"task_result": result})])
        again: Job | None = job
        while again is not None:
            again = self._run(Attempt(self, task, again, result))
        return result

    async def aenqueue(self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """As `enqueue`."""
        accepted = self._accept(task, args, kwargs)
        if accepted is None:
            return None
        job, result = accepted
        await self._aannounce([(framework.task_enqueued, {"task_result": result})])
        again: Job | None = job
        while again is not None:
            again = await self._arun(Attempt(self, task, again, result))
        return result

    def enqueue_many(self, calls: Any) -> list[Result | None]:
        """Run every `(task, args, kwargs)` triple in order."""
        return [self.enqueue(*call) for call in [triple(call) for call in calls]]

    async def aenqueue_many(self, calls: Any) -> list[Result | None]:
        """As `enqueue_many`."""
        return [await self.aenqueue(*call) for call in [triple(call) for call in calls]]

    def _accept(self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Job, Result] | None:
        options = self.check_call(task, args, kwargs)
        job = to_job(task, args, kwargs, id=uuid.uuid4().hex, now=clock())
        if not options.batch:
            return job, new_result(task, job, self.alias)
        call = {"func": job.func, "args": job.args, "kwargs": job.kwargs}
        self.pending_batches.setdefault(task.queue_name, []).append(call)
        self._batch_tasks[job.func] = task
        return None

    def _is_batch(self, queue: str) -> bool:
        config = queue_configs().get(queue)
        return config is not None and config.batch is not None

    # --- running

    def _run(self, attempt: Attempt) -> Job | None:
        """Run an attempt; returns the job if it is to be run again."""
        self._announce(attempt.begin())
        try:
            attempt.end(attempt.task.call(*attempt.arguments, **attempt.result.kwargs))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # Inside the handler, so that the log receiver of the framework finds the traceback.
            announcements = attempt.fail(error)
            with logged_as_no_error(isinstance(error, Discard)):
                self._announce(announcements)
        else:
            self._announce(attempt.end_signals())
        return attempt.again

    async def _arun(self, attempt: Attempt) -> Job | None:
        """As `_run`."""
        await self._aannounce(attempt.begin())
        try:
            attempt.end(await attempt.task.acall(*attempt.arguments, **attempt.result.kwargs))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            announcements = attempt.fail(error)
            with logged_as_no_error(isinstance(error, Discard)):
                await self._aannounce(announcements)
        else:
            await self._aannounce(attempt.end_signals())
        return attempt.again

    def _announce(self, announcements: Iterable[Announcement]) -> None:
        for signal, named in announcements:
            if signal.receivers:
                signal.send_robust(type(self), **named)

    async def _aannounce(self, announcements: Iterable[Announcement]) -> None:
        for signal, named in announcements:
            if is_only_logged(signal):
                # The log receiver looks for the exception being handled, which another thread or task would not have.
                signal.send_robust(type(self), **named)
            elif signal.receivers:
                await signal.asend_robust(type(self), **named)

    # --- batches

    def flush_batch(self, queue: str) -> None:
        """Call each function once with the list of the calls collected for it, and forget them.

        What a function raises is logged. Raises ValueError for a queue that is not a batch queue.
        """
        for group in self._taken(queue):
            self._announce(group.begin())
            try:
                group.task.call(group.calls)
            except KeyboardInterrupt:
                raise
            except BaseException:
                logger.exception("The batch of %s failed", group.name)
            self._announce(group.end_signals())

    async def aflush_batch(self, queue: str) -> None:
        """As `flush_batch`."""
        for group in self._taken(queue):
            await self._aannounce(group.begin())
            try:
                await group.task.acall(group.calls)
            except (KeyboardInterrupt, asyncio.CancelledError):
                raise
            except BaseException:
                logger.exception("The batch of %s failed", group.name)
            await self._aannounce(group.end_signals())

    def flush_batches(self) -> None:
        """Flush every queue that has collected calls."""
        for queue in list(self.pending_batches):
            self.flush_batch(queue)

    async def aflush_batches(self) -> None:
        """As `flush_batches`."""
        for queue in list(self.pending_batches):
            await self.aflush_batch(queue)

    def _taken(self, queue: str) -> list[Group]:
        if not self._is_batch(queue):
            raise ValueError(f"{queue!r} is not a batch queue; batch queues have 'batch' in VTASKS_QUEUES")
        by_function: dict[str, list[dict[str, Any]]] = {}
        for call in self.pending_batches.pop(queue, ()):
            by_function.setdefault(call["func"], []).append(call)
        return [Group(self._batch_tasks.get(func) or load_task(func), calls) for func, calls in by_function.items()]


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
