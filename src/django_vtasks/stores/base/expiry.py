"""Timeouts for answers, told apart from an event loop that did not turn: such a loop misses answers that are there."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

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


class Within:
    """`async with Within(seconds)`: as `asyncio.timeout`, by an `Expiry`. Raises TimeoutError."""

    __slots__ = ("_expiry", "_limit", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        limit = self._limit = asyncio.timeout(None)
        await limit.__aenter__()
        self._expiry = Expiry(loop, self._seconds, lambda: limit.reschedule(loop.time()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._expiry.cancel()
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError:
            raise TimeoutError(f"no answer within {self._seconds:g} s") from error
