"""Claim in, outcome out. Never touches a store, and nothing that a task does makes it raise."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ..exceptions import JobExpired, JobUndecodable, TaskNotFound
from ..jobs.model import Claim, DeadReason, Job
from ..jobs.outcomes import Expired, Outcome, Raised, Unrunnable
from . import connections
from .announcements import send_on_loop
from .batches import BatchAttempt
from .contexts import with_hygiene
from .environment import Done, Environment, ExecutorOptions
from .failures import describe
from .registry import Registry, RunnableTask
from .single import SingleAttempt
from .stopping import StoppableAttempt

logger = logging.getLogger(__name__)


class Executor:
    """Runs the attempts of one worker; made and used on its event loop.

    Coroutines run as tasks of the loop, sync functions in at most `concurrency` threads of the executor's own. Each
    running attempt has database connections of its own; at most `concurrency` slots keep theirs between attempts.
    """

    def __init__(
        self,
        registry: Registry,
        options: ExecutorOptions,
        new_environment: Callable[[ExecutorOptions], Environment] = Environment,
    ) -> None:
        self._registry = registry
        self._env = new_environment(options)
        self._home = contextvars.copy_context()
        connections.watch()

    @property
    def abandoned_threads(self) -> int:
        """How many threads that were given up still run."""
        return self._env.threads.abandoned

    @property
    def connected_slots(self) -> tuple[int, int]:
        """How many slots have database connections of their functions, and how many those opened so far."""
        return self._env.connections.count, self._env.connections.made

    def start(self, claim: Claim, done: Done) -> StoppableAttempt:
        """Begin the attempt of one claim. Never raises; `done` is called once, on the loop, and never from in here."""
        admitted = self._admit(claim, done)
        if isinstance(admitted, StoppableAttempt):
            return admitted
        job, runnable = admitted
        attempt = SingleAttempt(self._env, claim, job, runnable, done)
        self._launch(attempt, runnable)
        return attempt

    def start_batch(self, claims: Sequence[Claim], done: Done) -> StoppableAttempt:
        """Begin one attempt for claims of the same function, as `start`; `done` is called once for each claim."""
        members: list[Claim] = []
        attempt = StoppableAttempt(self._env, claims[:1], "", done)
        runnable: RunnableTask | None = None
        for claim in claims:
            admitted = self._admit(claim, done)
            if isinstance(admitted, StoppableAttempt):
                attempt = admitted
            else:
                runnable = admitted[1]
                members.append(claim)
        if runnable is None:
            return attempt
        batch = BatchAttempt(self._env, members, runnable, done)
        if runnable.takes_context:
            batch.refuse(*_unrunnable(runnable.path, "it takes a context, which a batch function cannot have"))
        else:
            self._launch(batch, runnable)
        return batch

    def request_shutdown(self) -> None:
        """Tell running functions, through their context, that the worker is going away."""
        self._env.shutdown_requested = True

    async def close(self, timeout: float = 5.0) -> None:
        """End the threads and close the connections of the slots that rest. Never raises."""
        await asyncio.gather(self._env.threads.close(timeout), self._env.contexts.close(), return_exceptions=True)

    @property
    def connections(self) -> int:
        """How many slots have database connections."""
        return self._env.connections.count

    def _admit(self, claim: Claim, done: Done) -> tuple[Job, RunnableTask] | StoppableAttempt:
        """The job of a claim and what runs it; the ended attempt of a claim that cannot be run."""
        job = claim.job
        if job is None:
            error = JobUndecodable(claim.defect or "the stored bytes are not a job")
            failure = replace(describe(error, ""), fingerprint="undecodable")
            return self._refuse(claim, "", Unrunnable(reason=DeadReason.UNDECODABLE, failure=failure), error, done)
        try:
            runnable = self._registry.resolve(job.func, claim.queue)
        except BaseException as error:
            reason = DeadReason.UNKNOWN_TASK if isinstance(error, TaskNotFound) else DeadReason.FAILED
            outcome = Unrunnable(reason=reason, failure=describe(error, job.func))
            return self._refuse(claim, job.func, outcome, error, done)
        if runnable.problem is not None:
            return self._refuse(claim, job.func, *_unrunnable(job.func, runnable.problem), done)
        if job.expires_at is not None and claim.started_at >= job.expires_at:
            expired = JobExpired(f"{job.func} was to start before {_utc(job.expires_at)}, and no worker was free")
            return self._refuse(claim, job.func, Expired(failure=describe(expired, job.func)), expired, done)
        return job, runnable

    def _refuse(self, claim: Claim, path: str, outcome: Outcome, error: BaseException, done: Done) -> StoppableAttempt:
        attempt = StoppableAttempt(self._env, (claim,), path, done)
        attempt.refuse(outcome, error)
        return attempt

    def _launch(self, attempt: StoppableAttempt, runnable: RunnableTask) -> None:
        env = self._env
        try:
            if runnable.timeout is not None:
                attempt.limit(runnable.timeout)
            if not runnable.is_async:
                env.threads.submit(attempt)
                return
            slot = attempt.slot = env.contexts.take()
            body = with_hygiene(slot, env.conduct, attempt, send_on_loop)
            attempt.task = task = env.loop.create_task(body, context=slot.context.copy())
            task.add_done_callback(attempt.task_done, context=self._home)
        except BaseException as error:
            logger.exception("An attempt of %s could not be started", runnable.path)
            attempt.refuse(Raised(failure=describe(error, runnable.path)), error)


def _unrunnable(path: str, problem: str) -> tuple[Outcome, BaseException]:
    error = TypeError(f"{path} cannot be run: {problem}")
    return Unrunnable(reason=DeadReason.FAILED, failure=describe(error, path)), error


def _utc(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).isoformat(sep=" ", timespec="seconds")
