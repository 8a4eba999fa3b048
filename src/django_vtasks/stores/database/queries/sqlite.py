"""SQLite: one writer at a time, and the host's clock is the database's clock."""

from django.db.backends.base.base import BaseDatabaseWrapper

from .vendor import Vendor


class SQLite(Vendor):
    """The dialect of SQLite."""

    begin = "BEGIN IMMEDIATE"
    max_rows = 100
    reads_partial_indexes_alone = False

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        super().__init__(connection)
        self.native_uuid = False
