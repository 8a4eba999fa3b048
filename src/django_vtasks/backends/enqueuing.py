"""The one path from validated calls to a store: at once or at the commit, sync and async, one call or many."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from asgiref.sync import sync_to_async

from ..events import JobAdded, events
from ..framework import TaskResultDoesNotExist, is_heard, is_only_logged, task_enqueued
from ..jobs.errors import QueueError
from ..jobs.model import Job
from ..stores.base import Added, AddStatus, ClientStore, DeferredStore
from ..tasks import VTaskResult
from .commit import CommitHook, after_commit, called_from_sync, open_in_loop, open_transaction
from .traced import is_traced, traced

if TYPE_CHECKING:
    from .base import VTasksBaseBackend

logger = logging.getLogger(__name__)

type Result = VTaskResult[..., Any]
type Pair = tuple["Entry", Added]

CHUNK = 500
"""How many jobs go to a store in one call."""


@dataclass(slots=True, eq=False)
class Entry:
    """A validated call: its job, its result, and what its task says about commits and duplicates."""

    job: Job
    result: Result
    on_commit: bool | str
    returns_survivor: bool


class Enqueuer:
    """Stores the entries of one backend, and tells who listens."""

    def __init__(self, backend: "VTasksBaseBackend") -> None:
        self._backend = backend

    def run(self, entries: Sequence[Entry]) -> list[Result | None]:
        """Store the entries, or see to it that it is done at the commit; one result per entry, in order."""
        if not is_traced():
            return self._run(entries)
        with traced(entries) as marked:
            return self._run(marked)

    def _run(self, entries: Sequence[Entry]) -> list[Result | None]:
        waiting = self._deferred(entries)
        pairs: list[Pair] = []
        self._add(_without(entries, waiting), pairs)
        results = [self._answer(entry, answer) for entry, answer in pairs]
        if is_heard(task_enqueued):
            self._announce(results)
        return _merged(entries, waiting, results)

    async def arun(self, entries: Sequence[Entry]) -> list[Result | None]:
        """As `run`."""
        if not is_traced():
            return await self._arun(entries)
        with traced(entries) as marked:
            return await self._arun(marked)

    async def _arun(self, entries: Sequence[Entry]) -> list[Result | None]:
        waiting = self._deferred(entries)
        if not waiting and not self._backend.client_store.transactional and called_from_sync():
            waiting = await sync_to_async(self._deferred)(entries)
        pairs: list[Pair] = []
        await self._aadd(_without(entries, waiting), pairs)
        results = [await self._aanswer(entry, answer) for entry, answer in pairs]
        if is_heard(task_enqueued):
            await self._aannounce(results)
        return _merged(entries, waiting, results)

    def run_one(self, entry: Entry, store: ClientStore) -> Result | None:
        """As `run`, without what only several entries need."""
        if is_traced():
            return self.run([entry])[0]
        if not store.transactional and self._waits(entry, open_transaction(entry.on_commit)):
            return entry.result
        answer = store.add([entry.job])[0]
        if events.wanted(JobAdded):
            self._tell([entry], [answer])
        result = entry.result if answer.status is AddStatus.ADDED else self._answer(entry, answer)
        if is_heard(task_enqueued):
            self._announce([result])
        return result

    async def arun_one(self, entry: Entry, store: ClientStore) -> Result | None:
        """As `run_one`."""
        if is_traced():
            return (await self.arun([entry]))[0]
        if not store.transactional:
            if self._waits(entry, open_in_loop(entry.on_commit)):
                return entry.result
            if called_from_sync() and await sync_to_async(self._waits_in_thread)(entry):
                return entry.result
        answer = (await store.aadd([entry.job]))[0]
        if events.wanted(JobAdded):
            self._tell([entry], [answer])
        result = entry.result if answer.status is AddStatus.ADDED else await self._aanswer(entry, answer)
        if is_heard(task_enqueued):
            await self._aannounce([result])
        return result

    # --- waiting for the commit

    def _waits(self, entry: Entry, alias: str | None) -> bool:
        """Leave an entry to a commit hook, if a transaction is open in an alias."""
        if alias is not None:
            after_commit(alias, Push(self, [entry], self._backend))
        return alias is not None

    def _waits_in_thread(self, entry: Entry) -> bool:
        return self._waits(entry, open_transaction(entry.on_commit))

    def _deferred(self, entries: Sequence[Entry]) -> frozenset[Entry]:
        """The entries that are left to a commit hook, because a transaction is open that their store does not join."""
        if self._backend.client_store.transactional:
            return _NOBODY
        groups: dict[str, list[Entry]] = {}
        aliases: dict[bool | str, str | None] = {}
        for entry in entries:
            choice = entry.on_commit
            if choice not in aliases:
                aliases[choice] = open_transaction(choice)
            alias = aliases[choice]
            if alias is not None:
                groups.setdefault(alias, []).append(entry)
        for alias, group in groups.items():
            after_commit(alias, Push(self, group, self._backend))
        return frozenset().union(*groups.values()) if groups else _NOBODY

    def push_committed(self, entries: Sequence[Entry], pairs: list[Pair]) -> None:
        """Store entries whose transaction is committed; what is stored is in `pairs`, also when a chunk raises.

        Their results are in the caller's hands already, so that duplicates are told to them.
        """
        try:
            self._add(entries, pairs)
        finally:
            self._tell_committed(pairs)

    def _tell_committed(self, pairs: Sequence[Pair]) -> None:
        holders: dict[str, str] = {}
        for entry, answer in pairs:
            if answer.status is not AddStatus.ADDED:
                entry.result.became_duplicate(answer.job_id)
                if answer.job_id is not None:
                    holders[entry.job.id] = answer.job_id
        if holders:
            self._remember(holders)
        if is_heard(task_enqueued):
            self._announce([entry.result for entry, answer in pairs if answer.status is AddStatus.ADDED])

    def _remember(self, holders: Mapping[str, str]) -> None:
        """Let other processes, to which the ids were passed on, find what stands for the duplicates."""
        store = cast("DeferredStore", self._backend.client_store)
        try:
            store.remember(holders)
        except QueueError as error:
            logger.warning("Nothing can be read by the ids of these duplicates: %s (%s)", ", ".join(holders), error)

    # --- the store

    def _add(self, entries: Sequence[Entry], pairs: list[Pair]) -> None:
        """Add the entries in chunks; what is stored is in `pairs`, also when a later chunk raises."""
        for start in range(0, len(entries), CHUNK):
            chunk = entries[start : start + CHUNK]
            try:
                answers = self._backend.client_store.add([entry.job for entry in chunk])
            except Exception as error:
                _note_progress(error, start, len(entries))
                raise
            pairs.extend(zip(chunk, answers, strict=True))
            self._tell(chunk, answers)

    async def _aadd(self, entries: Sequence[Entry], pairs: list[Pair]) -> None:
        """As `_add`."""
        for start in range(0, len(entries), CHUNK):
            chunk = entries[start : start + CHUNK]
            try:
                answers = await self._backend.client_store.aadd([entry.job for entry in chunk])
            except Exception as error:
                _note_progress(error, start, len(entries))
                raise
            pairs.extend(zip(chunk, answers, strict=True))
            self._tell(chunk, answers)

    def _tell(self, entries: Sequence[Entry], answers: Sequence[Added]) -> None:
        if events.wanted(JobAdded):
            for entry, answer in zip(entries, answers, strict=True):
                events.emit(_event(self._backend.alias, entry.job, answer))

    # --- what the caller gets

    def _answer(self, entry: Entry, answer: Added) -> Result | None:
        if answer.status is AddStatus.ADDED:
            return entry.result
        if answer.job_id is None or not _wants_survivor(entry, answer):
            return None
        try:
            return self._backend.get_result(answer.job_id)  # type: ignore[no-any-return]
        except TaskResultDoesNotExist:
            return _stand_in(entry, answer)

    async def _aanswer(self, entry: Entry, answer: Added) -> Result | None:
        if answer.status is AddStatus.ADDED:
            return entry.result
        if answer.job_id is None or not _wants_survivor(entry, answer):
            return None
        try:
            return await self._backend.aget_result(answer.job_id)  # type: ignore[no-any-return]
        except TaskResultDoesNotExist:
            return _stand_in(entry, answer)

    # --- the framework's signal

    def _announce(self, results: Sequence[Result | None]) -> None:
        for result in results:
            if result is not None and not result.is_duplicate:
                task_enqueued.send_robust(sender=type(self._backend), task_result=result)

    async def _aannounce(self, results: Sequence[Result | None]) -> None:
        if is_only_logged(task_enqueued):
            self._announce(results)
            return
        for result in results:
            if result is not None and not result.is_duplicate:
                await task_enqueued.asend_robust(sender=type(self._backend), task_result=result)


class Push(CommitHook):
    """Entries that wait for the commit of the caller's transaction."""

    def __init__(self, enqueuer: Enqueuer, entries: Sequence[Entry], backend: "VTasksBaseBackend") -> None:
        super().__init__()
        self.raises = backend.raises_at_commit
        self._enqueuer = enqueuer
        self._entries = entries
        self.alias = backend.alias
        self._pairs: list[Pair] = []

    def push(self) -> None:
        """Store them."""
        self._enqueuer.push_committed(self._entries, self._pairs)

    @property
    def jobs(self) -> list[Job]:
        """The jobs that wait."""
        return [entry.job for entry in self._entries[len(self._pairs) :]]

    def report(self, error: Exception) -> None:
        """Log every job that was not stored."""
        report_lost(self.alias, self._entries[len(self._pairs) :], error)


