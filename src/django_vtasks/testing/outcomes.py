"""What a drain ran, and how it ended."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from ..execution.failures import class_path
from ..jobs.model import Failure, Job, JobState, OutcomeKind
from ..jobs.transitions import Bury, Decision, Finish, Requeue, Settlement
from .wording import call_text


class JobFailed(AssertionError):
    """Raised for a job that failed without an exception of its own task: it ran out of time, expired, or could not be
    run at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RanJob:
    """One attempt of one job. `task` is the dotted path, `attempt` its number, `outcome` how it ended.

    `value` is what the task returned, `error` the exception it raised. `retry_in` is after how many seconds the job is
    run again, None when it is over.
    """

    id: str
    task: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    queue: str
    attempt: int
    outcome: OutcomeKind
    value: Any = None
    error: BaseException | None = None
    failure: Failure | None = None
    retry_in: float | None = None

    def __str__(self) -> str:
        text = f"{call_text(self.task, self.args, self.kwargs)}: {self.outcome.value}"
        return f"{text} ({self.failure.exception_class}: {self.failure.message})" if self.failure else text


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainResult:
    """Every attempt of a drain, in the order in which they ended.

    `uncommitted` is how many jobs wait for the commit of a transaction that is open here, and so could not be run;
    `limited` is how many were due and are kept waiting by a rate.
    """

    attempts: tuple[RanJob, ...] = ()
    uncommitted: int = 0
    limited: int = 0

    @property
    def succeeded(self) -> list[RanJob]:
        """Jobs that succeeded."""
        return self._of(lambda ran: ran.outcome is OutcomeKind.SUCCEEDED)

    @property
    def failed(self) -> list[RanJob]:
        """Jobs that failed for good."""
        return self._of(lambda ran: ran.retry_in is None and ran.outcome not in _NO_FAILURE)

    @property
    def retried(self) -> list[RanJob]:
        """Failed attempts of jobs that are run again."""
        return self._of(lambda ran: ran.retry_in is not None and ran.outcome is not OutcomeKind.SNOOZED)

    @property
    def snoozed(self) -> list[RanJob]:
        """Attempts that put their job off."""
        return self._of(lambda ran: ran.outcome is OutcomeKind.SNOOZED)

    @property
    def discarded(self) -> list[RanJob]:
        """Jobs that their task discarded."""
        return self._of(lambda ran: ran.outcome is OutcomeKind.DISCARDED)

    def raise_failures(self) -> None:
        """Raise what the first job raised that failed for good, JobFailed if it raised nothing."""
        for ran in self.failed:
            raise error_of(ran)

    def __str__(self) -> str:
        counts = Counter(ran.outcome.value for ran in self.attempts)
        told = [f"{count} {outcome}" for outcome, count in counts.items()]
        if self.uncommitted:
            told.append(f"{self.uncommitted} waiting for a commit")
        if self.limited:
            told.append(f"{self.limited} waiting for a rate")
        return "\n".join([", ".join(told) or "nothing was due", *(f"  {ran}" for ran in self.attempts)])

    def _of(self, wanted: Callable[[RanJob], bool]) -> list[RanJob]:
        return [ran for ran in self.attempts if wanted(ran)]


_NO_FAILURE = frozenset((OutcomeKind.SUCCEEDED, OutcomeKind.DISCARDED, OutcomeKind.SNOOZED))


def error_of(ran: RanJob) -> BaseException:
    """What to raise for a job that failed."""
    if ran.error is not None:
        ran.error.add_note(f"raised by the job {call_text(ran.task, ran.args, ran.kwargs)}")
        return ran.error
    trace = ran.failure.traceback if ran.failure else ""
    return JobFailed(f"{ran}\n{trace}".rstrip())


def ran_job(settlement: Settlement, error: BaseException | None) -> RanJob:
    """What is told of an attempt that was settled; `error` is what its function raised."""
    claim, decision = settlement.claim, settlement.decision
    job = claim.job or Job(id=claim.lease.job_id, func="(undecodable)", queue=claim.queue)
    outcome, failure = _ending(decision)
    return RanJob(
        id=job.id,
        task=job.func,
        args=tuple(job.args),
        kwargs=dict(job.kwargs),
        queue=claim.queue,
        attempt=job.starts + 1,
        outcome=outcome,
        value=orjson.loads(decision.value) if isinstance(decision, Finish) else None,
        error=error if outcome in _BY_TASK and failure and _is_of(failure, error) else None,
        failure=failure,
        retry_in=(decision.delay or 0.0) if isinstance(decision, Requeue) else None,
    )


_BY_TASK = frozenset((OutcomeKind.RAISED, OutcomeKind.RETRIED, OutcomeKind.DISCARDED))


def _is_of(failure: Failure, error: BaseException | None) -> bool:
    """Whether a failure tells of this exception: what a batch raised need not be what each member failed with."""
    return error is not None and class_path(error) == failure.exception_class


def _ending(decision: Decision) -> tuple[OutcomeKind, Failure | None]:
    match decision:
        case Finish(state=JobState.SUCCEEDED):
            return OutcomeKind.SUCCEEDED, None
        case Finish():
            return OutcomeKind.DISCARDED, decision.job.attempts[-1].failure
        case Requeue():
            return decision.outcome, decision.job.attempts[-1].failure
        case Bury(letter=letter):
            kind = letter.job.attempts[-1].outcome if letter.job else OutcomeKind.UNRUNNABLE
            return kind, letter.failure
