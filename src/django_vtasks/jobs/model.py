"""The values every other module speaks of: job, attempt, failure, dead letter, record.

Times are seconds since the epoch (UTC) as floats, durations are seconds. A value is never changed;
`dataclasses.replace` makes the next one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any

from .assembling import assembler
from .limits import JobLimit

MAX_ATTEMPTS_KEPT = 25
"""How many attempts of one job are kept in its history; the oldest after the first go first."""


class UniqueMode(StrEnum):
    """How long a job keeps its unique key; keys are one namespace for all queues of a store.

    UNTIL_DONE: until the job is finished or dead, through retries and rescues. UNTIL_STARTED and DEBOUNCE: until it
    is first claimed, and never again. WINDOW: for `window` seconds from its enqueue, whatever becomes of the job. In
    every mode a waiting job that is cancelled or deleted gives its key back.

    A DEBOUNCE job that meets a waiting DEBOUNCE holder of its key replaces it, see `uniqueness.debounced`.
    """

    UNTIL_DONE = "until_done"
    UNTIL_STARTED = "until_started"
    WINDOW = "window"
    DEBOUNCE = "debounce"


class JobState(StrEnum):
    """Where a job is. A job is in exactly one of these places."""

    SCHEDULED = "scheduled"
    READY = "ready"
    LEASED = "leased"
    SUCCEEDED = "succeeded"
    DISCARDED = "discarded"
    DEAD = "dead"

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, whatever its end."""
        return self in _OVER


_OVER = frozenset((JobState.SUCCEEDED, JobState.DISCARDED, JobState.DEAD))


class OutcomeKind(StrEnum):
    """How an attempt ended, as written into the job's history."""

    SUCCEEDED = "succeeded"
    RAISED = "raised"
    RETRIED = "retried"
    SNOOZED = "snoozed"
    DISCARDED = "discarded"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    LEASE_EXPIRED = "lease_expired"
    UNRUNNABLE = "unrunnable"
    EXPIRED = "expired"


class DeadReason(StrEnum):
    """Why a job became a dead letter."""

    FAILED = "failed"
    TIMED_OUT = "timed_out"
    RESCUED_TOO_OFTEN = "rescued_too_often"
    EXPIRED = "expired"
    UNDECODABLE = "undecodable"
    UNKNOWN_TASK = "unknown_task"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """The unique key of a job and how long the job keeps it.

    `window` is in seconds: how long for WINDOW (required there), at most how long after its first enqueue a DEBOUNCE
    job may be put off (None = without limit), without a meaning otherwise.
    """

    key: str
    mode: UniqueMode = UniqueMode.UNTIL_DONE
    window: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An exception as text: dotted class path, message, traceback, and a fingerprint that groups alike ones."""

    exception_class: str
    message: str
    traceback: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of a job by one worker, over and done."""

    number: int
    worker_id: str
    started_at: float
    ended_at: float
    outcome: OutcomeKind
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One enqueued call, as it waits.

    `starts` counts the attempts begun so far, `failures` those that count against `max_attempts`, and
    `rescue_count` those whose lease expired. `extra` holds payload fields this version does not know; they are
    written back unchanged.
    """

    id: str
    func: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    queue: str = "default"
    priority: int = 0
    enqueued_at: float = 0.0
    run_after: float | None = None
    unique: Unique | None = None
    max_rescues: int = 0
    rescue_count: int = 0
    starts: int = 0
    failures: int = 0
    attempts: tuple[Attempt, ...] = ()
    result_ttl: float | None = None
    expires_at: float | None = None
    retry_of: str | None = None
    limit: JobLimit | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    trace: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    encoded: bytes | None = field(default=None, init=False, repr=False, compare=False)
    """The JSON of the job where it was written together with the job; a changed copy has none."""


_FIELDS = tuple(item.name for item in fields(Job) if item.init)
_POSITION = {name: position for position, name in enumerate(_FIELDS)}
job_values = attrgetter(*_FIELDS)
"""The values of a job's fields, in their order: what `assemble_job` takes."""
assemble_job = assembler(Job)
"""A job from the values of all its fields, in their order, and its JSON if there is any."""


def ready_since(job: Job) -> float:
    """When the attempt that is next, or under way, could have begun (epoch seconds)."""
    last = job.attempts[-1].ended_at if job.attempts else 0.0
    return max(job.enqueued_at, job.run_after or 0.0, last)


def evolve_job(job: Job, **changes: Any) -> Job:
    """As `dataclasses.replace`, in a third of the time."""
    values = list(job_values(job))
    for name, value in changes.items():
        values[_POSITION[name]] = value
    return assemble_job(*values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to run one job, proven by `token`; `owner` is the incarnation of the worker that has it."""

    job_id: str
    token: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A job together with its lease.

    `raw` is the stored payload. `job` is None when `raw` does not decode; `defect` then says why.
    `started_at` is the store's clock at the claim.
    """

    lease: Lease
    raw: bytes
    queue: str
    started_at: float
    job: Job | None
    defect: str | None = None


assemble_lease = assembler(Lease)
assemble_claim = assembler(Claim)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A job that failed for good. `job` is None when the bytes do not decode; `raw` always has them."""

    id: str
    raw: bytes
    queue: str
    job: Job | None
    reason: DeadReason
    failure: Failure
    first_failed_at: float
    failed_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The attempt under way: which incarnation has the lease and since when."""

    worker_id: str
    started_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a running job last said of itself; `total` None means the end is not known."""

    done: float
    total: float | None = None
    message: str = ""
    updated_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """Everything a store knows about one job: what `get` and the admin's pages return.

    `value` is the return value as JSON text, present once the job has succeeded and while its result is kept.
    `letter` is present as long as a dead job's letter is. For bytes that do not decode, `job` is a stand-in that
    knows `id` and `queue` only. `stands_for` is the id that was asked for, where that was the id of a duplicate.
    """

    job: Job
    state: JobState
    running: Running | None = None
    finished_at: float | None = None
    value: bytes | None = None
    progress: Progress | None = None
    letter: DeadLetter | None = None
    stands_for: str | None = None

    @property
    def started_at(self) -> float | None:
        """When the first attempt began."""
        if self.job.attempts:
            return self.job.attempts[0].started_at
        return self.running.started_at if self.running else None

    @property
    def last_attempted_at(self) -> float | None:
        """When the latest attempt began."""
        if self.running:
            return self.running.started_at
        return self.job.attempts[-1].started_at if self.job.attempts else None

    @property
    def worker_ids(self) -> tuple[str, ...]:
        """The incarnation of every attempt, oldest first, the running one included."""
        past = tuple(attempt.worker_id for attempt in self.job.attempts)
        return (*past, self.running.worker_id) if self.running else past
