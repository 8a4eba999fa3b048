"""The seam between policy and storage: three protocols, named after who holds them, and the values they exchange.

A store writes decisions down, each in one atomic step, and decides nothing. Times are epoch seconds by the store's
own clock (Valkey `TIME`, the database's now); durations are seconds. Driver errors leave a store as
`StoreUnavailable` (try again later) or `StoreRefused` (the server said no).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from ..jobs.model import Claim, Job, JobRecord, JobState, Lease, Progress
from ..jobs.transitions import Settlement, fresh

# --- values the application side exchanges -----------------------------------------------------------------------


class AddStatus(StrEnum):
    """What became of a job given to `add`."""

    ADDED = "added"
    DUPLICATE = "duplicate"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """The answer to one added job. `job_id` is the job that now stands for it: its own id, or the id of the job that
    has the unique key (None when the holder is not known, as with a lock of the 3.2 line)."""

    status: AddStatus
    job_id: str | None


class CancelStatus(StrEnum):
    """What `cancel` found."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    FINISHED = "finished"
    UNKNOWN = "unknown"


# --- values the worker exchanges ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """How many jobs of one queue a worker has free slots for."""

    queue: str
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Claim at most `limit` jobs in all, queues in the order given, for the incarnation `owner`."""

    owner: str
    wants: tuple[Want, ...]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What one round with the store brought: claims, the tokens whose settlement was refused because the lease was
    lost, and how many dead letters were evicted to make room."""

    claims: tuple[Claim, ...] = ()
    refused: frozenset[str] = frozenset()
    evicted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """What a worker says of itself. `incarnation` is `worker_id` plus a nonce made at start."""

    incarnation: str
    worker_id: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    concurrency: int
    started_at: float
    running: int = 0
    seen_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What a worker learns once a second: tokens of its own whose job was cancelled, queues that are paused, how many
    scheduled jobs became ready, and in how many seconds the next one will (None = none is waiting)."""

    cancelled: frozenset[str] = frozenset()
    paused: frozenset[str] = frozenset()
    promoted: int = 0
    next_due_in: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much a store keeps: dead letters per alias, and their age in seconds (None = any)."""

    dead_letter_cap: int = 1000
    dead_letter_age: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """What one `purge` removed."""

    results: int = 0
    dead_letters: int = 0
    workers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One slot of one schedule entry, to be enqueued at most once.

    `expected` is the last slot the caller knows of (None = never fired); the store fires only if that is so still.
    `job` None records the slot without enqueuing (first sight of an entry, or a slot that is skipped).
    """

    entry: str
    slot: float
    expected: float | None
    job: Job | None


# --- values the admin side exchanges -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """One queue at a glance. `oldest_ready_at` is when the job waiting longest became ready (where the store does not
    know that, when it was enqueued), None when none waits."""

    queue: str
    ready: int = 0
    scheduled: int = 0
    leased: int = 0
    dead: int = 0
    oldest_ready_at: float | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs of one state are meant; empty parts do not restrict. `text` is searched in id, path and arguments."""

    state: JobState
    queue: str | None = None
    func: str | None = None
    text: str | None = None
    fingerprint: str | None = None
    reason: str | None = None
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some jobs in the state's natural order, and the cursor for the next page (None = this was the last).

    Scheduled jobs come by due time, ready ones queue by queue as they will be claimed, leased ones by start, all
    others newest first.
    """

    records: tuple[JobRecord, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterGroup:
    """Dead letters that look alike: same task, exception class and raising line."""

    fingerprint: str
    func: str
    exception_class: str
    message: str
    count: int
    first_failed_at: float
    last_failed_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """Changes to a dead letter's job before it is enqueued again; None leaves a part as it is.

    `delays` are seconds for each letter in turn; letters beyond its end are enqueued without a delay.
    """

    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None
    queue: str | None = None
    delays: Sequence[float] = ()

    def applied(self, job: Job, *, new_id: str, at: float, position: int) -> Job:
        """The new job for the letter at `position` of those redriven at `at`."""
        delay = self.delays[position] if position < len(self.delays) else 0.0
        return replace(
            fresh(job, new_id=new_id, at=at),
            args=job.args if self.args is None else self.args,
            kwargs=job.kwargs if self.kwargs is None else self.kwargs,
            queue=job.queue if self.queue is None else self.queue,
            run_after=at + delay if delay > 0 else None,
        )


# --- the protocols -----------------------------------------------------------------------------------------------


class ClientStore(Protocol):
    """What application code holds: enqueue, read, cancel. Every coroutine has a sync twin over the same body."""

    @property
    def transactional(self) -> bool:
        """Whether `add` joins the caller's database transaction; if not, the backend defers it to the commit."""
        ...

    def new_id(self) -> str:
        """A fresh job id in this store's form."""
        ...

    def add(self, jobs: Sequence[Job]) -> list[Added]:
        """Add jobs: ready, or scheduled when `run_after` is in the future. All or, on an error, none of a chunk.

        A job with a unique key is added only if the key is free, taken in the same atomic step; see `UniqueMode`.
        A duplicate leaves no trace of its own id. Adding an id that the store knows changes nothing and reports
        ADDED, so one retry after a lost reply is safe. Raises CodecError for a job that is not JSON.
        """
        ...

    async def aadd(self, jobs: Sequence[Job]) -> list[Added]:
        """As `add`."""
        ...

    def get(self, job_id: str) -> JobRecord | None:
        """What is known of a job; None when nothing is (never was, malformed id, or pruned)."""
        ...

    async def aget(self, job_id: str) -> JobRecord | None:
        """As `get`."""
        ...

    def cancel(self, job_id: str) -> CancelStatus:
        """A waiting job becomes a dead letter (`transitions.cancelled_letter`) and frees its unique key; for a leased
        one the request is recorded and its worker is told by the next `pulse`. The request stays with the job until
        it ends: an attempt that begins later is told as well."""
        ...

    async def acancel(self, job_id: str) -> CancelStatus:
        """As `cancel`."""
        ...


