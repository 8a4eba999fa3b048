"""Waiting for jobs: a token on a connection of its own for our producers, a cheap look for everybody else's."""

import asyncio
from collections.abc import Sequence
from typing import Any

from ...jobs.errors import StoreUnavailable
from ..base import Connections
from .async_client import AsyncClient
from .keys import Keys
from .locate import Link
from .requests import Command, call

MARGIN = 2.0
"""Seconds beyond the block after which a server that does not answer counts as gone."""


class Wakeup:
    """Owns the connection that blocks, and the block under way, which outlives the wait that began it."""

    def __init__(self, link: Link, keys: Keys, *, block: float, interval: float) -> None:
        self._keys = keys
        self._block = block
        self._interval = interval
        self._blocking = AsyncClient(link.with_read_timeout(block + MARGIN))
        self._parked: asyncio.Task[Any] | None = None
        self._sleeper: asyncio.Future[None] | None = None

    async def wait(self, client: AsyncClient, queues: Sequence[str], timeout: float) -> bool:
        """True as soon as one of the queues may have a job, False after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        look = Command(("EXISTS", *map(self._keys.ready, queues), *map(self._keys.priorities, queues)))
        while not (await client.send(look) and await client.send(call("ready", "", len(queues), *queues))):
            left = deadline - loop.time()
            if await self._token(queues, max(0.0, min(left, self._interval))):
                return True
            # Who waits again looks first of all, so nobody has to look at the very end.
            if left <= self._interval:
                return False
        return True

    async def _token(self, queues: Sequence[str], seconds: float) -> bool:
        end = asyncio.get_running_loop().time() + seconds
        # Who comes here has been answered: that a block of before breaks says nothing of the server of now.
        old = self._parked
        while True:
            parked = self._parked or self._park(queues)
            if not await self._over(parked, end):
                return False
            if self._parked is parked:
                self._parked = None
            if parked is old and isinstance(parked.exception(), StoreUnavailable):
                continue
            if parked.result() is not None:
                return True

    def _park(self, queues: Sequence[str]) -> asyncio.Task[Any]:
        self._parked = asyncio.create_task(self._blocked(queues))
        return self._parked

    async def _blocked(self, queues: Sequence[str]) -> Any:
        # Wakes the sleeper itself, a turn of the loop before a callback could; when that wakes, the task is done.
        try:
            pop = Command(("BLPOP", *map(self._keys.wake, queues), self._block), again=False)
            popped = await self._blocking.send(pop)
        except Exception:
            self._wake()
            raise
        self._wake()
        return popped

    async def _over(self, parked: asyncio.Task[Any], end: float) -> bool:
        """Wait for the end of a block, no longer than until `end` by the loop's clock; False when it goes on."""
        if parked.done():
            return True
        loop = asyncio.get_running_loop()
        self._sleeper = sleeper = loop.create_future()
        alarm = loop.call_at(end, self._wake)
        try:
            await sleeper
        finally:
            alarm.cancel()
            if self._sleeper is sleeper:
                self._sleeper = None
        return parked.done()

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def connections(self) -> Connections:
        """The connection that blocks."""
        return self._blocking.connections()

    async def close(self) -> None:
        """End the block and close the connection."""
        parked, self._parked = self._parked, None
        if parked is not None:
            parked.cancel()
            await asyncio.gather(parked, return_exceptions=True)
            self._wake()
        await self._blocking.close()
