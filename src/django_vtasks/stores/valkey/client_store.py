"""What application code holds: enqueue, read, cancel."""

import asyncio
import itertools
import os
import threading
import weakref
from collections.abc import Awaitable, Mapping, Sequence
from typing import cast

from ...jobs.errors import QueueError, StoreUnavailable
from ...jobs.model import Job, JobRecord
from ..base import Added, CancelStatus
from ..base.ends import Ends, EndWait
from .admission import Entry
from .async_client import AsyncClient
from .client import driver
from .connection import link_of
from .ends import ValkeyEars
from .options import ValkeyOptions
from .plans import CHUNK, Caller, ClientPlans
from .refusals import translate
from .requests import Plan, Request
from .sync_client import SyncClient


def new_name() -> str:
    """32 hexadecimal digits that nobody else has."""
    return os.urandom(16).hex()


ENOUGH_FOR_A_CALL = 10
"""So many who wait are never divided: with fewer jobs in a call, what it costs by itself counts."""

type Answers = list[Added | QueueError]
type Waiting = tuple[Sequence[Entry], asyncio.Future[list[Added]]]


class LoopSide:
    """What belongs to one event loop: a connection, and the jobs that wait for the call under way to end.

    A lone call goes out at once. What is given meanwhile goes out together afterwards, so that many coroutines share
    few calls without anybody waiting for company. Many take turns in two halves: while the server has the one, those
    of the other go on and come with their next job.
    """

    def __init__(self, client: AsyncClient, plans: ClientPlans) -> None:
        self.client = client
        self._plans = plans
        self._caller = Caller(new_name())
        self._waiting: list[Waiting] = []
        self._busy = False
        self._flusher: asyncio.Task[None] | None = None

    def add(self, entries: Sequence[Entry]) -> Awaitable[list[Added]]:
        """Send up to `CHUNK` jobs. What is awaited raises StoreUnavailable or StoreRefused."""
        if not self._busy:
            return self._lead(entries)
        future: asyncio.Future[list[Added]] = asyncio.get_running_loop().create_future()
        self._waiting.append((entries, future))
        return future

    async def _lead(self, entries: Sequence[Entry]) -> list[Added]:
        self._busy = True
        try:
            return accepted(await self.client.run(self._plans.add(entries, self._caller)))
        finally:
            self._busy = bool(self._waiting)
            if self._busy:
                self._flusher = asyncio.create_task(self._flush())
                self._flusher.add_done_callback(self._flushed)

    async def _flush(self) -> None:
        answered = 1
        while batch := self._take(answered):
            await self._send(batch)
            answered = len(batch)
            if not self._waiting:
                # Those who were answered have their turn, so that what they add next goes out together.
                await asyncio.sleep(0)
        self._busy = False

    def _flushed(self, flusher: asyncio.Task[None]) -> None:
        if flusher.cancelled():
            # Maybe before it began: nobody else would tell those who wait.
            self._busy = False
            left, self._waiting = self._waiting, []
            _fail(left, _cut_off())

    def _take(self, answered: int) -> list[Waiting]:
        """The next to be sent: all that wait, or half of those who are about to wait again together with them."""
        self._waiting = [item for item in self._waiting if not item[1].done()]
        most = max(ENOUGH_FOR_A_CALL, -(-(len(self._waiting) + answered) // 2))
        size, end = 0, 0
        for entries, _ in self._waiting:
            size += len(entries)
            if end and (size > CHUNK or end == most):
                break
            end += 1
        taken, self._waiting = self._waiting[:end], self._waiting[end:]
        return taken

    async def _send(self, batch: list[Waiting]) -> None:
        try:
            together = [item for entries, _ in batch for item in entries]
            answers = await self.client.run(self._plans.add(together, self._caller))
        except asyncio.CancelledError:
            _fail(batch, _cut_off())
            raise
        except Exception as error:
            _fail(batch, error)
        else:
            _answer(batch, answers)


def accepted(answers: Answers) -> list[Added]:
    """The answers to the jobs of one call. Raises the first error among them."""
    for answer in answers:
        if isinstance(answer, QueueError):
            raise answer
    return cast("list[Added]", answers)


def _cut_off() -> StoreUnavailable:
    return StoreUnavailable("the event loop ended what it does while the job was being sent: it may be stored or not")


def _fail(batch: list[Waiting], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(_another(error))


def _another(error: Exception) -> Exception:
    # One exception raised in many places would show the tracebacks of all of them.
    if not isinstance(error, QueueError):
        return error
    own = type(error)(*error.args)
    own.__cause__ = error.__cause__
    return own


def _answer(batch: list[Waiting], answers: Answers) -> None:
    start = 0
    for entries, future in batch:
        own = answers[start : start + len(entries)]
        start += len(entries)
        if future.done():
            continue
        try:
            future.set_result(accepted(own))
        except QueueError as error:
            future.set_exception(error)


class ValkeyClientStore:
    """Enqueue, read and cancel from any thread and any event loop, before and after a fork."""

    def __init__(self, options: ValkeyOptions) -> None:
        self._link = link_of(options)
        self._plans = ClientPlans(options, self._refusal)
        self._sync = SyncClient(self._link)
        self._prefix = options.prefix
        self._waits: dict[int, EndWait] = {}
        self._callers = threading.local()
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopSide] = weakref.WeakKeyDictionary()

    @property
    def transactional(self) -> bool:
        """Valkey knows no database transaction: the backend defers `add` to the commit."""
        return False

    def new_id(self) -> str:
        """32 hexadecimal digits."""
        return new_name()

    def add(self, jobs: Sequence[Job]) -> list[Added]:
        """See `ClientStore.add`."""
        caller = self._caller()
        results: list[Added] = []
        for chunk in _chunks([self._plans.entry(job) for job in jobs]):
            results += accepted(self._sync.run(self._plans.add(chunk, caller)))
        return results

    async def aadd(self, jobs: Sequence[Job]) -> list[Added]:
        """See `ClientStore.add`."""
        side = self._side()
        entries = [self._plans.entry(job) for job in jobs]
        if len(entries) <= CHUNK:
            return await side.add(entries) if entries else []
        results: list[Added] = []
        for chunk in _chunks(entries):
            results += await side.add(chunk)
        return results

    def get(self, job_id: str) -> JobRecord | None:
        """See `ClientStore.get`."""
        return self._sync.run(self._plans.get(job_id))

    async def aget(self, job_id: str) -> JobRecord | None:
        """See `ClientStore.get`."""
        return await self._arun(self._plans.get(job_id))

    def cancel(self, job_id: str) -> CancelStatus:
        """See `ClientStore.cancel`."""
        return self._sync.run(self._plans.cancel(job_id))

    async def acancel(self, job_id: str) -> CancelStatus:
        """See `ClientStore.cancel`."""
        return await self._arun(self._plans.cancel(job_id))

    def until_ended(self, job_id: str, timeout: float | None) -> bool:
        """See `ClientStore.until_ended`."""
        return self._end_wait().wait(job_id, timeout)

    async def auntil_ended(self, job_id: str, timeout: float | None) -> bool:
        """See `ClientStore.until_ended`."""
        return await self._end_wait().await_(job_id, timeout)

    def remember(self, holders: Mapping[str, str]) -> None:
        """See `DeferredStore.remember`."""
        for chunk in itertools.batched(holders.items(), CHUNK):
            self._sync.run(self._plans.remember(dict(chunk)))

    def close(self) -> None:
        """Close idle connections of threads; those of event loops close with their loop."""
        self._sync.close()

    def _refusal(self, said: str) -> QueueError:
        return translate(driver().response_error(said), self._link.endpoint)

    async def _arun[T](self, plan: Plan[T]) -> T:
        return await self._side().client.run(plan)

    def _end_wait(self) -> EndWait:
        # A forked child has neither the thread that hears nor those that wait.
        pid = os.getpid()
        if pid not in self._waits:
            ends = Ends()
            ears = ValkeyEars(ends, self._link, self._prefix, self._sync.send, self._asend)
            self._waits = {pid: EndWait(ends, ears, self.get, self.aget)}
        return self._waits[pid]

    async def _asend(self, request: Request) -> object:
        return await self._side().client.send(request)

    def _caller(self) -> Caller:
        # A thread makes one call at a time, and a forked child is another caller.
        known = getattr(self._callers, "caller", None)
        if known is None or known[0] != os.getpid():
            known = self._callers.caller = (os.getpid(), Caller(new_name()))
        return known[1]

    def _side(self) -> LoopSide:
        loop = asyncio.get_running_loop()
        side = self._loops.get(loop)
        if side is None:
            side = self._loops[loop] = LoopSide(AsyncClient(self._link), self._plans)
        return side


def _chunks(entries: list[Entry]) -> list[list[Entry]]:
    return [entries[start : start + CHUNK] for start in range(0, len(entries), CHUNK)]
