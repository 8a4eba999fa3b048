"""Waiting for jobs: notifications where they arrive, looking at growing intervals where they do not."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ...jobs.errors import QueueError, StoreRefused
from ..base import Connections
from .listen import CannotListen, Listener
from .names import column_text

logger = logging.getLogger("django_vtasks.stores.database")

SHORTEST = 0.05
GROWTH = 1.25
LONGEST = 1.0
LONGEST_AT_SQLITE = 0.2
"""A look at SQLite is a call that reads one page of memory."""
SAFETY = 5.0
"""Seconds after which somebody who listens looks all the same: a notification is lost with a process that dies."""
SECOND_LOOK = 0.02
"""Seconds after a notification until those that were held back by the sender's rate limit are in."""
NEXT_TRY = 30.0
"""Seconds between two tries to listen while the server does not let us connect once more."""
NEXT_PROOF = 300.0
"""Seconds until listening is tried again where notifications did not arrive."""


class Eyes(Protocol):
    """What waiting needs of the store."""

    async def look(self, queues: Sequence[str]) -> bool:
        """Whether a job is ready in one of the queues."""
        ...

    async def send(self, text: str) -> None:
        """Notify over the store's own connection."""
        ...


type NewListener = Callable[[Callable[[str], None], Callable[[], None]], Listener]


class JobWaiter:
    """Owns the wait for jobs of one worker store. `longest` is the longest interval between two looks in seconds."""

    def __init__(self, eyes: Eyes, new_listener: NewListener | None, longest: float = LONGEST) -> None:
        self._eyes = eyes
        self._new_listener = new_listener
        self._longest = longest
        self._listener: Listener | None = None
        self._listen_again_at = 0.0
        self._pending: set[str] = set()
        self._changed = asyncio.Event()
        self._interval = SHORTEST
        self._look_at = 0.0
        self._heard_at = float("-inf")
        self._complained = False
        self._listened = 0

    async def wait(self, queues: Iterable[str], timeout: float) -> bool:
        """True as soon as a job may be ready in one of the queues, False after `timeout` seconds.

        Whoever waited asks the queues: at the end of the time nobody looks again, unless nobody has before.
        """
        loop = asyncio.get_running_loop()
        wanted = {column_text(queue) for queue in queues}
        deadline = loop.time() + timeout
        await self._listen(loop.time())
        looked = False
        while not self._woken(wanted):
            if loop.time() >= self._look_at and not (looked and loop.time() >= deadline):
                looked = True
                if await self._eyes.look(sorted(wanted)):
                    self._interval = SHORTEST
                    return True
                self._schedule_look(loop.time())
            pause = min(deadline, self._look_at) - loop.time()
            if loop.time() >= deadline:
                return False
            await self._sleep(pause)
        return True

    def claimed(self, count: int, began_at: float) -> None:
        """A claim begun at `began_at` (the loop's clock) brought so many jobs."""
        if count:
            self._interval = SHORTEST
            self._look_at = 0.0
        else:
            self._schedule_look(began_at)

    def wake(self, queues: Iterable[str]) -> None:
        """Jobs became ready in these queues."""
        self._pending.update(column_text(queue) for queue in queues)
        self._changed.set()

    def distrust(self) -> None:
        """The server could not be reached: listen anew before the next wait."""
        self._listen_again_at = 0.0
        self._lost()

    @property
    def hears(self) -> bool:
        """Whether notifications arrive, so that a session of the server is ours alone."""
        return self._listener is not None

    def connections(self) -> Connections:
        """The connection on which it listens."""
        return Connections(open=int(self._listener is not None), opened=self._listened)

    def close(self) -> None:
        """Stop listening; from any thread."""
        listener, self._listener = self._listener, None
        self._listen_again_at = 0.0
        if listener is not None:
            listener.close()

    # --- how it is done ------------------------------------------------------------------------------------------

    def _woken(self, wanted: set[str]) -> bool:
        found = not self._pending.isdisjoint(wanted)
        self._pending.clear()
        self._changed.clear()
        return found

    def _schedule_look(self, now: float) -> None:
        if now < self._heard_at + SECOND_LOOK:
            self._look_at = self._heard_at + SECOND_LOOK
        elif self._listener is not None:
            self._look_at = now + SAFETY
        else:
            self._look_at = now + self._interval
            self._interval = min(self._interval * GROWTH, self._longest)

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _listen(self, now: float) -> None:
        if self._new_listener is None or self._listener is not None or now < self._listen_again_at:
            return
        self._listen_again_at = now + NEXT_TRY
        listener = self._new_listener(self._heard, self._lost)
        try:
            await listener.start(self._eyes.send)
        except (CannotListen, StoreRefused) as problem:
            await asyncio.to_thread(listener.close)
            self._poll(now, problem)
        except BaseException:
            await asyncio.to_thread(listener.close)
            raise
        else:
            self._listener = listener
            self._listened += 1
            self._heard_at, self._look_at = now, 0.0

    def _poll(self, now: float, problem: QueueError) -> None:
        self._listen_again_at = now + NEXT_PROOF
        if not self._complained:
            self._complained = True
            logger.warning(
                "Cannot LISTEN for new jobs, looking for them every %g s at most instead: %s", self._longest, problem
            )

    def _heard(self, queue: str) -> None:
        now = asyncio.get_running_loop().time()
        self._heard_at, self._look_at = now, now + SECOND_LOOK
        self.wake([queue])

    def _lost(self) -> None:
        listener, self._listener = self._listener, None
        self._look_at = 0.0
        if listener is not None:
            asyncio.get_running_loop().run_in_executor(None, listener.close)
