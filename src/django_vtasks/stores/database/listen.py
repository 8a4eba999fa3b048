"""Hearing PostgreSQL's notifications in an event loop, on a connection that does nothing else."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from ...jobs.errors import QueueError
from .names import CHANNEL
from .threads import DatabaseThread

PROOF_TIMEOUT = 2.0
"""Seconds within which a notification of our own must come back."""


class CannotListen(QueueError):
    """Raised when notifications do not arrive over this connection; the message says why."""


class Listener:
    """Calls `heard(queue)` in the event loop for every notification, and `lost()` once when the connection ends."""

    def __init__(self, alias: str, timeout: float, heard: Callable[[str], None], lost: Callable[[], None]) -> None:
        self._thread = DatabaseThread(alias, "vtasks-listen")
        self._timeout = timeout
        self._heard = heard
        self._lost = lost
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Any = None
        self._number = -1
        self._proof = f"proof {os.urandom(8).hex()}"
        self._proven: asyncio.Event = asyncio.Event()

    async def start(self, send: Callable[[str], Awaitable[None]]) -> None:
        """Begin to listen. `send` notifies over another connection.

        Raises CannotListen where a pooler, the driver or the event loop does not let notifications through, and
        StoreUnavailable when the server cannot be reached.
        """
        self._server = await self._thread.call(_listen, self._timeout)
        if self._server is None:
            raise CannotListen("the driver is not psycopg 3")
        self._loop = asyncio.get_running_loop()
        self._number = self._server.socket
        try:
            self._loop.add_reader(self._number, self._read)
        except NotImplementedError:
            raise CannotListen("the event loop cannot watch a socket") from None
        await send(self._proof)
        try:
            await asyncio.wait_for(self._proven.wait(), PROOF_TIMEOUT)
        except TimeoutError:
            raise CannotListen("no notification arrives, as behind a pooler in transaction mode") from None

    def close(self) -> None:
        """Stop listening and give the connection back."""
        self._detach()
        self._thread.close()

    def _read(self) -> None:
        try:
            self._server.consume_input()
            while (notification := self._server.notifies()) is not None:
                self._take(notification.extra.decode(errors="replace"))
        except Exception:
            self._detach()
            self._lost()

    def _take(self, queue: str) -> None:
        if queue == self._proof:
            self._proven.set()
        elif not queue.startswith("proof "):
            self._heard(queue)

    def _detach(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._number)
        self._loop = None


def _listen(connection: BaseDatabaseWrapper) -> Any:
    """Listen; returns libpq's view of the connection, None when the driver has none."""
    connection.ensure_connection()
    with connection.wrap_database_errors:
        server = getattr(connection.connection, "pgconn", None)
        if server is not None:
            connection.create_cursor().execute(f"LISTEN {CHANNEL}")
    return server
