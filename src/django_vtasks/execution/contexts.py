"""Slots for coroutines: contexts in which the ORM calls of one attempt share one thread and its connections.

A slot's context is entered into asgiref's `ThreadSensitiveContext` once. Each attempt gets a copy, so what it sets is
gone with it, while the thread and its connections stay with the slot. Slots are made as they are needed and used
last in, first out, so there are as many as attempts ran at once and the connections gather in few of them.
"""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async

from ..framework import task_backends
from . import connections

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

logger = logging.getLogger(__name__)

HYGIENE_SECONDS = 10.0
"""How long the hygiene of a slot may take; then the slot is given up, and the next attempt gets a new one."""


class ContextSlot(connections.Slot):
    """One slot: the context that attempts copy, and the thread asgiref keeps for it."""

    __slots__ = ("_sensitive", "context", "unusable")

    def __init__(self, base: contextvars.Context, ledger: connections.Ledger) -> None:
        super().__init__(ledger)
        self.unusable = False
        self.context = base.copy()
        self._sensitive: AbstractAsyncContextManager[Any, None] = ThreadSensitiveContext()
        self.context.run(self._enter)

    def _enter(self) -> None:
        connections.current_slot.set(self)
        _run_to_end(self._sensitive.__aenter__())
        open_caches()

    async def tidy(self) -> None:
        """After an attempt on a slot with connections: see `connections.tidy`."""
        await self._in_thread(connections.tidy)

    async def check(self) -> None:
        """Before an attempt on a slot whose connections rested long: see `connections.check`."""
        await self._in_thread(connections.check)

    async def disconnect(self) -> None:
        """Close the connections."""
        await self._in_thread(connections.close_all)

    async def close(self) -> None:
        """Close the connections and end the thread."""
        if self.connected:
            await self.disconnect()
        if not self.unusable:
            leaving = self._sensitive.__aexit__(None, None, None)
            await asyncio.wait({_spawn(leaving, self.context)}, timeout=HYGIENE_SECONDS)

    async def _in_thread(self, hygiene: Callable[[], bool]) -> None:
        # A task of its own, so that cancelling the attempt's task leaves the hygiene alone.
        call = _spawn(sync_to_async(hygiene)(), self.context.copy())
        await asyncio.wait({call}, timeout=HYGIENE_SECONDS)
        if not call.done():
            self.unusable = True
            logger.warning("A task left its database connections in a state that %.0f s do not mend", HYGIENE_SECONDS)
        elif call.cancelled() or call.exception() is not None:
            self.unusable = True
        else:
            self.tidied(still_connected=call.result())


class ContextPool:
    """The slots of one event loop."""

    def __init__(self, ledger: connections.Ledger) -> None:
        self._ledger = ledger
        self._base: contextvars.Context | None = None
        self._free: list[ContextSlot] = []
        self.size = 0

    def take(self) -> ContextSlot:
        """A slot for one attempt; `give_back` must follow."""
        if self._free:
            return self._free.pop()
        if self._base is None:
            self._base = contextvars.Context()
            self._base.run(open_backends)
        self.size += 1
        return ContextSlot(self._base, self._ledger)

    def give_back(self, slot: ContextSlot) -> None:
        """The attempt is over; a slot that is unusable is forgotten."""
        if slot.unusable:
            self.size -= 1
        else:
            self._free.append(slot)

    def trim(self, excess: int) -> int:
        """Have up to `excess` resting slots close their connections, the longest resting first; returns how many."""
        chosen = [slot for slot in self._free if slot.connected][: max(0, excess)]
        for slot in chosen:
            self._free.remove(slot)
            slot.let_go()
            task = _spawn(slot.disconnect(), contextvars.copy_context())
            task.add_done_callback(partial(self._trimmed, slot))
        return len(chosen)

    def _trimmed(self, slot: ContextSlot, _task: asyncio.Task[None]) -> None:
        if slot.unusable:
            self.size -= 1
        else:
            self._free.insert(0, slot)

    async def close(self) -> None:
        """Close the slots that rest. Never raises."""
        free, self._free = self._free, []
        self.size -= len(free)
        await asyncio.gather(*(slot.close() for slot in free), return_exceptions=True)


async def with_hygiene[First, Second](
    slot: ContextSlot, work: Callable[[First, Second], Coroutine[Any, Any, Any]], first: First, second: Second
) -> None:
    """Run a coroutine function of two arguments with the hygiene of the slot's connections around it."""
    if slot.connected and slot.is_doubtful():
        await slot.check()
    try:
        await work(first, second)
    except GeneratorExit:
        # The loop is gone, so nothing can be awaited.
        slot.unusable = True
        raise
    finally:
        if slot.connected and not slot.unusable:
            await slot.tidy()


def open_backends() -> None:
    """Make the task backends in the current context, so that copies of it share them."""
    for alias in task_backends:
        try:
            task_backends[alias]
        except Exception:
            logger.debug("The task backend %r cannot be made", alias, exc_info=True)


def open_caches() -> None:
    """Make the caches in the current context: in copies of a context without them, each copy would connect anew."""
    from django.core.cache import caches

    for alias in caches:
        try:
            caches[alias]
        except Exception:
            logger.debug("The cache %r cannot be made", alias, exc_info=True)


def _spawn(coroutine: Coroutine[Any, Any, Any], context: contextvars.Context) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(coroutine, context=context)


def _run_to_end(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine that waits for nothing, here and now."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("entering asgiref's ThreadSensitiveContext waited; this version of asgiref is not supported")
