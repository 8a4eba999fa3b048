"""The three sides of the database store."""

from .admin import DatabaseAdminStore
from .client import DatabaseClientStore
from .options import DatabaseOptions
from .worker import DatabaseWorkerStore

__all__ = ["DatabaseAdminStore", "DatabaseClientStore", "DatabaseOptions", "DatabaseWorkerStore"]
