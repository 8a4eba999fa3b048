"""Waiting for the end of a job: woken by whoever hears of it, with a slow look as the safety net.

One thread of a process hears for all who wait in it, so that hundreds of them cost one connection.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from ...jobs.model import JobRecord

logger = logging.getLogger("django_vtasks.stores")

SAFETY = 5.0
"""Seconds after which somebody who would be woken looks all the same."""

FIRST_PAUSE, GROWTH, LONGEST_PAUSE = 0.01, 1.5, 0.5
"""Seconds between the looks of somebody whom nobody wakes."""

NEXT_TRY = 5.0
"""Seconds until hearing is tried again after an error."""


class Ends:
    """Whom to wake in this process when a job ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakers: dict[str, list[Callable[[], None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._wakers)

    @contextmanager
    def waking(self, job_id: str, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake`, in any thread, whenever the job may have ended while the block lasts."""
        with self._lock:
            self._wakers.setdefault(job_id, []).append(wake)
        try:
            yield
        finally:
            with self._lock:
                self._wakers[job_id].remove(wake)
                if not self._wakers[job_id]:
                    del self._wakers[job_id]

    def tell(self, job_id: str) -> None:
        """A job may have ended."""
        with self._lock:
            wakers = tuple(self._wakers.get(job_id, ()))
        for wake in wakers:
            wake()

    def tell_all(self) -> None:
        """Any job may have ended."""
        for job_id in tuple(self._wakers):
            self.tell(job_id)


class Ears(Protocol):
    """Has `Ends` told of the ends of jobs. Both calls return at once whether it can: if not, one has to look again
    and again. Who looks after the call misses no end."""

    def listen_for(self, job_id: str) -> bool:
        """Listen for the end of a job from now on. Raises StoreUnavailable."""
        ...

    async def alisten_for(self, job_id: str) -> bool:
        """As `listen_for`."""
        ...


class Deaf:
    """Ears of a store that tells nobody."""

    def listen_for(self, job_id: str) -> bool:  # noqa: ARG002 - see `Ears`
        """Never."""
        return False

    async def alisten_for(self, job_id: str) -> bool:  # noqa: ARG002 - see `Ears`
        """Never."""
        return False


class EndWait:
    """Waits for ends, in threads and event loops. `get` and `aget` are those of the store."""

    def __init__(
        self,
        ends: Ends,
        ears: Ears,
        get: Callable[[str], JobRecord | None],
        aget: Callable[[str], Awaitable[JobRecord | None]],
    ) -> None:
        self._ends = ends
        self._ears = ears
        self._get = get
        self._aget = aget

    def wait(self, job_id: str, timeout: float | None) -> bool:
        """See `ClientStore.until_ended`."""
        event, pauses, in_vain = threading.Event(), Pauses(timeout), False
        with self._ends.waking(job_id, event.set):
            while True:
                event.clear()
                # Whoever was woken for nothing does not ask to be, or the two would be busy with each other.
                trusting = not in_vain and self._ears.listen_for(job_id)
                if _is_over(self._get(job_id)):
                    return True
                seconds = pauses.next(trusting=trusting)
                if seconds <= 0:
                    return False
                in_vain = event.wait(seconds)

    async def await_(self, job_id: str, timeout: float | None) -> bool:
        """See `ClientStore.until_ended`."""
        event, pauses, in_vain = asyncio.Event(), Pauses(timeout), False
        with self._ends.waking(job_id, _setter(event)):
            while True:
                event.clear()
                trusting = not in_vain and await self._ears.alisten_for(job_id)
                if _is_over(await self._aget(job_id)):
                    return True
                seconds = pauses.next(trusting=trusting)
                if seconds <= 0:
                    return False
                try:
                    async with asyncio.timeout(seconds):
                        in_vain = await event.wait()
                except TimeoutError:
                    in_vain = False


class Pauses:
    """How long to sleep between two looks, until a timeout is over (None = never)."""

    def __init__(self, timeout: float | None) -> None:
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._pause = FIRST_PAUSE

    def next(self, *, trusting: bool) -> float:
        """Seconds, none left when it is 0 or less. `trusting`: somebody would wake us, and did not do so in vain."""
        seconds = SAFETY if trusting else self._pause
        if not trusting:
            self._pause = min(LONGEST_PAUSE, self._pause * GROWTH)
        return seconds if self._deadline is None else min(seconds, self._deadline - time.monotonic())


class EarThread:
    """A thread that runs `hear` while somebody waits. A subclass says how it hears, and how it is asked to."""

    name = "vtasks-ends"

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.hears = True
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._deaf_until = 0.0
        self._complained = False

    def hear(self) -> None:
        """Tell `ends` what ends, and return soon after the last one left; set `hears` once that is sure. Raises
        anything when it is impossible."""
        raise NotImplementedError

    def deaf_for(self, error: Exception) -> float:  # noqa: ARG002 - subclasses look at it
        """Seconds until hearing is tried again after an error."""
        return NEXT_TRY

    def start(self) -> bool:
        """See to it that the thread runs; whether it hears, as far as is known."""
        with self._lock:
            if self._thread is None and time.monotonic() >= self._deaf_until:
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()
        return self.hears

    def _run(self) -> None:
        while True:
            try:
                self.hear()
            except Exception as error:
                self._failed(error)
                return
            with self._lock:
                if not self.ends:
                    self._thread = None
                    return

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self.hears = False
            self._deaf_until = time.monotonic() + self.deaf_for(error)
            self._thread = None
        if not self._complained:
            self._complained = True
            logger.warning("Nothing tells of the ends of jobs; who waits for them looks again and again: %s", error)
        self.ends.tell_all()


def _is_over(record: JobRecord | None) -> bool:
    return record is None or record.state.is_over


def _setter(event: asyncio.Event) -> Callable[[], None]:
    loop = asyncio.get_running_loop()

    def set_in_loop() -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits in it.
            loop.call_soon_threadsafe(event.set)

    return set_in_loop
