"""What the memory store knows, and the moves a job can make. The caller holds `State.lock`."""

import itertools
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...jobs.codec import decode, decode_letter, encode, encode_letter
from ...jobs.errors import CodecError
from ...jobs.model import Claim, DeadLetter, Job, JobRecord, JobState, Lease, Progress, UniqueMode
from ...jobs.transitions import Bury, Finish, Place, Requeue, Settlement
from ...jobs.uniqueness import debounced
from ..base import Added, AddStatus, WorkerInfo
from ..base.ends import Ends
from .limits import Limits
from .order import Order
from .stored import Stored
from .waiters import Waiters

if TYPE_CHECKING:
    from ...jobs.samples import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The record of an ended job and until when it is kept."""

    record: JobRecord
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Who has a unique key, and until when (None = until given back)."""

    job_id: str
    until: float | None


class State:
    """Owns every table of the memory store. Each public method is one atomic step."""

    def __init__(self, clock: Callable[[], float], dead_letter_cap: int) -> None:
        self.now = clock
        self.new_id = _new_id
        self.dead_letter_cap = dead_letter_cap
        self.lock = threading.RLock()
        self.waiters = Waiters()
        self.ends = Ends()
        self.limits = Limits(clock, self.waiters.wake)
        self.jobs: dict[str, Stored] = {}
        self.leased: dict[str, Stored] = {}
        self.ready: defaultdict[str, Order] = defaultdict(Order)
        self.scheduled = Order()
        self.letters: dict[str, JobRecord] = {}
        self.results: dict[str, Kept] = {}
        self.keys: dict[str, Held] = {}
        self.leases: dict[str, float] = {}
        self.workers: dict[str, WorkerInfo] = {}
        self.roles: dict[str, tuple[str, float]] = {}
        self.slots: dict[str, float] = {}
        self.samples: dict[tuple[int, str], tuple[Sample, ...]] = {}
        self.paused: set[str] = set()
        self._numbers = itertools.count(1)

    # --- in ------------------------------------------------------------------------------------------------------

    def add(self, job: Job, raw: bytes) -> Added:
        """Add a job and its payload, unless its id is known or its unique key is taken."""
        if self.record(job.id) is not None:
            return Added(status=AddStatus.ADDED, job_id=job.id)
        holder = self.holder(job)
        if holder is not None:
            return self._join(job, holder)
        self._take_key(job)
        self._wait(Stored(raw=raw, queue=job.queue, job=decode(raw)))
        return Added(status=AddStatus.ADDED, job_id=job.id)

    def inject(self, queue: str, raw: bytes) -> None:
        """Put bytes into a queue as a foreign producer would: unchecked, without a lock."""
        new_id = self.new_id()
        try:
            job, defect = decode(raw, fallback_id=new_id, fallback_queue=queue), None
        except CodecError as error:
            job, defect = Job(id=new_id, func="", queue=queue), str(error)
        if self.record(job.id) is not None:
            job = replace(job, id=new_id)
        self._wait(Stored(raw=raw, queue=queue, job=job, defect=defect))

    # --- through -------------------------------------------------------------------------------------------------

    def claim(self, queue: str, limit: int, owner: str) -> Iterator[Claim]:
        """Lease the first `limit` ready jobs of a queue to an incarnation."""
        for _ in range(limit):
            stored = self.limits.take_first(queue, self.ready[queue], self.jobs)
            if stored is None:
                return
            stored.state = JobState.LEASED
            stored.lease = Lease(job_id=stored.job.id, token=str(next(self._numbers)), owner=owner)
            stored.started_at = self.now()
            self.leased[stored.lease.token] = stored
            if stored.job.unique and stored.job.unique.mode in _UNTIL_CLAIMED:
                self._give_key_back(stored.job)
            if stored.job.limit:
                self.limits.hold(stored.job.limit, stored.lease.token, stored.job.id)
            yield stored.claim()

    def settle(self, settlement: Settlement) -> bool:
        """Write a decision if its lease still holds; False when it does not."""
        lease = settlement.claim.lease
        stored = self.leased.get(lease.token)
        if stored is None or (settlement.reclaim and self.lease_is_live(lease.owner)):
            return False
        del self.leased[lease.token]
        stored.lease = None
        if stored.job.limit:
            self.limits.free(stored.job.limit, lease.token)
        match settlement.decision:
            case Requeue() as requeue:
                self._requeue(stored, requeue)
            case Finish() as finish:
                self._end(stored)
                record = JobRecord(
                    job=finish.job,
                    state=finish.state,
                    finished_at=finish.finished_at,
                    value=finish.value if finish.state is JobState.SUCCEEDED else None,
                    progress=stored.progress,
                )
                self._keep(record, finish.result_ttl)
            case Bury() as bury:
                self._end(stored)
                self._keep(replace(self.bury(bury.letter, stored.progress), letter=None), bury.result_ttl)
        return True

    def promote(self, limit: int) -> int:
        """Make up to `limit` due jobs ready; returns how many."""
        due = self.scheduled.take(limit, below=self.now())
        for job_id in due:
            self._make_ready(self.jobs[job_id])
        return len(due)

    # --- out -----------------------------------------------------------------------------------------------------

    def bury(self, letter: DeadLetter, progress: Progress | None) -> JobRecord:
        """Keep a dead letter, as its bytes say it."""
        letter = replace(decode_letter(encode_letter(letter, compress=False)), raw=letter.raw)
        record = JobRecord(
            job=letter.job or Job(id=letter.id, func="", queue=letter.queue),
            state=JobState.DEAD,
            finished_at=letter.failed_at,
            progress=progress,
            letter=letter,
        )
        self.letters[letter.id] = record
        return record

    def evict(self, cap: int, limit: int | None = None) -> int:
        """Remove the oldest dead letters beyond a cap; returns how many."""
        surplus = list(self.letters)[: max(0, len(self.letters) - cap)][:limit]
        for letter_id in surplus:
            del self.letters[letter_id]
        return len(surplus)

    def withdraw(self, stored: Stored) -> None:
        """Take a waiting job out and give its unique key back, whatever the mode."""
        self.ends.tell(stored.job.id)
        self._remove_from_line(stored)
        del self.jobs[stored.job.id]
        self._give_key_back(stored.job)

    def hasten(self, stored: Stored) -> None:
        """Make a scheduled job ready before its time."""
        self._remove_from_line(stored)
        stored.job = replace(stored.job, run_after=None)
        stored.raw = encode(stored.job, compress=False)
        self._make_ready(stored)

    # --- questions -----------------------------------------------------------------------------------------------

    def record(self, job_id: str) -> JobRecord | None:
        """What is known of a job."""
        if stored := self.jobs.get(job_id):
            return stored.record()
        return self.letters.get(job_id) or self.result(job_id)

    def result(self, job_id: str) -> JobRecord | None:
        """The result of a job while it is kept."""
        kept = self.results.get(job_id)
        return kept.record if kept and kept.until > self.now() else None

    def holder(self, job: Job) -> Held | None:
        """Who has the unique key of a job, itself included."""
        held = self.keys.get(job.unique.key) if job.unique else None
        return held if held and (held.until is None or held.until > self.now()) else None

    def lease_is_live(self, owner: str) -> bool:
        """Whether an incarnation has a lease that has not run out."""
        return self.leases.get(owner, 0.0) > self.now()

    # --- how it is done ------------------------------------------------------------------------------------------

    def _wait(self, stored: Stored) -> None:
        self.jobs[stored.job.id] = stored
        stored.rank = next(self._numbers)
        due_at = stored.job.run_after
        if due_at is not None and due_at > self.now():
            self._schedule(stored, due_at)
        else:
            self._make_ready(stored)

    def _schedule(self, stored: Stored, due_at: float) -> None:
        stored.state = JobState.SCHEDULED
        stored.job = replace(stored.job, run_after=due_at)
        self.scheduled.put(due_at, stored.rank, stored.job.id)

    def _make_ready(self, stored: Stored) -> None:
        stored.state = JobState.READY
        stored.ready_at = self.now()
        stored.rank = next(self._numbers)
        self._line_up(stored)

    def _line_up(self, stored: Stored) -> None:
        self.ready[stored.queue].put(*stored.place, stored.job.id)
        self.waiters.wake(stored.queue)

    def _remove_from_line(self, stored: Stored) -> None:
        if stored.state is JobState.SCHEDULED:
            self.scheduled.remove(stored.job.run_after or 0.0, stored.rank, stored.job.id)
        else:
            self.limits.leave(stored, self.ready[stored.queue])

    def _requeue(self, stored: Stored, requeue: Requeue) -> None:
        stored.raw = encode(requeue.job, compress=False)
        stored.job = decode(stored.raw)
        stored.queue = requeue.job.queue
        if requeue.delay is not None and requeue.delay > 0:
            self._schedule(stored, self.now() + requeue.delay)
        elif requeue.place is Place.FRONT:
            stored.state = JobState.READY
            stored.ready_at = self.now()
            self._line_up(stored)
        else:
            self._make_ready(stored)

    def _end(self, stored: Stored) -> None:
        self.ends.tell(stored.job.id)
        del self.jobs[stored.job.id]
        if stored.job.unique and stored.job.unique.mode is not UniqueMode.WINDOW:
            self._give_key_back(stored.job)

    def _keep(self, record: JobRecord, seconds: float) -> None:
        if seconds > 0:
            self.results[record.job.id] = Kept(record=record, until=self.now() + seconds)

    def _join(self, job: Job, holder: Held) -> Added:
        waiting = self.jobs.get(holder.job_id)
        if waiting is None or waiting.state is JobState.LEASED or not (_debounces(waiting.job) and _debounces(job)):
            return Added(status=AddStatus.DUPLICATE, job_id=holder.job_id)
        self._remove_from_line(waiting)
        raw = encode(debounced(waiting.job, job), compress=False)
        self._wait(replace(waiting, raw=raw, job=decode(raw), queue=job.queue))
        return Added(status=AddStatus.REPLACED, job_id=holder.job_id)

    def _take_key(self, job: Job) -> None:
        if job.unique is None:
            return
        until = None
        if job.unique.mode is UniqueMode.WINDOW:
            until = self.now() + (job.unique.window or 0.0)
        self.keys[job.unique.key] = Held(job_id=job.id, until=until)

    def _give_key_back(self, job: Job) -> None:
        held = self.keys.get(job.unique.key) if job.unique else None
        if job.unique and held and held.job_id == job.id:
            del self.keys[job.unique.key]


def _new_id() -> str:
    return uuid.uuid4().hex


_UNTIL_CLAIMED = frozenset((UniqueMode.UNTIL_STARTED, UniqueMode.DEBOUNCE))


def _debounces(job: Job) -> bool:
    return job.unique is not None and job.unique.mode is UniqueMode.DEBOUNCE