_NOBODY: frozenset[Entry] = frozenset()


def _without(entries: Sequence[Entry], waiting: frozenset[Entry]) -> Sequence[Entry]:
    return [entry for entry in entries if entry not in waiting] if waiting else entries


def _merged(entries: Sequence[Entry], waiting: frozenset[Entry], results: list[Result | None]) -> list[Result | None]:
    if not waiting:
        return results
    stored = iter(results)
    return [entry.result if entry in waiting else next(stored) for entry in entries]


def _wants_survivor(entry: Entry, answer: Added) -> bool:
    # A replaced job is what the call became, so its result is the call's; a duplicate is somebody else's.
    return entry.returns_survivor or answer.status is AddStatus.REPLACED


def _stand_in(entry: Entry, answer: Added) -> Result | None:
    """What the caller gets when the job that stands for the call ended and was forgotten in between."""
    if answer.status is not AddStatus.REPLACED:
        return None
    object.__setattr__(entry.result, "id", answer.job_id)
    return entry.result


def _event(alias: str, job: Job, answer: Added) -> JobAdded:
    duplicate = answer.status is not AddStatus.ADDED
    return JobAdded(
        alias=alias,
        job_id=job.id,
        func=job.func,
        queue=job.queue,
        duplicate=duplicate,
        duplicate_of=answer.job_id if duplicate else None,
    )


def _note_progress(error: Exception, stored: int, total: int) -> None:
    if total > CHUNK:
        error.add_note(f"{stored} of the {total} jobs were stored before this error.")


def report_lost(alias: str, entries: Sequence[Entry], error: Exception) -> None:
    """Log every job that could not be stored although the transaction it waited for is committed."""
    for entry in entries:
        job = entry.job
        logger.error(
            "The job %s (%s, queue %s, backend %s) was NOT enqueued, although its transaction is committed: %s",
            *(job.id, job.func, job.queue, alias, error),
            extra={"job_id": job.id, "task": job.func, "queue": job.queue},
        )
