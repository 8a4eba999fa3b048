"""What operators hold."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import batched
from typing import Any

from ...jobs.codec import decode_letter, encode, encode_letter
from ...jobs.model import DeadLetter, Job, JobRecord, JobState, evolve_job
from ...jobs.samples import Sample
from ..base import (
    MAX_AHEAD,
    Added,
    JobFilter,
    LetterGroup,
    Page,
    QueueCounts,
    Redrive,
    Standing,
    WorkerInfo,
)
from . import overview, redriving, sampling, upkeep
from .admission import Gate
from .connection import link_of
from .keys import Keys, check_queue
from .listing import Listed, Listing, letter_id_in, matches
from .options import ValkeyOptions
from .records import is_tracked, letter_record, read_record, waiting_parts
from .requests import Command, Part, Request, call
from .sync_client import SyncClient

CHUNK = 100
"""Jobs changed by one script call."""

SCAN = 2_500
"""How many jobs one page looks at: with a filter it may be short, or empty, although there is a next one."""


class ValkeyAdminStore:
    """Look, redrive, delete, pause; see `AdminStore` for each method."""

    def __init__(self, options: ValkeyOptions) -> None:
        self._options = options
        self._keys = Keys(options.prefix)
        self._client = SyncClient(link_of(options))
        self._gate = Gate(options.result_ttl)
        self._listing = Listing(self._keys, self._ask, self._now)

    def _now(self) -> Part:
        clock = self._options.clock
        return repr(clock()) if clock else ""

    def _ask(self, request: Request) -> Any:
        return self._client.send(request)

    def _call(self, name: str, *args: Part) -> Any:
        return self._client.send(call(name, self._now(), *args))

    def close(self) -> None:
        """Close idle connections."""
        self._client.close()

    # --- looking -------------------------------------------------------------------------------------------------

    def counts(self) -> list[QueueCounts]:
        """See `AdminStore.counts`."""
        return self._client.run(overview.counts(self._keys, self._now(), thorough=True))

    def page(self, which: JobFilter, *, after: str | None = None, limit: int = 50) -> Page:
        """See `AdminStore.page`."""
        found: list[JobRecord] = []
        for looked_at, (place, listed) in enumerate(self._listing.jobs(which.state, self._queues_of(which), after)):
            if looked_at == SCAN:
                return Page(records=tuple(found), next_cursor=place)
            if listed is None or not matches(listed.record, which):
                continue
            if len(found) == limit:
                return Page(records=tuple(found), next_cursor=place)
            found.append(listed.record)
        return Page(records=tuple(found))

    def _meant(self, which: JobFilter) -> Iterator[Listed]:
        for _, listed in self._listing.jobs(which.state, self._queues_of(which)):
            if listed is not None and matches(listed.record, which):
                yield listed

    def _queues_of(self, which: JobFilter) -> list[str]:
        return [which.queue] if which.queue else self._queue_names()

    def _queue_names(self) -> list[str]:
        return self._client.run(overview.queue_names(self._keys, thorough=True))

    def standing(self, job_id: str) -> Standing | None:
        """See `AdminStore.standing`."""
        reply = self._call("get", job_id)
        record = read_record(reply)
        if record is None:
            return None
        job = record.job
        raw = waiting_parts(reply[1])[1] if record.state is JobState.READY else b""
        owner = record.running.worker_id if record.running else ""
        key = job.unique.key if job.unique else ""
        told = self._call("standing", job_id, job.queue, job.priority, raw, key, owner, MAX_AHEAD)
        return overview.standing(record, float(reply[0]), told)

    def letter_groups(self, limit: int = 100) -> list[LetterGroup]:
        """See `AdminStore.letter_groups`."""
        return overview.letter_groups(self._listing.letters())[:limit]

    def workers(self) -> list[WorkerInfo]:
        """See `AdminStore.workers`."""
        return overview.workers(self._keys, self._ask, self._now)

    def samples(self) -> list[Sample]:
        """See `AdminStore.samples`."""
        return self._client.run(sampling.samples(self._now()))

    def recorded_slots(self, entries: Sequence[str]) -> Mapping[str, float]:
        """See `AdminStore.recorded_slots`."""
        return self._client.run(upkeep.last_slots(self._keys, entries))

    # --- dead letters --------------------------------------------------------------------------------------------

    def redrive(self, ids: Sequence[str], changes: Redrive) -> list[Added]:
        """See `AdminStore.redrive`."""
        known = self._letters_of(ids)
        letters = [known.get(letter_id) for letter_id in ids]
        return self._client.run(redriving.redrive(self._gate, self._now(), letters, changes))

    def _letters_of(self, ids: Sequence[str]) -> dict[str, bytes]:
        """The payloads of letters; those that a 3.2 worker buried are found by looking at every one."""
        if not ids:
            return {}
        known = self._ask(Command(("HMGET", self._keys.named("letters"), *ids)))
        found = {letter_id: raw for letter_id, raw in zip(ids, known, strict=True) if raw}
        missing = set(ids) - found.keys()
        for raw in self._listing.letters() if missing else ():
            letter_id = letter_id_in(raw)
            if letter_id in missing:
                found[letter_id] = raw
                missing.remove(letter_id)
                if not missing:
                    break
        return found

    def restore(self, letters: Sequence[DeadLetter]) -> int:
        """See `AdminStore.restore`."""
        restored = 0
        for chunk in batched(letters, CHUNK):
            parts = [part for letter in chunk for part in (letter.id, letter.queue, encode_letter(letter))]
            restored += self._call("restore", self._options.dead_letter_cap, len(chunk), *parts)
        return restored

    # --- waiting jobs --------------------------------------------------------------------------------------------

    def hasten(self, ids: Sequence[str]) -> int:
        """See `AdminStore.hasten`."""
        wanted, hastened = set(ids), 0
        for job_id in ids:
            reply = self._call("get", job_id)
            record = read_record(reply)
            if record is not None:
                wanted.discard(job_id)
                if record.state is JobState.SCHEDULED:
                    hastened += self._hasten(record.job, waiting_parts(reply[1])[1])
        # Jobs without a record are found by looking at every scheduled one.
        which = JobFilter(state=JobState.SCHEDULED, ids=tuple(wanted))
        for listed in list(self._meant(which)) if wanted else ():
            hastened += self._hasten(listed.record.job, listed.raw)
        return hastened

    def _hasten(self, job: Job, raw: bytes) -> int:
        ready = encode(evolve_job(job, run_after=None))
        job_id = job.id if is_tracked(job, self._options.result_ttl) else ""
        return int(self._call("hasten", job_id, job.queue, job.priority, raw, ready))

    def delete(self, which: JobFilter, limit: int = 1000) -> int:
        """See `AdminStore.delete`."""
        if which.state is JobState.LEASED:
            return 0
        waiting = which.state in (JobState.READY, JobState.SCHEDULED)
        meant = [listed for _, listed in zip(range(limit), self._to_delete(which), strict=False)]
        removed = 0
        for chunk in batched(meant, CHUNK):
            parts = [part for listed in chunk for part in (_waiting(listed) if waiting else _ended(listed))]
            removed += self._call("discard" if waiting else "forget", len(chunk), *parts)
        return removed

    def _to_delete(self, which: JobFilter) -> Iterator[Listed]:
        if which.state is JobState.DEAD and which.ids:
            # Found by their ids, since looking at every letter for each chunk of ids would take for ever.
            letters = self._letters_of(which.ids).values()
            found = (Listed(letter_record(decode_letter(raw)), raw) for raw in letters)
            return (listed for listed in found if matches(listed.record, which))
        return self._meant(which)

    def level_priorities(self) -> int:
        """See `AdminStore.level_priorities`: jobs of other priorities or with limits go into their queue's list."""
        moved = 0
        for queue in self._queue_names():
            while count := self._call("level", queue, 500):
                moved += count
        return moved

    def pause(self, queue: str) -> None:
        """See `AdminStore.pause`."""
        self._call("pause", check_queue(queue))

    def resume(self, queue: str) -> None:
        """See `AdminStore.resume`."""
        self._call("resume", queue)


def _waiting(listed: Listed) -> Sequence[Part]:
    job = listed.record.job
    return job.id, job.queue, job.priority, listed.raw, job.unique.key if job.unique else ""


def _ended(listed: Listed) -> Sequence[Part]:
    return listed.record.job.id, listed.raw if listed.record.letter else b""
