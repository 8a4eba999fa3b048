"""A worker's store on the connection of whoever awaits it, inside a transaction that may be open there."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from asgiref.sync import sync_to_async
from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..base import Connections
from .options import DatabaseOptions
from .session import Session, as_store_error, begin_outside
from .threads import Work
from .worker import DatabaseWorkerStore


class CallersThread:
    """Runs work where the ORM calls of the awaiting code run. No timeout: nobody else could use the connection."""

    def __init__(self, alias: str, _name: str) -> None:
        self._alias = alias

    async def call[T](self, work: Work[T], timeout: float) -> T:
        """What the work returns."""
        return await sync_to_async(self.call_blocking)(work, timeout)  # type: ignore[no-any-return,unused-ignore]

    def call_blocking[T](self, work: Work[T], timeout: float) -> T:  # noqa: ARG002 - as of DatabaseThread
        """As `call`, for code without an event loop."""
        connection = connections[self._alias]
        try:
            with unwatched(connection):
                return work(connection)
        except (DatabaseError, InterfaceError) as error:
            raise as_store_error(error) from error

    def connections(self) -> Connections:
        """None: it made none."""
        return Connections()

    def close(self, timeout: float = 0.0) -> None:
        """The connection is the caller's."""


class InlineWorkerStore(DatabaseWorkerStore):
    """Sees uncommitted rows of the caller's transaction, and what it writes is undone with that transaction."""

    def __init__(self, options: DatabaseOptions) -> None:
        super().__init__(options, new_thread=CallersThread, new_session=inline_session)


@contextmanager
def unwatched(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Leave out of the query log what is done meanwhile: a test counts the statements of its own code."""
    forced, connection.force_debug_cursor = connection.force_debug_cursor, False
    try:
        yield
    finally:
        connection.force_debug_cursor = forced


@contextmanager
def inline_session(connection: BaseDatabaseWrapper, options: DatabaseOptions, places: int = 1) -> Iterator[Session]:
    """A session on the application's own connection, past whatever watches the application's statements."""
    connection.ensure_connection()
    with connection.wrap_database_errors, closing(connection.create_cursor()) as cursor:
        yield Session(connection, options, cursor, begin_outside(connection), places)
