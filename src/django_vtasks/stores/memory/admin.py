"""The operators' side of the memory store."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ...jobs.codec import decode, encode
from ...jobs.errors import CodecError
from ...jobs.model import DeadLetter, Job, JobRecord, JobState
from ...jobs.samples import KEPT, Sample, merged
from ..base import (
    MAX_AHEAD,
    Added,
    AddStatus,
    JobFilter,
    LetterGroup,
    Page,
    QueueCounts,
    Redrive,
    Standing,
    WorkerInfo,
    position,
)
from .counting import counts, ready_ids
from .state import State
from .stored import Stored


class MemoryAdminStore:
    """Look, redrive, delete, pause; see `AdminStore` for each method."""

    def __init__(self, state: State) -> None:
        self._state = state

    # --- looking -------------------------------------------------------------------------------------------------

    def counts(self) -> list[QueueCounts]:
        """See `AdminStore.counts`."""
        return counts(self._state)

    def page(self, which: JobFilter, *, after: str | None = None, limit: int = 50) -> Page:
        """See `AdminStore.page`."""
        start = position(after)
        with self._state.lock:
            meant = self._meant(which)
        more = len(meant) > start + limit
        return Page(records=tuple(meant[start : start + limit]), next_cursor=str(start + limit) if more else None)

    def standing(self, job_id: str) -> Standing | None:
        """See `AdminStore.standing`."""
        state = self._state
        with state.lock:
            record = state.record(job_id)
            if record is None:
                return None
            stored = state.jobs.get(job_id)
            ahead = self._ahead(stored) if stored and stored.state is JobState.READY else []
            lease = stored.lease if stored else None
            limit = record.job.limit if record.state is JobState.READY else None
            return Standing(
                record=record,
                now=state.now(),
                ahead=len(ahead),
                ahead_by_priority=sum(other.priority > record.job.priority for other in ahead),
                key_holder=self._other_holder(record.job),
                lease_until=state.leases.get(lease.owner) if lease else None,
                cancel_requested=stored.cancel_requested if stored else False,
                permit_holders=state.limits.holders(limit) if limit else (),
                rate_free_at=state.limits.rate_free_at(limit) if limit else None,
            )

    def _ahead(self, stored: Stored) -> list[Job]:
        if stored.parked and stored.job.limit:
            before = self._state.limits.before(stored.queue, stored.job.limit, stored.job.id)
            return [self._state.jobs[job_id].job for job_id in before[:MAX_AHEAD]]
        line = list(self._state.ready[stored.queue].ids())
        return [self._state.jobs[job_id].job for job_id in line[: line.index(stored.job.id)][:MAX_AHEAD]]

    def _other_holder(self, job: Job) -> str | None:
        held = self._state.holder(job)
        return held.job_id if held and held.job_id != job.id else None

    def letter_groups(self, limit: int = 100) -> list[LetterGroup]:
        """See `AdminStore.letter_groups`."""
        with self._state.lock:
            groups: defaultdict[str, list[JobRecord]] = defaultdict(list)
            for record in self._state.letters.values():
                groups[_fingerprint(record)].append(record)
        return sorted((_group(*item) for item in groups.items()), key=lambda group: -group.count)[:limit]

    def workers(self) -> list[WorkerInfo]:
        """See `AdminStore.workers`."""
        with self._state.lock:
            live = [info for owner, info in self._state.workers.items() if self._state.lease_is_live(owner)]
        return sorted(live, key=lambda info: info.incarnation)

    def samples(self) -> list[Sample]:
        """See `AdminStore.samples`."""
        state = self._state
        with state.lock:
            return merged(chain.from_iterable(state.samples.values()), since=state.now() - KEPT)

    def recorded_slots(self, entries: Sequence[str]) -> Mapping[str, float]:
        """See `AdminStore.recorded_slots`."""
        with self._state.lock:
            return {entry: self._state.slots[entry] for entry in entries if entry in self._state.slots}

    # --- changing ------------------------------------------------------------------------------------------------

    def redrive(self, ids: Sequence[str], changes: Redrive) -> list[Added]:
        """See `AdminStore.redrive`."""
        with self._state.lock:
            return [self._redrive(letter_id, changes, position) for position, letter_id in enumerate(ids)]

    def _redrive(self, letter_id: str, changes: Redrive, position: int) -> Added:
        state = self._state
        job = self._job_of_letter(letter_id)
        if job is None:
            return Added(status=AddStatus.DUPLICATE, job_id=None)
        new = changes.applied(job, new_id=state.new_id(), at=state.now(), position=position)
        added = state.add(new, encode(new, compress=False))
        if added.status is not AddStatus.DUPLICATE:
            del state.letters[letter_id]
        return added

    def _job_of_letter(self, letter_id: str) -> Job | None:
        record = self._state.letters.get(letter_id)
        if record is None or record.letter is None:
            return None
        try:
            return record.letter.job or decode(
                record.letter.raw, fallback_id=letter_id, fallback_queue=record.job.queue
            )
        except CodecError:
            return None

    def restore(self, letters: Sequence[DeadLetter]) -> int:
        """See `AdminStore.restore`."""
        state = self._state
        with state.lock:
            new = [letter for letter in letters if state.record(letter.id) is None]
            for letter in new:
                state.bury(letter, None)
            state.evict(state.dead_letter_cap)
        return len(new)

    def hasten(self, ids: Sequence[str]) -> int:
        """See `AdminStore.hasten`."""
        state = self._state
        with state.lock:
            waiting = [stored for job_id in ids if (stored := state.jobs.get(job_id))]
            scheduled = [stored for stored in waiting if stored.state is JobState.SCHEDULED]
            for stored in scheduled:
                state.hasten(stored)
        return len(scheduled)

    def delete(self, which: JobFilter, limit: int = 1000) -> int:
        """See `AdminStore.delete`."""
        if which.state is JobState.LEASED:
            return 0
        with self._state.lock:
            meant = self._meant(which)[:limit]
            for record in meant:
                self._forget(record.job.id)
        return len(meant)

    def _forget(self, job_id: str) -> None:
        if stored := self._state.jobs.get(job_id):
            self._state.withdraw(stored)
        self._state.letters.pop(job_id, None)
        self._state.results.pop(job_id, None)

    def level_priorities(self) -> int:
        """See `AdminStore.level_priorities`; there is nothing to move."""
        return 0

    def pause(self, queue: str) -> None:
        """See `AdminStore.pause`."""
        with self._state.lock:
            self._state.paused.add(queue)

    def resume(self, queue: str) -> None:
        """See `AdminStore.resume`."""
        with self._state.lock:
            self._state.paused.discard(queue)
            self._state.waiters.wake(queue)

    # --- which jobs are meant ------------------------------------------------------------------------------------

    def _meant(self, which: JobFilter) -> list[JobRecord]:
        return [record for record in self._in_state(which.state) if _matches(record, which)]

    def _in_state(self, wanted: JobState) -> Iterator[JobRecord]:
        state = self._state
        match wanted:
            case JobState.SCHEDULED:
                yield from (state.jobs[job_id].record() for job_id in state.scheduled.ids())
            case JobState.READY:
                for queue in sorted({*state.ready, *state.limits.queues()}):
                    yield from (state.jobs[job_id].record() for job_id in ready_ids(state, queue))
            case JobState.LEASED:
                yield from (stored.record() for stored in sorted(state.leased.values(), key=_start))
            case JobState.DEAD:
                yield from reversed(state.letters.values())
            case JobState.SUCCEEDED | JobState.DISCARDED:
                results = [state.result(job_id) for job_id in reversed(state.results)]
                yield from (record for record in results if record and record.state is wanted)


def _start(stored: Stored) -> float:
    return stored.started_at


def _matches(record: JobRecord, which: JobFilter) -> bool:
    job, letter = record.job, record.letter
    return (
        (not which.ids or job.id in which.ids)
        and which.queue in (None, job.queue)
        and which.func in (None, job.func)
        and which.fingerprint in (None, _fingerprint(record))
        and which.reason in (None, letter.reason.value if letter else None)
        and (which.text is None or which.text in which.searchable(job))
    )


def _fingerprint(record: JobRecord) -> str:
    return record.letter.failure.fingerprint if record.letter else ""


def _group(fingerprint: str, records: list[JobRecord]) -> LetterGroup:
    letters = [record.letter for record in records if record.letter]
    return LetterGroup(
        fingerprint=fingerprint,
        func=records[-1].job.func,
        exception_class=letters[-1].failure.exception_class,
        message=letters[-1].failure.message,
        count=len(letters),
        first_failed_at=min(letter.first_failed_at for letter in letters),
        last_failed_at=max(letter.failed_at for letter in letters),
        job=letters[-1].job,
    )
