"""What differs between database systems."""

from weakref import WeakKeyDictionary

from django.core.exceptions import ImproperlyConfigured
from django.db.backends.base.base import BaseDatabaseWrapper

from .vendor import Vendor

_known: WeakKeyDictionary[BaseDatabaseWrapper, Vendor] = WeakKeyDictionary()


def vendor_of(connection: BaseDatabaseWrapper) -> Vendor:
    """The dialect that a connection speaks. Raises ImproperlyConfigured for a system that cannot hold jobs."""
    vendor = _known.get(connection)
    if vendor is None or vendor.timezone is not connection.timezone:
        vendor = _known[connection] = _new(connection)
    return vendor


def _new(connection: BaseDatabaseWrapper) -> Vendor:
    match connection.vendor:
        case "postgresql":
            from .postgresql import PostgreSQL

            return PostgreSQL(connection)
        case "sqlite":
            from .sqlite import SQLite

            return SQLite(connection)
        case "mysql":
            from .mysql import MySQL

            return MySQL(connection)
    raise ImproperlyConfigured(
        f"The database alias {connection.alias!r} is {connection.display_name}, which the database store cannot use: "
        "use PostgreSQL, SQLite, MySQL or MariaDB, or set another alias in the option USING of the TASKS entry"
    )
