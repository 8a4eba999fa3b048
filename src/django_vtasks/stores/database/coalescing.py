"""Enqueues that are awaited at the same time go to the database as one.

There is no delay: a lone call goes out at once, and calls made meanwhile form the next batch. Only calls are put
together whose statements would run in the same thread anyway, so a transaction that is open there holds them all.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from asgiref.sync import AsyncToSync, SyncToAsync, sync_to_async

from ...jobs.errors import StoreUnavailable
from ...jobs.model import Job
from ..base import Added

BATCH = 500
"""Jobs of one batch at most."""

type Add = Callable[[str, Sequence[Job]], list[Added]]


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    jobs: Sequence[Job]
    answer: asyncio.Future[list[Added]]


@dataclass(slots=True, eq=False)
class _Line:
    """The calls that wait for one thread and one database; `task` carries them there."""

    calls: list[_Call] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class Coalescer:
    """Owns the lines of every event loop. `add` is the sync call that stores jobs in a database alias."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[object, _Line]] = WeakKeyDictionary()

    async def add(self, alias: str, jobs: Sequence[Job]) -> list[Added]:
        """Store jobs in the alias; returns one answer for each."""
        if len(jobs) >= BATCH:
            return await sync_to_async(self._add)(alias, jobs)
        loop = asyncio.get_running_loop()
        lines = self._lines.get(loop)
        if lines is None:
            lines = self._lines[loop] = {}
        place = (alias, *_thread())
        line = lines.get(place)
        if line is None:
            line = lines[place] = _Line()
        call = _Call(jobs, loop.create_future())
        line.calls.append(call)
        if line.task is None:
            line.task = loop.create_task(self._drain(alias, lines, place, line))
        return await call.answer

    async def _drain(self, alias: str, lines: dict[object, _Line], place: object, line: _Line) -> None:
        try:
            while line.calls:
                await self._store(alias, _batch(line))
        finally:
            del lines[place]
            for call in line.calls:
                call.answer.cancel()

    async def _store(self, alias: str, calls: Sequence[_Call]) -> None:
        jobs = [job for call in calls for job in call.jobs]
        try:
            answers = await sync_to_async(self._add)(alias, jobs)
        except StoreUnavailable as error:
            for call in calls:
                _fail(call, StoreUnavailable(str(error)) if len(calls) > 1 else error)
        except Exception as error:
            if len(calls) == 1:
                _fail(calls[0], error)
                return
            # One call may be at fault; nothing of the batch was stored.
            for call in calls:
                await self._store(alias, [call])
        else:
            _answer(calls, answers)


def _batch(line: _Line) -> list[_Call]:
    """The next calls, taken out of the line; always one at least."""
    size = count = 0
    for call in line.calls:
        if count and size + len(call.jobs) > BATCH:
            break
        size, count = size + len(call.jobs), count + 1
    batch = line.calls[:count]
    del line.calls[:count]
    return batch


def _answer(calls: Sequence[_Call], answers: Sequence[Added]) -> None:
    start = 0
    for call in calls:
        end = start + len(call.jobs)
        if not call.answer.done():
            call.answer.set_result(list(answers[start:end]))
        start = end


def _fail(call: _Call, error: Exception) -> None:
    if not call.answer.done():
        call.answer.set_exception(error)


def _thread() -> tuple[object, object]:
    """What decides in which thread `sync_to_async` runs a call made here."""
    executors = getattr(AsyncToSync, "executors", None)
    context = getattr(SyncToAsync, "thread_sensitive_context", None)
    return getattr(executors, "current", None), context.get(None) if context is not None else object()
