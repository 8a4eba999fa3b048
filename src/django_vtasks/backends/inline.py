"""Runs one call here and now, for ImmediateBackend: the same decisions as a worker's, without a store."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.dispatch import Signal

from .. import framework, signals
from ..execution.context import JobContext, Metadata
from ..execution.failures import describe
from ..execution.values import to_json
from ..framework import AnyTask
from ..jobs.errors import Discard, Retry, Snooze
from ..jobs.model import Claim, Job, JobRecord, JobState, Lease, OutcomeKind, Progress, Running, evolve_job
from ..jobs.outcomes import Discarded, Outcome, Raised, RetryRequested, Snoozed, Succeeded
from ..jobs.transitions import Bury, Decision, Finish, Policy, Requeue, decide
from ..tasks import VTaskResult, clock, options_of, show
from ..tasks.redaction import hiding_of

if TYPE_CHECKING:
    from .immediate import ImmediateBackend

AGAIN = frozenset((OutcomeKind.RAISED, OutcomeKind.RETRIED, OutcomeKind.TIMED_OUT))
"""Outcomes after which a re-queued job is run again at once; after a snooze it is left waiting."""


type Announcement = tuple[Signal, dict[str, Any]]


class Attempt:
    """One attempt of one job: what to call, what its end makes of the result, and what is signalled.

    `again` is the job once it is known that it is to be run again. It is its own context's line to the outside.
    """

    told_to_stop = None
    shutdown_requested = False

    def __init__(self, backend: "ImmediateBackend", task: AnyTask, job: Job, result: VTaskResult[..., Any]) -> None:
        self.task = task
        self.result = result
        self.again: Job | None = None
        self._job = job
        self._rule = options_of(task, job.queue).retry
        lease = Lease(job_id=job.id, token=f"{job.id}:{job.starts + 1}", owner=backend.worker_id)
        self._claim = Claim(lease=lease, raw=b"", queue=job.queue, started_at=clock(), job=job)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The positional arguments, the context first where the task takes one."""
        if not self.task.takes_context:
            return tuple(self.result.args)
        context = JobContext(task_result=self.result, metadata=Metadata(self._job.metadata, self._save), _line=self)
        return (context, *self.result.args)

    def begin(self) -> list[Announcement]:
        """Show the result as running; returns what to signal."""
        running = Running(worker_id=self._claim.lease.owner, started_at=self._claim.started_at)
        show(self.result, JobRecord(job=self._job, state=JobState.LEASED, running=running))
        details = _names(self._job.func, None) | {"args": self.result.args, "kwargs": self.result.kwargs}
        return [(signals.task_started, details), (framework.task_started, {"task_result": self.result})]

    def end(self, value: Any) -> None:
        """The function returned. Raises TypeError for a value that is not JSON."""
        self._settle(Succeeded(value=to_json(value)))

    def fail(self, error: BaseException) -> list[Announcement]:
        """The function raised, or returned what is not JSON; returns what to signal."""
        failure = describe(error, self._job.func, hiding_of(self._job))
        outcome: Outcome
        match error:
            case Retry(delay=delay):
                outcome = RetryRequested(delay=delay or 0.0, failure=failure)
            case Snooze(delay=delay):
                outcome = Snoozed(delay=delay)
            case Discard():
                outcome = Discarded(failure=failure)
            case _:
                outcome = Raised(failure=failure, delay=0.0 if self._rule.wants(error) else None)
        self._settle(outcome)
        if self.again is None:
            return self.end_signals()
        details = {"exception": error, "delay": 0.0, "attempt": self.again.starts}
        return [(signals.task_retried, _names(self._job.func, None) | details)]

    def end_signals(self) -> list[Announcement]:
        """What to signal when the job is over."""
        details = _names(self._job.func, None) | {"duration": clock() - self._claim.started_at}
        return [(signals.task_finished, details), (framework.task_finished, {"task_result": self.result})]

    def _settle(self, outcome: Outcome) -> None:
        policy = Policy(max_attempts=self._rule.max_attempts, result_ttl=1.0)
        decision = decide(replace(self._claim, job=self._job), outcome, policy, clock())
        show(self.result, replace(_record(decision), progress=self.result.progress))
        if isinstance(decision, Requeue) and decision.outcome in AGAIN:
            self.again = decision.job

    def now(self) -> float:
        """Epoch seconds."""
        return clock()

    def say(self, progress: Progress | None, metadata: Mapping[str, Any] | None) -> None:
        """Show what the task says of itself."""
        if progress is not None:
            object.__setattr__(self.result, "progress", progress)
        if metadata is not None:
            self._save(metadata)

    def _save(self, metadata: Mapping[str, Any]) -> None:
        self._job = evolve_job(self._job, metadata=metadata)
        object.__setattr__(self.result, "metadata", metadata)


class Group:
    """The calls of one function that a batch queue collected."""

    def __init__(self, task: AnyTask, calls: list[dict[str, Any]]) -> None:
        self.task = task
        self.calls = calls
        self.name = task.module_path
        self._started = clock()

    def begin(self) -> list[Announcement]:
        """What to signal before the call."""
        arguments = {"args": [call["args"] for call in self.calls], "kwargs": [call["kwargs"] for call in self.calls]}
        return [(signals.task_started, _names(self.name, []) | arguments)]

    def end_signals(self) -> list[Announcement]:
        """What to signal after it."""
        return [(signals.task_finished, _names(self.name, []) | {"duration": clock() - self._started})]


def _names(func: str, task_ids: list[str] | None) -> dict[str, Any]:
    """A job that nobody stored has no id that anybody could look up."""
    return {"task_id": None, "task_ids": task_ids, "name": func}


def _record(decision: Decision) -> JobRecord:
    match decision:
        case Finish():
            return JobRecord(
                job=decision.job, state=decision.state, finished_at=decision.finished_at, value=decision.value
            )
        case Bury(letter=letter):
            assert letter.job is not None  # noqa: S101 - it was made from a job
            return JobRecord(job=letter.job, state=JobState.DEAD, finished_at=letter.failed_at, letter=letter)
        case Requeue():
            return JobRecord(job=decision.job, state=JobState.READY)
