"""Running statements on one of Django's connections, with driver errors turned into the store's."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from types import TracebackType
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ...jobs.errors import StoreRefused, StoreUnavailable
from .moments import Moment, ServerMoment, host_moment, ticks
from .options import DatabaseOptions
from .queries import vendor_of
from .queries.vendor import Vendor


class Session:
    """One connection during one operation of a store: its dialect, the moment, and a cursor.

    `begin` is how a transaction starts on a connection that Django does not manage meanwhile: a plain statement, which
    saves Django's round trips for autocommit, and on SQLite takes the lock before anything is read.
    """

    def __init__(
        self,
        connection: BaseDatabaseWrapper,
        options: DatabaseOptions,
        cursor: Any,
        begin: str | None,
        places: int = 1,
    ) -> None:
        self.connection = connection
        self.vendor = vendor_of(connection)
        self.moment = moment_of(self.vendor, options, places)
        self._options = options
        self._cursor = cursor
        self._begin = begin
        self._begun = False

    def run(self, template: str, params: Sequence[Any] = ()) -> int:
        """Run a statement; returns how many rows it changed."""
        self._cursor.execute(self.moment.sql(template), params)
        return int(self._cursor.rowcount)

    def run_many(self, template: str, sets: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each set of parameters. Not for PostgreSQL.

        There psycopg sends many in a pipeline; while that is under way, or ended with a flush, the server counts no
        time, and a process that stands still keeps its locks.
        """
        if len(sets) == 1:
            self.run(template, sets[0])
        elif sets:
            self._cursor.executemany(self.moment.sql(template), sets)

    def rows(self, template: str, params: Sequence[Any] = ()) -> list[Any]:
        """Run a query; returns its rows."""
        self._cursor.execute(self.moment.sql(template), params)
        return self._cursor.fetchall()  # type: ignore[no-any-return]

    @property
    def can_prepare(self) -> bool:
        """Whether statements can be prepared and then executed by name, each in a transaction of its own."""
        # EXECUTE takes no parameters of the protocol: the driver must put the values into the text.
        writes_values = self.vendor.prepares and hasattr(self._cursor, "mogrify")
        outside = self._begin is not None and not self._begun
        return writes_values and outside and isinstance(self.moment, ServerMoment)

    def prepare(self, name: str, template: str) -> None:
        """Have the server keep a statement under a name."""
        pieces = self.moment.sql(template).split("%s")
        numbered = "".join(f"{piece}${number}" for number, piece in enumerate(pieces[:-1], 1)) + pieces[-1]
        self._cursor.execute(f"PREPARE {name} AS {numbered.replace('%%', '%')}")

    def execute_prepared(self, name: str, params: Sequence[Any]) -> list[Any]:
        """Run a statement that was prepared; returns its rows."""
        places = f" {self.vendor.places(params)}" if params else ""
        self._cursor.execute(f"EXECUTE {name}{places}", params)
        return self._cursor.fetchall()  # type: ignore[no-any-return]

    def deallocate(self, name: str) -> None:
        """Have the server forget a statement."""
        self._cursor.execute(f"DEALLOCATE {name}")

    def row(self, template: str, params: Sequence[Any] = ()) -> Any:
        """Run a query; returns its first row or None."""
        rows = self.rows(template, params)
        return rows[0] if rows else None

    def now(self) -> float:
        """What time it is, in epoch seconds."""
        row = self.row(f"SELECT {self.vendor.epoch_column('{now}')}")
        return self.vendor.epoch_out(row[0]) or 0.0

    def new_moment(self) -> float:
        """What time it is by now, in epoch seconds: the moment of what follows, when locks were waited for."""
        self.moment = moment_of(self.vendor, self._options, 1)
        return self.now()

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """All or nothing; inside a transaction of the caller a savepoint, so that a failure leaves it usable."""
        if self._begin is None:
            with transaction.atomic(using=self.connection.alias):
                yield
        elif self._begun:
            yield
        else:
            with self._transaction(self._begin):
                yield

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self._cursor.execute(begin, **self.vendor.begin_options)
        self._begun = True
        try:
            yield
            self._cursor.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._begun = False

    def _roll_back(self) -> None:
        try:
            self._cursor.execute("ROLLBACK")
        except Exception:
            # The connection is broken, or the server has rolled back by itself: the next statement will tell.
            self.connection.errors_occurred = True


