"""Inserting one job by a statement that PostgreSQL keeps for the application's own session.

To plan that INSERT takes the server about as long as to run it, and cursors take as long again. It passes them by only
where nobody could tell: outside transactions, and with nothing around that looks at the statements of the application.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import django
from django.db import DatabaseError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from .insert import Row
from .names import JOBS, column_text
from .plans import LOST, MOST_LOSSES, new_name
from .session import as_store_error

ENOUGH = 5
"""Inserts on one connection after which the statement is kept there; as psycopg has it for its own."""

_INSERT = f"""
INSERT INTO {JOBS} (id, queue, data, status, created_at, priority)
VALUES ($1, $2, $3, 'QUEUED', statement_timestamp(), $4)
""".encode()
_FORMATS = (0, 0, 1, 0)
"""Of the parameters: text or binary."""

logger = logging.getLogger("django_vtasks.stores.database")


class PreparedInsert:
    """The prepared statements of one store, one for each connection of the driver's."""

    def __init__(self) -> None:
        self._sessions: WeakKeyDictionary[Any, _Kept] = WeakKeyDictionary()
        self._losses = 0

    def insert(self, connection: BaseDatabaseWrapper, row: Row) -> bool:
        """Insert a new job; False when nothing was done, and the job is to be inserted as any other.

        Raises StoreRefused or StoreUnavailable.
        """
        if connection.in_atomic_block or self._losses >= MOST_LOSSES or not row.is_plain or not _is_stock(connection):
            return False
        try:
            with connection.wrap_database_errors:
                driver = _driver_of(connection)
                return driver is not None and self._insert(driver, row)
        except (DatabaseError, InterfaceError) as error:
            raise as_store_error(error) from error

    def _insert(self, driver: Any, row: Row) -> bool:
        kept = self._sessions.get(driver)
        if kept is None:
            kept = self._sessions[driver] = _Kept()
        name = kept.name or self._prepare(driver, kept)
        if name is None:
            return False
        job = row.job
        values = (job.id.encode(), column_text(job.queue).encode(), row.data, b"%d" % job.priority)
        error = _asked(driver, driver.pgconn.send_query_prepared, name, values, _FORMATS)
        if error is None:
            return True
        if error.sqlstate not in LOST:
            raise error
        del self._sessions[driver]
        self._lose(error)
        return False

    def _prepare(self, driver: Any, kept: "_Kept") -> bytes | None:
        kept.uses += 1
        if kept.uses < ENOUGH:
            return None
        name = new_name().encode()
        if error := _asked(driver, driver.pgconn.send_prepare, name, _INSERT):
            # The usual way will say what is wrong, or will work.
            self._lose(error)
            return None
        kept.name = name
        return name

    def _lose(self, error: Exception) -> None:
        self._losses += 1
        if self._losses == MOST_LOSSES:
            reason = str(error).partition("\n")[0]
            logger.info("Inserts are planned anew each time from now on, until this process is restarted: %s", reason)


class _Kept:
    """What is known of one session of the server."""

    __slots__ = ("name", "uses")

    def __init__(self) -> None:
        self.uses = 0
        self.name: bytes | None = None


def _is_stock(connection: BaseDatabaseWrapper) -> bool:
    """Whether it is Django's own, and shared with no pooler; one derived from it may do more when a cursor is made."""
    return type(connection).__module__ in _STOCK and not connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")


def _driver_of(connection: BaseDatabaseWrapper) -> Any:
    """The driver's connection; None when somebody would miss a statement that no cursor runs."""
    if connection.queries_logged or connection.execute_wrappers or not _is_unwatched(connection):
        return None
    # All that Django does before it makes a cursor.
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    connection.validate_thread_sharing()
    driver = connection.connection
    if type(driver).__module__ != "psycopg" or driver.cursor_factory.__module__ not in _STOCK:
        return None
    # A transaction may have been begun by hand, and so may a pipeline.
    server = driver.pgconn
    is_idle = connection.autocommit and server.transaction_status == _IDLE and server.pipeline_status == _NO_PIPELINE
    return driver if is_idle else None


def _is_unwatched(connection: BaseDatabaseWrapper) -> bool:
    """Whether nobody has put another function in the place of Django's, to trace, count or forbid statements."""
    # Django's own test cases leave the method in the object that they had replaced there.
    return _is_djangos(getattr(connection.cursor, "__func__", None)) and _is_djangos(CursorWrapper.execute)


def _is_djangos(function: Any) -> bool:
    return type(function) is FunctionType and function.__code__.co_filename.startswith(_DJANGO)


def _asked(driver: Any, send: Callable[..., None], *args: Any) -> Any:
    """Send something and wait as the driver does; returns the error that the server answered, None if it did not."""
    from psycopg import OperationalError
    from psycopg.errors import error_from_result
    from psycopg.generators import execute

    with driver.lock:
        send(*args)
        results = driver.wait(execute(driver.pgconn))
    if not results:
        raise OperationalError("the server has not said whether the job is enqueued")
    return next((error_from_result(result) for result in results if result.status != _DONE), None)


_DJANGO = f"{Path(django.__file__).parent}{os.sep}"
_STOCK = frozenset(("django.db.backends.postgresql.base", "django.contrib.gis.db.backends.postgis.base"))
#: Values of libpq's PQtransactionStatus, PQpipelineStatus and PQresultStatus.
_IDLE = 0
_NO_PIPELINE = 0
_DONE = 1
