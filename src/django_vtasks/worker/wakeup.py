"""A bell for one sleeper: cheaper than an `asyncio.Event`, since nothing is made while nobody sleeps."""

import asyncio


class Wakeup:
    """Remembers that it was rung until the sleeper, who is alone, has woken. Used from one event loop."""

    def __init__(self) -> None:
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake the sleeper, or make its next sleep end at once."""
        if not self._rung:
            self._rung = True
            self._end_sleep()

    def clear(self) -> None:
        """Forget earlier rings; call it before looking at what they may have been about."""
        self._rung = False

    @property
    def rung(self) -> bool:
        """Whether it was rung since the last `clear`."""
        return self._rung

    async def sleep(self, seconds: float) -> None:
        """Return when rung, at the latest after `seconds`."""
        if self._rung or seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        self._sleeper = sleeper = loop.create_future()
        alarm = loop.call_later(seconds, self._end_sleep)
        try:
            await sleeper
        finally:
            alarm.cancel()
            self._sleeper = None

    def _end_sleep(self) -> None:
        sleeper = self._sleeper
        if sleeper is not None and not sleeper.done():
            sleeper.set_result(None)
