"""The client for one event loop: a single connection, one command at a time."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from ...jobs.errors import QueueError
from ..base import Connections
from ..base.expiry import Deadline
from .client import driver, make_connection
from .endpoints import Address
from .locate import Link, locate
from .refusals import Remedy, needs_another_server, remedy_for, translate
from .requests import Call, Part, Plan, Request, full_wire, wire

_FAREWELLS: set[AsyncGenerator[None] | None] = set()
"""Those of loops that still run: a client that nobody holds any more lives until its loop has closed it."""


class AsyncClient:
    """Carries out plans in the event loop that first uses it. Owns its connection and closes it with the loop."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._driver = driver()
        self._connection: Any = None
        self._deadline: Deadline
        self._opened = 0
        self._lock = asyncio.Lock()
        self._farewell: AsyncGenerator[None] | None = None

    async def run[T](self, plan: Plan[T]) -> T:
        """Carry out a plan and return its result. Raises StoreUnavailable or StoreRefused."""
        try:
            request = next(plan)
            while True:
                try:
                    reply = await self.send(request)
                except QueueError as error:
                    request = plan.throw(error)
                else:
                    request = plan.send(reply)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    async def send(self, request: Request) -> Any:
        """The reply to one request. Raises StoreUnavailable or StoreRefused."""
        try:
            async with self._lock:
                return await self._send(request)
        except self._driver.all_errors as error:
            raise translate(error, self._link.endpoint) from error

    def connections(self) -> Connections:
        """Its connection, if it has one now."""
        return Connections(open=int(self._connection is not None), opened=self._opened)

    async def close(self) -> None:
        """Close the connection; the client can be used again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                # Waits until the transport is gone: a loop that ends at once would leave it open.
                await connection.disconnect()
            except self._driver.all_errors:
                pass

    async def _send(self, request: Request) -> Any:
        parts = wire(request, self._link.guard)
        remedies: set[str] = set()
        while True:
            try:
                return await self._exchange(parts)
            except (self._driver.response_error, self._driver.connection_error) as error:
                remedy = remedy_for(error, request)
                if remedy is None or remedy in remedies:
                    raise
            # Each remedy helps once: what is still wrong afterwards is not what it is for.
            remedies.add(remedy)
            if isinstance(request, Call) and remedy is Remedy.SEND_THE_SCRIPT:
                parts = full_wire(request, self._link.guard)
            else:
                await self.close()

    async def _exchange(self, parts: Sequence[Part]) -> Any:
        connection = self._connection or await self._connect()
        try:
            with self._deadline:
                await connection.send_packed_command((self._driver.pack(parts),), check_health=False)
                return await connection.read_response()
        except self._driver.response_error as error:
            if needs_another_server(error):
                await self.close()
            raise
        except BaseException:
            # A reply that nobody read would be taken for that of the next command.
            await self.close()
            raise

    async def _connect(self) -> Any:
        link = self._link
        connect, read = link.timeouts
        # The driver's own timeouts would also expire when only this event loop was late.
        connection = make_connection(self._driver.asyncio, link.endpoint, await self._locate(), (connect, None))
        loop = asyncio.get_running_loop()
        with Deadline(loop, connect + read):
            await connection.connect()
        self._connection = connection
        self._deadline = Deadline(loop, read)
        self._opened += 1
        if self._farewell is None:
            self._farewell = self._close_with_the_loop()
            _FAREWELLS.add(self._farewell)
            await anext(self._farewell)
        return connection

    async def _close_with_the_loop(self) -> AsyncGenerator[None]:
        # An event loop that ends finishes the async generators begun in it, which is the only moment it tells anybody.
        try:
            yield
        finally:
            _FAREWELLS.discard(self._farewell)
            self._farewell = None
            await self.close()

    async def _locate(self) -> Address | None:
        search = locate(self._link)
        try:
            seed, question = next(search)
            while True:
                seed, question = search.send(await self._ask(seed, question))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    async def _ask(self, seed: Address, question: tuple[str, ...]) -> Any:
        connection = make_connection(self._driver.asyncio, self._link.seeds, seed, self._link.timeouts)
        try:
            await connection.send_command(*question, check_health=False)
            return await connection.read_response()
        except self._driver.all_errors:
            return None
        finally:
            await connection.disconnect()
