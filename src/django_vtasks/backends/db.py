"""Jobs in the project's own database."""

from typing import TYPE_CHECKING

from django.apps import apps
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured

from ..conf import default_result_ttl
from ..stores.base import AdminStore, ClientStore, WorkerStore
from ..tasks import moved_clock
from .base import VTasksBaseBackend
from .sharing import shared

if TYPE_CHECKING:
    from ..stores.database.options import DatabaseOptions
    from .examining import Examination


class DatabaseTaskBackend(VTasksBaseBackend):
    """Enqueues in the caller's transaction. OPTIONS: `DATABASE` (an alias; default: the router's), `DLQ_CAP`."""

    known_options = VTasksBaseBackend.known_options | {"DATABASE"}

    @property
    def client_store(self) -> ClientStore:
        """The database store for application code."""
        return shared(self.alias, "client", self._make_client_store)

    @property
    def admin_store(self) -> AdminStore:
        """The database store for operators."""
        return shared(self.alias, "admin", self._make_admin_store)

    def new_worker_store(self) -> WorkerStore:
        """A database store for one worker."""
        from ..stores.database.worker import DatabaseWorkerStore

        return DatabaseWorkerStore(self._store_options())

    def new_inline_store(self) -> WorkerStore:
        """A database store that works on the connection of whoever awaits it."""
        from ..stores.database.inline import InlineWorkerStore

        return InlineWorkerStore(self._store_options())

    @property
    def location(self) -> str:
        """The vendor and the name of the database."""
        from django.db import connections

        connection = connections[self.options.get("DATABASE") or "default"]
        settings = connection.settings_dict
        where = f"{settings['HOST']}/" if settings.get("HOST") else ""
        return f"{connection.vendor} {where}{settings['NAME']}"

    @property
    def is_private(self) -> bool:
        """Whether the database is SQLite's `:memory:`."""
        from django.db import connections

        connection = connections[self.options.get("DATABASE") or "default"]
        return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())  # type: ignore[attr-defined]

    def check_store(self) -> list[CheckMessage]:
        """What the store needs."""
        from .checking import check_database

        return check_database(self)

    def examine(self) -> "Examination":
        """See `VTasksBaseBackend.examine`."""
        from .examining import examine_database

        return examine_database(self._store_options())

    def _make_client_store(self) -> ClientStore:
        from ..stores.database.client import DatabaseClientStore

        return DatabaseClientStore(self._store_options())

    def _make_admin_store(self) -> AdminStore:
        from ..stores.database.admin import DatabaseAdminStore

        return DatabaseAdminStore(self._store_options())

    def _store_options(self) -> "DatabaseOptions":
        if not apps.is_installed("django_vtasks.db"):
            # The models would be taken for those of another app, which says nothing about what to do.
            raise ImproperlyConfigured(
                f"TASKS[{self.alias!r}] keeps jobs in the database, but its app is not installed: add "
                "'django_vtasks.db' to INSTALLED_APPS and run migrate."
            )
        from ..stores.database.options import DatabaseOptions

        return DatabaseOptions(
            using=self.options.get("DATABASE"),
            dead_letter_cap=self.dlq_cap,
            result_ttl=default_result_ttl(self.alias),
            clock=moved_clock(),
        )
