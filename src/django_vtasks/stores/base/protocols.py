"""The three protocols, named after who holds them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ...jobs.model import Claim, DeadLetter, Job, JobRecord, Lease, Progress
from ...jobs.samples import Sample
from ...jobs.transitions import Settlement
from .values import (
    Added,
    CancelStatus,
    ClaimRequest,
    Connections,
    Exchange,
    Firing,
    JobFilter,
    LetterGroup,
    Page,
    Pulse,
    Purged,
    QueueCounts,
    Redrive,
    Retention,
    Standing,
    WorkerInfo,
)


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
        """What is known of a job; None when nothing is (never was, malformed id, or pruned).

        Of a job whose `result_ttl` is 0 and that is not dead a store need not know anything by its id: it may be
        unknown to `get` and `cancel` while it waits and runs.
        """
        ...

    async def aget(self, job_id: str) -> JobRecord | None:
        """As `get`."""
        ...

    def until_ended(self, job_id: str, timeout: float | None) -> bool:
        """Wait until the job is over, or not known; False after `timeout` seconds (None = never).

        Woken by the store where that can be, else by looking at growing intervals. Any number may wait at once, in
        threads and event loops, on a bounded number of connections, and no end is missed. Raises StoreUnavailable.
        """
        ...

    async def auntil_ended(self, job_id: str, timeout: float | None) -> bool:
        """As `until_ended`."""
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

    parts: int
    """Into how many rounds many free slots are best divided: several where a round costs so little by itself that
    what one of them brought can run while the next is under way, one where it costs a commit."""

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

    async def glance(self) -> list[QueueCounts]:
        """As `AdminStore.counts`, of at least the queues that workers serve, and cheap enough to be asked often."""
        ...

    async def record(self, owner: str, span: int, samples: Sequence[Sample]) -> None:
        """Keep what an incarnation did in one span (`jobs.samples`) in the place of what it wrote of it before. It is
        kept an hour longer than the span, whatever becomes of the worker, and then vanishes."""
        ...

    async def now(self) -> float:
        """The store's clock."""
        ...

    def connections(self) -> Mapping[str, Connections]:
        """The connections of this worker to the server, by what they are for: `store`, `lease`, `wait`. Asks nobody:
        one that the server ended counts until its next use. Empty for a store without a server."""
        ...


class AdminStore(Protocol):
    """What operators hold, through the admin and the command line. Sync only."""

    def counts(self) -> list[QueueCounts]:
        """Every queue that has jobs or is paused, by name."""
        ...

    def page(self, which: JobFilter, *, after: str | None = None, limit: int = 50) -> Page:
        """Some of the jobs meant; `after` is the `next_cursor` of the page before. Raises InvalidCursor."""
        ...

    def standing(self, job_id: str) -> Standing | None:
        """What is known of a job and of what keeps it where it is; None when nothing is known."""
        ...

    def letter_groups(self, limit: int = 100) -> list[LetterGroup]:
        """Dead letters grouped by fingerprint, the largest group first."""
        ...

    def redrive(self, ids: Sequence[str], changes: Redrive) -> list[Added]:
        """Enqueue dead letters again as new jobs that know the old one (`Redrive.applied`), each in one atomic step
        with the removal of the letter; the old result stays its time. A letter that is not there, whose unique key
        is taken, or whose bytes still do not decode is left alone and reported as DUPLICATE."""
        ...

    def restore(self, letters: Sequence[DeadLetter]) -> int:
        """Put exported dead letters in, as they are. One whose id the store knows is left alone; the oldest beyond the
        cap are evicted as ever. Returns how many were put in."""
        ...

    def hasten(self, ids: Sequence[str]) -> int:
        """Make scheduled jobs ready at once, each in one atomic step, with `run_after` None; returns how many. A job
        in any other state is left alone."""
        ...

    def delete(self, which: JobFilter, limit: int = 1000) -> int:
        """Remove up to `limit` of the waiting, dead or finished jobs meant with all that is known of them, freeing
        unique keys; returns how many. Leased jobs are never removed: cancel them."""
        ...

    def level_priorities(self) -> int:
        """Move ready jobs that a 3.2 worker would not find to where it looks, in order; returns how many. A store in
        which it finds them all does nothing."""
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

    def samples(self) -> list[Sample]:
        """What the queues did in the last hour: of all workers together, by bucket and queue."""
        ...

    def recorded_slots(self, entries: Sequence[str]) -> Mapping[str, float]:
        """The last recorded slot of each schedule entry that has one."""
        ...