def moment_of(vendor: Vendor, options: DatabaseOptions, places: int) -> Moment:
    """Now, by the clock that counts; `places` says how many places in the order will be used."""
    if options.clock is not None:
        return ticks(options.clock).moment(vendor, places)
    return ServerMoment(vendor) if vendor.now else host_moment(vendor)


type NewSession = Callable[[BaseDatabaseWrapper, DatabaseOptions, int], AbstractContextManager[Session]]
"""Makes the session of one operation on a connection; the number is how many places in the order it may use."""


def begin_outside(connection: BaseDatabaseWrapper) -> str | None:
    """How a transaction starts on the application's connection; None where Django is to do it."""
    return "BEGIN IMMEDIATE" if connection.vendor == "sqlite" and not connection.in_atomic_block else None


class client_session:  # noqa: N801 - called like a function; one made by `contextmanager` takes three times as long
    """A session on the application's own connection, seen by whatever watches the application's statements.

    What the driver raises is turned into StoreRefused or StoreUnavailable.
    """

    __slots__ = ("_connection", "_cursor", "_options", "_places")

    def __init__(self, connection: BaseDatabaseWrapper, options: DatabaseOptions, places: int = 1) -> None:
        self._connection = connection
        self._options = options
        self._places = places

    def __enter__(self) -> Session:
        connection = self._connection
        try:
            self._cursor: Any = connection.cursor()
        except (DatabaseError, InterfaceError) as error:
            raise as_store_error(error) from error
        return Session(connection, self._options, self._cursor, begin_outside(connection), self._places)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cursor.__exit__(kind, error, trace)
        if isinstance(error, DatabaseError | InterfaceError):
            raise as_store_error(error) from error


@contextmanager
def worker_session(connection: BaseDatabaseWrapper, options: DatabaseOptions, places: int = 1) -> Iterator[Session]:
    """A session on the store's own connection, past the query log that DEBUG would fill."""
    connection.ensure_connection()
    with connection.wrap_database_errors, closing(connection.create_cursor()) as cursor:
        yield Session(connection, options, cursor, vendor_of(connection).begin, places)


_MISSING = ("no such table", "does not exist", "doesn't exist", "no such column", "has no column", "Unknown column")
#: Parts of what SQLite says in an OperationalError although trying again would not help.
_REFUSALS = (*_MISSING, "readonly")
#: What MySQL says in an OperationalError when trying again may help: a full disk or table, locks, limits, shutdown, a
#: lost connection.
_PASSING_MYSQL = frozenset(
    (1021, 1040, 1053, 1114, 1129, 1158, 1159, 1160, 1161, 1180, 1203, 1205, 1213, 1226, 1317, 1927, 3024)
)
_CLIENT_MYSQL = 2000
#: PostgreSQL ended the session because its transaction stood still for too long, which the driver has as internal.
_STOOD_STILL = frozenset(("25P03", "25P04"))


def as_store_error(error: Exception) -> StoreRefused | StoreUnavailable:
    """The store's error for a driver's error."""
    text = str(error).strip()
    if any(part in text for part in _MISSING):
        return StoreRefused(f"{text} (run `manage.py migrate` for this database)")
    return StoreUnavailable(text) if _is_passing(error, text) else StoreRefused(text)


def _is_passing(error: Exception, text: str) -> bool:
    cause = error.__cause__
    if (getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)) in _STOOD_STILL:
        return True
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    number = error.args[0] if error.args else None
    if isinstance(number, int):
        return number in _PASSING_MYSQL or number >= _CLIENT_MYSQL
    return not any(part in text for part in _REFUSALS)