class WorkerStore(Protocol):
    """What a worker holds. Coroutines unless said otherwise; one event loop uses one instance."""

    async def open(self) -> None:
        """Connect, or raise StoreUnavailable. Safe to call again after a failure."""
        ...

    async def close(self) -> None:
        """Release connections and threads; never raises."""
        ...

    async def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> Exchange:
        """Write settlements and claim jobs in one round trip.

        Each settlement takes effect only if its token is still that of the job's lease (and, with `reclaim`, if that
        lease is expired); the others come back in `refused` and change nothing. A lease that ran out but was not
        reclaimed still counts. Settling the same token twice is refused the second time and harmless. Settlements
        are written first, so a job that goes back may be claimed by the same call.

        Of one queue, jobs of higher priority come first, and inside one priority in the order in which they became
        ready; those put back at the front come before all of their priority. An incarnation without a live lease
        claims nothing, since what it took would be anybody's. Retried after a lost reply, a round may return claims
        of which the first reply told nothing: see `held`.
        """
        ...

    async def wait_for_jobs(self, queues: Sequence[str], timeout: float) -> bool:
        """Wait until something may be ready in one of the queues; False after `timeout` seconds. May wake for
        nothing. Returns or raises StoreUnavailable within the timeout plus slack even if the server hangs."""
        ...

    def extend(self, owner: str, seconds: float) -> bool:
        """Renew the lease of an incarnation for `seconds` from now by the store's clock; creates it when absent.

        Called from the lease thread, on a connection of its own; blocks at most about `seconds / 3`. Returns False
        when there was no live lease to renew: at the first call, and after it ran out, so that what it covered may
        be somebody else's by now.
        """
        ...

    def release(self, owner: str) -> None:
        """End the lease of an incarnation at once, at a graceful stop; what it still covers is expired. Called like
        `extend`; no error when there is none."""
        ...

    async def held(self, owner: str) -> tuple[Claim, ...]:
        """Every claim the store says this incarnation has, for comparison with what is running."""
        ...

    async def pulse(self, owner: str, limit: int) -> Pulse:
        """Move up to `limit` due jobs of every queue from scheduled to ready (never early), and tell what changed
        from outside."""
        ...

    async def expired(self, limit: int) -> tuple[Claim, ...]:
        """Up to `limit` claims whose lease has run out or was released, those of dead 3.2 workers included. Changes
        nothing: settle them with `reclaim`. Their jobs carry the metadata last recorded by `progress`, so that the
        next attempt has it."""
        ...

    async def progress(self, lease: Lease, progress: Progress | None, metadata: Mapping[str, Any] | None) -> bool:
        """Record what a running job says of itself (None = nothing new; metadata is replaced as a whole); False and
        no change when the lease is lost. The last progress stays with the job and its result."""
        ...

    async def purge(self, retention: Retention, limit: int) -> Purged:
        """Remove results past their time, dead letters beyond the retention (oldest first), and traces of dead
        workers that hold no job; at most `limit` of each."""
        ...

    async def announce(self, info: WorkerInfo) -> None:
        """Publish what the worker says of itself; it vanishes with the lease."""
        ...

    async def hold(self, role: str, owner: str, seconds: float) -> bool:
        """Take or renew the named role for `seconds`; False while somebody else has it."""
        ...

    async def last_slots(self, entries: Sequence[str]) -> Mapping[str, float]:
        """The last recorded slot of each schedule entry that has one."""
        ...

    async def fire(self, firing: Firing) -> Added | None:
        """Record a slot and enqueue its job in one atomic step, if the last slot is the expected one; else None.

        A job whose unique key is taken is not enqueued, the slot is recorded all the same, and the answer is
        DUPLICATE as in `add`. A firing without a job is answered ADDED with `job_id` None.
        """
        ...

    async def now(self) -> float:
        """The store's clock."""
        ...


class AdminStore(Protocol):
    """What operators hold, through the admin and the command line. Sync only."""

    def counts(self) -> list[QueueCounts]:
        """Every queue that has jobs or is paused, by name."""
        ...

    def page(self, which: JobFilter, *, after: str | None = None, limit: int = 50) -> Page:
        """Some of the jobs meant; `after` is the `next_cursor` of the page before."""
        ...

    def letter_groups(self, limit: int = 100) -> list[LetterGroup]:
        """Dead letters grouped by fingerprint, the largest group first."""
        ...

    def redrive(self, ids: Sequence[str], changes: Redrive) -> list[Added]:
        """Enqueue dead letters again as new jobs that know the old one (`Redrive.applied`), each in one atomic step
        with the removal of the letter; the old result stays its time. A letter that is not there, whose unique key
        is taken, or whose bytes still do not decode is left alone and reported as DUPLICATE."""
        ...

    def delete(self, which: JobFilter, limit: int = 1000) -> int:
        """Remove up to `limit` of the waiting, dead or finished jobs meant with all that is known of them, freeing
        unique keys; returns how many. Leased jobs are never removed: cancel them."""
        ...

    def pause(self, queue: str) -> None:
        """No worker claims from the queue until `resume`; survives restarts."""
        ...

    def resume(self, queue: str) -> None:
        """End a pause."""
        ...

    def workers(self) -> list[WorkerInfo]:
        """Live workers, by id."""
        ...

    def recorded_slots(self, entries: Sequence[str]) -> Mapping[str, float]:
        """The last recorded slot of each schedule entry that has one."""
        ...
