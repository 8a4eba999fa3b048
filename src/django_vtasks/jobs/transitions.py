"""What becomes of a job: `decide` turns the outcome of an attempt into the job's next state.

Worker, rescuer and the immediate backend all call it; a store only writes the decision down.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from .assembling import assembler
from .model import (
    MAX_ATTEMPTS_KEPT,
    Attempt,
    Claim,
    DeadLetter,
    DeadReason,
    Failure,
    Job,
    JobState,
    OutcomeKind,
    evolve_job,
)
from .outcomes import (
    Cancelled,
    Discarded,
    Expired,
    Interrupted,
    LeaseExpired,
    Outcome,
    Raised,
    RetryRequested,
    Snoozed,
    Succeeded,
    TimedOut,
    Unrunnable,
    Untouched,
)

MAX_RESULT_TTL = 10 * 365 * 24 * 3600.0
"""The longest time in seconds that a result is kept; what a stored job asks beyond it is clamped."""


class Place(StrEnum):
    """Where in its queue a job goes that is to run again at once."""

    FRONT = "front"
    BACK = "back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the task and the settings say: attempts in all, and how long a result is kept (seconds, 0 = not)."""

    max_attempts: int = 1
    result_ttl: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The job is over: succeeded with `value` (JSON text), or discarded. Its result is kept `result_ttl` seconds."""

    job: Job
    state: JobState
    value: bytes
    result_ttl: float
    finished_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bury:
    """The job becomes a dead letter; its result (FAILED) is kept `result_ttl` seconds."""

    letter: DeadLetter
    result_ttl: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """The job waits again: at once when `delay` is None, else after that many seconds of the store's clock."""

    job: Job
    delay: float | None
    place: Place
    outcome: OutcomeKind


type Decision = Finish | Bury | Requeue


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """A decision about a claimed job, to be written if the lease still holds.

    `reclaim` says that the lease has expired and somebody else decides: the store then writes only if it is
    expired still. The decision's job is written as it is, its metadata included.
    """

    claim: Claim
    decision: Decision
    reclaim: bool = False


assemble_settlement = assembler(Settlement)
_assemble_finish = assembler(Finish)


def decide(claim: Claim, outcome: Outcome, policy: Policy, ended_at: float) -> Decision:
    """The job's next state after an attempt ended as `outcome` at `ended_at` (epoch seconds)."""
    job = claim.job
    if job is None:
        return _bury_undecodable(claim, outcome, policy, ended_at)
    match outcome:
        case Succeeded():
            return _succeed(claim, job, outcome, policy, ended_at)
        case Discarded(failure=failure):
            done = _ended(claim, job, OutcomeKind.DISCARDED, ended_at, failure)
            ttl = _result_ttl(job, policy)
            return Finish(job=done, state=JobState.DISCARDED, value=b"null", result_ttl=ttl, finished_at=ended_at)
        case Raised(failure=failure, delay=delay):
            return _failed(_ended(claim, job, OutcomeKind.RAISED, ended_at, failure), claim, delay, policy)
        case RetryRequested(failure=failure, delay=delay):
            return _failed(_ended(claim, job, OutcomeKind.RETRIED, ended_at, failure), claim, delay, policy)
        case TimedOut(failure=failure, delay=delay):
            return _failed(_ended(claim, job, OutcomeKind.TIMED_OUT, ended_at, failure), claim, delay, policy)
        case Snoozed(delay=delay):
            done = _ended(claim, job, OutcomeKind.SNOOZED, ended_at)
            return Requeue(job=done, delay=delay, place=Place.BACK, outcome=OutcomeKind.SNOOZED)
        case Interrupted():
            done = _ended(claim, job, OutcomeKind.INTERRUPTED, ended_at)
            return Requeue(job=done, delay=None, place=Place.FRONT, outcome=OutcomeKind.INTERRUPTED)
        case Untouched():
            return Requeue(job=job, delay=None, place=Place.FRONT, outcome=OutcomeKind.INTERRUPTED)
        case LeaseExpired():
            return _rescue(claim, job, policy, ended_at)
        case Cancelled(failure=failure):
            done = _ended(claim, job, OutcomeKind.CANCELLED, ended_at, failure)
            return _bury(done, claim, DeadReason.CANCELLED, policy)
        case Expired(failure=failure):
            done = _ended(claim, job, OutcomeKind.EXPIRED, ended_at, failure)
            return _bury(done, claim, DeadReason.EXPIRED, policy)
        case Unrunnable(failure=failure, reason=reason):
            done = _ended(claim, job, OutcomeKind.UNRUNNABLE, ended_at, failure)
            return _bury(done, claim, reason, policy)
        case _:
            assert_never(outcome)


_FAILURES = frozenset({OutcomeKind.RAISED, OutcomeKind.RETRIED, OutcomeKind.TIMED_OUT})


def _ended(claim: Claim, job: Job, kind: OutcomeKind, ended_at: float, failure: Failure | None = None) -> Job:
    attempt = Attempt(
        number=job.starts + 1,
        worker_id=claim.lease.owner,
        started_at=claim.started_at,
        ended_at=ended_at,
        outcome=kind,
        failure=failure,
    )
    return evolve_job(
        job,
        starts=job.starts + 1,
        failures=job.failures + (kind in _FAILURES),
        attempts=_kept((*job.attempts, attempt)),
    )


