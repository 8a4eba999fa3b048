"""Slots for sync functions: threads that take calls from one queue, and give the ends back to the loop in bunches.

Waking a thread costs more than a short call, and two running threads fight for the interpreter. So one sleeping
thread is woken at a time, the one that went to sleep last, and wakes the next if calls are left when it has taken one:
short calls keep one thread busy, calls that block have as many as there are calls.
"""

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from . import connections
from .contexts import open_backends, open_caches
from .failures import stack_of_task

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""How long to wait when the system refuses another thread."""

GROW_SECONDS = 0.002
"""How often to look whether calls wait for threads that are busy for long; the threads can double with every look."""


class Call(Protocol):
    """What a slot thread runs."""

    def run(self) -> None:
        """Run in a slot thread, in a fresh context; must not raise."""
        ...

    def ended(self) -> None:
        """Called on the loop after `run`; must not raise."""
        ...


class ThreadSlot(connections.Slot):
    """One thread. `gate` is what it sleeps at, released to wake it; `is_on_the_way`: it was woken for a call."""

    __slots__ = ("abandoned", "call", "gate", "ident", "is_on_the_way", "to_disconnect")

    def __init__(self, ledger: connections.Ledger) -> None:
        super().__init__(ledger)
        self.ident = 0
        self.abandoned = False
        self.to_disconnect = False
        self.is_on_the_way = False
        self.call: Call | None = None
        self.gate = threading.Lock()
        self.gate.acquire()


class SlotThreads:
    """Owns the threads of one event loop: at most `limit` that take calls, and those that were abandoned.

    Threads are daemons: one that never returns does not keep the process. All methods are called on the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, ledger: connections.Ledger) -> None:
        self._loop = loop
        self._home = contextvars.copy_context()
        self._limit = limit
        self._ledger = ledger
        self._calls: deque[Call] = deque()
        self._asleep: deque[ThreadSlot] = deque()
        self._on_the_way = False
        self._slots: set[ThreadSlot] = set()
        self._abandoned: set[ThreadSlot] = set()
        self._ended: deque[Call] = deque()
        self._loop_told = False
        self._closing = False
        self._thread_gone = asyncio.Event()
        self._submitted = 0
        self._taken_at_last_look = 0
        self._growing: asyncio.TimerHandle | None = None
        self._names = 0

    @property
    def size(self) -> int:
        """How many threads take calls."""
        return len(self._slots)

    @property
    def abandoned(self) -> int:
        """How many abandoned threads still run."""
        return len(self._abandoned)

    def submit(self, call: Call) -> None:
        """Run a call in a thread, as soon as one is free."""
        self._calls.append(call)
        self._submitted += 1
        if self._on_the_way:
            # That thread takes the first call and sees to the next one.
            if self._growing is None and len(self._slots) < self._limit:
                self._look_again()
        elif self._asleep:
            self._wake_one()
        elif len(self._slots) < self._limit:
            self._spawn()

    def abandon(self, call: Call) -> None:
        """Give up the thread that runs a call: it takes no further calls, and another one stands in for it."""
        for slot in self._slots:
            if slot.call is call:
                slot.abandoned = True
                self._slots.discard(slot)
                self._abandoned.add(slot)
                if self._calls:
                    self._spawn()
                return

    def stack_of(self, call: Call) -> str:
        """Where the function that a call runs is now, as lines of a traceback; empty when it runs no more."""
        return next((stack_of_task(slot.ident) for slot in self._slots if slot.call is call), "")

    def trim(self, excess: int) -> int:
        """Have up to `excess` sleeping threads close their connections, the longest asleep first; returns how many."""
        chosen = [slot for slot in tuple(self._asleep) if slot.connected][: max(0, excess)]
        for slot in chosen:
            slot.to_disconnect = True
            slot.let_go()
            if self._is_roused(slot):
                slot.gate.release()
        return len(chosen)

    async def close(self, timeout: float) -> None:
        """End the threads that rest and wait for them, at most `timeout` seconds; those that run end afterwards."""
        if self._growing is not None:
            self._growing.cancel()
        self._closing = True
        while self._asleep:
            self._wake_one()
        try:
            async with asyncio.timeout(timeout):
                while self._slots:
                    self._thread_gone.clear()
                    await self._thread_gone.wait()
        except TimeoutError:
            logger.warning("%d threads still run tasks; they end with the process", len(self._slots))

    # -- growing ------------------------------------------------------------------------------------------------------

    def _look_again(self) -> None:
        self._taken_at_last_look = self._submitted - len(self._calls)
        self._growing = self._loop.call_later(GROW_SECONDS, self._look)

    def _look(self) -> None:
        """Add threads when fewer calls were taken since the last look than wait now: then calls take their time."""
        self._growing = None
        waiting = len(self._calls)
        taken = self._submitted - waiting - self._taken_at_last_look
        if taken < waiting:
            missing = min(waiting - len(self._asleep), self._limit - len(self._slots))
            for _ in range(min(missing, len(self._slots) or 1)):
                self._spawn()
        if waiting and len(self._slots) < self._limit and self._growing is None:
            self._look_again()

    def _spawn(self) -> None:
        slot = ThreadSlot(self._ledger)
        self._names += 1
        thread = threading.Thread(target=self._work, args=(slot,), name=f"vtasks-slot-{self._names}", daemon=True)
        self._slots.add(slot)
        slot.is_on_the_way = self._on_the_way = True
        try:
            thread.start()
        except RuntimeError:
            self._slots.discard(slot)
            self._on_the_way = False
            logger.warning("No thread could be started; the %d there are go on", len(self._slots), exc_info=True)
            if self._growing is None:
                self._growing = self._loop.call_later(RETRY_SECONDS, self._look)

    # -- in the threads -----------------------------------------------------------------------------------------------

    def _work(self, slot: ThreadSlot) -> None:
        contextvars.Context().run(self._take_calls, slot)
        self._tell_loop(self._forget, slot)

    def _take_calls(self, slot: ThreadSlot) -> None:
        connections.current_slot.set(slot)
        slot.ident = threading.get_ident()
        open_backends()
        open_caches()
        while not slot.abandoned:
            call = self._next_call(slot)
            if call is None:
                break
            slot.call = call
            _run(slot, call)
            slot.call = None
            self._ended.append(call)
            del call
            if not self._loop_told:
                self._loop_told = True
                self._tell_loop(self._deliver)
        if slot.connected:
            slot.tidied(still_connected=connections.close_all())

    def _next_call(self, slot: ThreadSlot) -> Call | None:
        """The next call, slept for if there is none; None when the thread is to end."""
        calls = self._calls
        while True:
            call = _first_of(calls)
            if slot.is_on_the_way:
                # Cleared before the look at what is left: who submits either sees it cleared or is seen here.
                slot.is_on_the_way = self._on_the_way = False
            if call is not None:
                if calls and not self._on_the_way:
                    self._wake_one()
                return call
            if self._closing:
                return None
            if slot.to_disconnect:
                slot.to_disconnect = False
                slot.tidied(still_connected=connections.close_all())
            self._sleep(slot)

    def _sleep(self, slot: ThreadSlot) -> None:
        self._asleep.append(slot)
        # What was submitted before anybody could see this thread asleep is seen here.
        if (self._calls or self._closing) and self._is_roused(slot):
            return
        slot.gate.acquire()

    def _is_roused(self, slot: ThreadSlot) -> bool:
        """Take a thread out of the sleeping ones; False when somebody did already, and opens its gate."""
        try:
            self._asleep.remove(slot)
        except ValueError:
            return False
        return True

    def _wake_one(self) -> None:
        try:
            slot = self._asleep.pop()
        except IndexError:
            return
        slot.is_on_the_way = self._on_the_way = True
        slot.gate.release()

    def _tell_loop[*Args](self, function: Callable[[*Args], None], *args: *Args) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args, context=self._home)
        except RuntimeError:
            # The loop is closed: nobody is left to tell.
            pass

    # -- back on the loop ---------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        # Cleared first: a thread that appends later either is seen below or tells the loop again.
        self._loop_told = False
        ended = self._ended
        while ended:
            ended.popleft().ended()

    def _forget(self, slot: ThreadSlot) -> None:
        self._slots.discard(slot)
        self._abandoned.discard(slot)
        self._thread_gone.set()


def _first_of(calls: deque[Call]) -> Call | None:
    try:
        return calls.popleft()
    except IndexError:
        return None


def _run(slot: ThreadSlot, call: Call) -> None:
    try:
        if slot.connected and slot.is_doubtful():
            slot.tidied(still_connected=connections.check())
        contextvars.copy_context().run(call.run)
        if slot.connected:
            slot.tidied(still_connected=connections.tidy())
    except BaseException:
        logger.exception("A slot thread met an error outside of a task")
