"""The values that stores and their holders exchange."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import orjson

from ...jobs.assembling import assembler
from ...jobs.errors import InvalidCursor
from ...jobs.model import Claim, Job, JobRecord, JobState
from ...jobs.transitions import fresh

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


assemble_added = assembler(Added)


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
class Connections:
    """Connections of one kind: how many are open now, and how many were opened so far, lost ones included."""

    open: int = 0
    opened: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What a worker learns once a second: tokens of its own whose job was cancelled, queues that are paused, how many
    scheduled jobs became ready, and in how many seconds the next one will, or a rate lets the next job start (None =
    none is waiting)."""

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


def everything_of(job: Job) -> str:
    """Id, path and arguments of a job in one text."""
    return " ".join((job.id, job.func, orjson.dumps([job.args, job.kwargs]).decode()))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs of one state are meant; empty parts do not restrict. `text` is looked for in what `searchable` gives
    of a job."""

    state: JobState
    queue: str | None = None
    func: str | None = None
    text: str | None = None
    fingerprint: str | None = None
    reason: str | None = None
    ids: tuple[str, ...] = ()
    searchable: Callable[[Job], str] = everything_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some jobs in the state's natural order, and the cursor for the next page (None = this was the last).

    Scheduled jobs come by due time, ready ones queue by queue as they will be claimed (those that wait for a limit
    last), leased ones by start, all others newest first.
    """

    records: tuple[JobRecord, ...]
    next_cursor: str | None = None


FARTHEST = 1 << 53
"""No list is as long."""


def position(cursor: str | None) -> int:
    """The position that a cursor is, where cursors are positions. Raises InvalidCursor for another text."""
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= len(str(FARTHEST)) and int(cursor) < FARTHEST):
        raise InvalidCursor(cursor)
    return int(cursor)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterGroup:
    """Dead letters that look alike: same task, exception class and raising line. `message` is that of one of them, and
    `job` is its job (None: its bytes are none), which says what of the message is not to be shown."""

    fingerprint: str
    func: str
    exception_class: str
    message: str
    count: int
    first_failed_at: float
    last_failed_at: float
    job: Job | None = None


MAX_AHEAD = 10_000
"""`Standing.ahead` counts no further than this, so that the question is cheap in any queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One job and what keeps it where it is, read at `now` of the store's clock.

    Of a ready job, `ahead` is how many of its queue will be claimed before it, and `ahead_by_priority` how many of
    those because their priority is higher; both stop at `MAX_AHEAD`. Of one that waits for its limit, only those with
    the same limit are ahead. `key_holder` is the id of another job that has
    its unique key (empty text when the holder is not known). Of a leased job, `lease_until` is when its lease runs
    out, None when it is released or gone. Of a ready job with limits, `permit_holders` are the ids of the jobs that
    hold a permit of its concurrency key, and `rate_free_at` is when its rate lets the next job start.
    """

    record: JobRecord
    now: float
    ahead: int = 0
    ahead_by_priority: int = 0
    key_holder: str | None = None
    lease_until: float | None = None
    cancel_requested: bool = False
    permit_holders: tuple[str, ...] = ()
    rate_free_at: float | None = None


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
