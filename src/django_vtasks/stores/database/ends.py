"""Hearing of the ends of jobs on PostgreSQL: a mark in the row, a notification by whoever takes such a row away."""

import contextlib
import os
import selectors
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..base.ends import EarThread, Ends
from .listen import PROOF_TIMEOUT, CannotListen
from .names import ENDED, JOBS
from .waiting import NEXT_PROOF

LINGER = 1.0
"""Seconds that the connection is kept when nobody waits any more."""

_FIND = f"SELECT id::text, waited FROM {JOBS} WHERE id = ANY(%s::uuid[]) AND status <> 'FAILED'"
_MARK = (
    f"UPDATE {JOBS} SET waited = TRUE WHERE id ="
    f" (SELECT id FROM {JOBS} WHERE id = %s AND status <> 'FAILED' FOR UPDATE SKIP LOCKED)"
)
_NOTIFY = "SELECT pg_notify(%s, %s)"


class PostgresEars(EarThread):
    """See `Ears`. The thread marks the rows too: a transaction of the caller would lock them while it lasts."""

    def __init__(self, ends: Ends, alias: str) -> None:
        super().__init__(ends)
        self._alias = alias
        self._asked: deque[str] = deque()
        self._proof = ""
        self._bell, self._rope = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._rope, False)

    def listen_for(self, job_id: str) -> bool:
        """See `Ears`. An end that came before the mark is told as well."""
        self._asked.append(job_id)
        try:
            os.write(self._rope, b"1")
        except BlockingIOError:
            pass  # The bell rings already.
        return self.start()

    async def alisten_for(self, job_id: str) -> bool:
        """See `Ears`."""
        return self.listen_for(job_id)

    def deaf_for(self, error: Exception) -> float:
        """See `EarThread`. What does not let notifications through will not do so soon."""
        return NEXT_PROOF if isinstance(error, CannotListen) else super().deaf_for(error)

    def hear(self) -> None:
        """See `EarThread`."""
        connection = connections[self._alias]
        try:
            with selectors.DefaultSelector() as selector:
                self._hear(connection, selector)
        finally:
            _give_back(connection, self._handler)

    def _hear(self, connection: BaseDatabaseWrapper, selector: selectors.BaseSelector) -> None:
        connection.ensure_connection()
        driver = connection.connection
        server = getattr(driver, "pgconn", None)
        if server is None:
            raise CannotListen("the driver is not psycopg 3")
        # What arrives while a statement runs is given to the handler, all else is read here.
        driver.add_notify_handler(self._handler)
        with connection.create_cursor() as cursor:
            cursor.execute(f"LISTEN {ENDED}")
        selector.register(server.socket, selectors.EVENT_READ)
        self._prove(connection, server, selector)
        selector.register(self._bell, selectors.EVENT_READ)
        self.hears = True
        needed_at = time.monotonic()
        while self.ends or time.monotonic() - needed_at < LINGER:
            if self.ends:
                needed_at = time.monotonic()
            self._mark(connection)
            selector.select(LINGER)
            self._read(server)

    def _prove(self, connection: BaseDatabaseWrapper, server: object, selector: selectors.BaseSelector) -> None:
        """See to it that a notification sent over another connection arrives. Raises CannotListen."""
        self._proof = f"proof {os.urandom(8).hex()}"
        other = connection.copy()
        try:
            with other.cursor() as cursor:
                cursor.execute(_NOTIFY, (ENDED, self._proof))
        finally:
            other.close()
        deadline = time.monotonic() + PROOF_TIMEOUT
        while self._proof and (left := deadline - time.monotonic()) > 0:
            selector.select(left)
            self._read(server)
        if self._proof:
            raise CannotListen("no notification arrives, as behind a pooler in transaction mode")

    def _read(self, server: object) -> None:
        try:
            while os.read(self._bell, 4096):
                pass
        except BlockingIOError:
            pass
        server.consume_input()  # type: ignore[attr-defined] # libpq's view of the connection
        while (notification := server.notifies()) is not None:  # type: ignore[attr-defined]
            self._heard(notification.extra.decode(errors="replace"))

    def _handler(self, notification: Any) -> None:
        self._heard(notification.payload)

    def _heard(self, text: str) -> None:
        if text == self._proof:
            self._proof = ""
        else:
            self.ends.tell(text)

    def _mark(self, connection: BaseDatabaseWrapper) -> None:
        wanted: set[str] = set()
        while self._asked:
            wanted.add(self._asked.popleft())
        if not wanted:
            return
        with connection.create_cursor() as cursor:
            cursor.execute(_FIND, (list(wanted),))
            found: dict[str, bool | None] = dict(cursor.fetchall())
            for job_id in wanted:
                if not found.get(job_id):
                    cursor.execute(_MARK, (job_id,))
                    # It is over, or somebody has it locked for the moment: who waits looks, and asks again.
                    if not cursor.rowcount:
                        self.ends.tell(job_id)


def _give_back(connection: BaseDatabaseWrapper, handler: Callable[[Any], None]) -> None:
    """Close a connection; a pool, which may keep it, gets it without anybody listening on it."""
    with contextlib.suppress(Exception):
        with connection.create_cursor() as cursor:
            cursor.execute("UNLISTEN *")
        connection.connection.remove_notify_handler(handler)
    connection.close()