def _kept(attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    if len(attempts) <= MAX_ATTEMPTS_KEPT:
        return attempts
    return (attempts[0], *attempts[-(MAX_ATTEMPTS_KEPT - 1) :])


def _result_ttl(job: Job, policy: Policy) -> float:
    return max(0.0, min(policy.result_ttl if job.result_ttl is None else job.result_ttl, MAX_RESULT_TTL))


def _succeed(claim: Claim, job: Job, outcome: Succeeded, policy: Policy, ended_at: float) -> Finish:
    # Without a result nobody reads the history, and building it costs as much as running a small task.
    ttl = _result_ttl(job, policy)
    done = _ended(claim, job, OutcomeKind.SUCCEEDED, ended_at, outcome.despite) if ttl else job
    return _assemble_finish(done, JobState.SUCCEEDED, outcome.value, ttl, ended_at)


def _failed(job: Job, claim: Claim, delay: float | None, policy: Policy) -> Decision:
    last = job.attempts[-1]
    if delay is None or job.failures >= policy.max_attempts:
        reason = DeadReason.TIMED_OUT if last.outcome is OutcomeKind.TIMED_OUT else DeadReason.FAILED
        return _bury(job, claim, reason, policy)
    return Requeue(job=job, delay=delay, place=Place.BACK, outcome=last.outcome)


def _rescue(claim: Claim, job: Job, policy: Policy, ended_at: float) -> Decision:
    if job.rescue_count < job.max_rescues:
        done = evolve_job(
            _ended(claim, job, OutcomeKind.LEASE_EXPIRED, ended_at),
            rescue_count=job.rescue_count + 1,
        )
        return Requeue(job=done, delay=None, place=Place.FRONT, outcome=OutcomeKind.LEASE_EXPIRED)
    workers = [a.worker_id for a in job.attempts if a.outcome is OutcomeKind.LEASE_EXPIRED] + [claim.lease.owner]
    failure = Failure(
        exception_class="django_vtasks.jobs.errors.RescuedTooOften",
        message=f"Exceeded max_rescues ({job.max_rescues}): the lease expired on {', '.join(workers)}",
        fingerprint=f"{job.func}:RescuedTooOften",
    )
    return _bury(
        _ended(claim, job, OutcomeKind.LEASE_EXPIRED, ended_at, failure), claim, DeadReason.RESCUED_TOO_OFTEN, policy
    )


def _bury(job: Job, claim: Claim, reason: DeadReason, policy: Policy) -> Bury:
    last = job.attempts[-1]
    failure = last.failure or Failure(exception_class="", message=reason.value)
    first = next((a.ended_at for a in job.attempts if a.failure), last.ended_at)
    letter = DeadLetter(
        id=job.id,
        raw=claim.raw,
        queue=job.queue,
        job=job,
        reason=reason,
        failure=failure,
        first_failed_at=first,
        failed_at=last.ended_at,
    )
    return Bury(letter=letter, result_ttl=_result_ttl(job, policy))


def _bury_undecodable(claim: Claim, outcome: Outcome, policy: Policy, ended_at: float) -> Bury:
    failure = outcome.failure if isinstance(outcome, Unrunnable) else None
    letter = DeadLetter(
        id=claim.lease.job_id,
        raw=claim.raw,
        queue=claim.queue,
        job=None,
        reason=DeadReason.UNDECODABLE,
        failure=failure
        or Failure(
            exception_class="django_vtasks.jobs.errors.JobUndecodable",
            message=claim.defect or "the stored bytes are not a job",
            fingerprint="undecodable",
        ),
        first_failed_at=ended_at,
        failed_at=ended_at,
    )
    return Bury(letter=letter, result_ttl=max(0.0, min(policy.result_ttl, MAX_RESULT_TTL)))


def cancelled(job: Job, raw: bytes, at: float, policy: Policy) -> Bury:
    """What becomes of a job that is cancelled while it waits: a dead letter and a result like that of any end."""
    return Bury(letter=cancelled_letter(job, raw, at), result_ttl=_result_ttl(job, policy))


def cancelled_letter(job: Job, raw: bytes, at: float) -> DeadLetter:
    """The dead letter of a job that was cancelled while it waited; no attempt is added."""
    failure = Failure(
        exception_class="django_vtasks.jobs.errors.JobCancelled",
        message="Cancelled while it waited",
        fingerprint=f"{job.func}:JobCancelled",
    )
    return DeadLetter(
        id=job.id,
        raw=raw,
        queue=job.queue,
        job=job,
        reason=DeadReason.CANCELLED,
        failure=failure,
        first_failed_at=at,
        failed_at=at,
    )


def fresh(job: Job, *, new_id: str, at: float) -> Job:
    """A dead job as a new one enqueued at `at`: it knows the old one, and nothing counts against it."""
    return evolve_job(
        job,
        id=new_id,
        retry_of=job.id,
        enqueued_at=at,
        run_after=None,
        expires_at=None,
        starts=0,
        failures=0,
        rescue_count=0,
        attempts=(),
    )
