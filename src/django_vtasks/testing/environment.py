"""An executor's surroundings in which everything runs where the test runs: its thread and its connections."""

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async

from ..execution.announcements import Send, ThreadSender
from ..execution.attempts import Attempt
from ..execution.connections import Ledger, Slot
from ..execution.contexts import ContextPool, ContextSlot
from ..execution.environment import Environment, ExecutorOptions
from ..execution.threads import Call, SlotThreads


class InlineEnvironment(Environment):
    """Sync functions, and the ORM calls of coroutines, run in the thread that waits for the event loop.

    `errors` are the exceptions of attempts, by token.
    """

    def __init__(self, options: ExecutorOptions) -> None:
        super().__init__(options)
        self.threads = CallersThread(self.loop, 1, self.connections)
        self.contexts = CallersContext(self.connections)
        self.send_in_thread = CallersSender(self.loop)
        self.errors: dict[str, BaseException] = {}
        self._conduct_quietly = self.conduct
        self.conduct = self._conduct_noting

    async def _conduct_noting(self, attempt: Attempt, send: Send) -> BaseException | None:
        error = await self._conduct_quietly(attempt, send)
        if error is not None:
            self.errors |= dict.fromkeys((claim.lease.token for claim in attempt.claims), error)
        return error


class CallersThread(SlotThreads):
    """Runs calls one after the other in the thread that waits for the loop. It cannot be given up."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, ledger: Ledger) -> None:
        super().__init__(loop, limit, ledger)
        self._running: set[asyncio.Task[None]] = set()

    def submit(self, call: Call) -> None:
        """See `SlotThreads.submit`."""
        task = asyncio.get_running_loop().create_task(self._carry(call))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def abandon(self, call: Call) -> None:
        """The attempt is over; the thread is free when the function returns."""

    async def close(self, timeout: float) -> None:
        """Nothing to end: whoever closes is in the thread's way himself."""

    async def _carry(self, call: Call) -> None:
        try:
            await sync_to_async(call.run)()
        finally:
            call.ended()


class CallersContext(ContextPool):
    """Slots whose ORM calls run in the thread that waits for the loop."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._own_ledger = ledger

    def take(self) -> ContextSlot:
        """See `ContextPool.take`."""
        return InlineSlot(self._own_ledger)

    def give_back(self, slot: ContextSlot) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing is kept."""


class InlineSlot(ContextSlot):
    """A copy of the current context; its connections are the caller's and are left alone."""

    __slots__ = ()

    def __init__(self, ledger: Ledger) -> None:
        Slot.__init__(self, ledger)
        self.unusable = False
        self.context = contextvars.copy_context()


class CallersSender(ThreadSender):
    """Runs async receivers on the loop while the thread serves their ORM calls."""

    def run_on_loop(self, work: Coroutine[Any, Any, None]) -> None:
        """See `ThreadSender.run_on_loop`."""
        async_to_sync(_awaited)(work)


async def _awaited(work: Coroutine[Any, Any, None]) -> None:
    await work
