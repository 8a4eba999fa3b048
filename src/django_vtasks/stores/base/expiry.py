"""Timeouts for answers, told apart from an event loop that did not turn: such a loop misses answers that are there."""

import asyncio
from collections.abc import Callable
from types import TracebackType

GRACE = 0.25
"""Seconds that an event loop gets to see what came, when the time for an answer is over."""

LATE = 0.1
"""Seconds by which a timer comes late at most in a loop that turns freely."""


class Expiry:
    """Calls `expired` once `seconds` have passed and the loop has had the time to see what came in them.

    A loop that was blocked, or a process that was frozen, runs its timers before it reads its sockets.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._again = False
        self._due = loop.time() + seconds
        self._timer = loop.call_at(self._due, self._fired)

    def cancel(self) -> None:
        """The answer came."""
        self._timer.cancel()

    def _fired(self) -> None:
        now = self._loop.time()
        if self._again and now - self._due <= LATE:
            self._expired()
            return
        self._again = True
        self._due = now + GRACE
        self._timer = self._loop.call_at(self._due, self._fired)


class Deadline:
    """`with deadline:` in a task, again and again, for calls that follow each other: as `asyncio.timeout`, but like an
    Expiry it tells a silent server from a loop that did not turn. Raises TimeoutError.

    Its timer stays set from call to call: to set one for each costs a third of a short round trip.
    """

    __slots__ = ("_again", "_cancelling", "_due", "_expired", "_loop", "_seconds", "_task", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task()
        self._cancelling = task.cancelling() if task is not None else 0
        self._again = self._expired = False
        self._due = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._fired)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if not self._expired or task is None or task.uncancel() > self._cancelling:
            return
        if isinstance(error, asyncio.CancelledError):
            raise TimeoutError(f"no answer within {self._seconds:g} s") from error

    def _fired(self) -> None:
        self._timer = None
        if self._task is None:
            return
        now = self._loop.time()
        if now >= self._due:
            if self._again and now - self._due <= LATE:
                self._expired = True
                self._task.cancel()
                return
            self._again = True
            self._due = now + GRACE
        # Else it was set for a call that is over.
        self._timer = self._loop.call_at(self._due, self._fired)
