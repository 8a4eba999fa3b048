"""Jobs in Valkey or Redis."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from ..conf import settings
from ..stores.base import AdminStore, ClientStore, WorkerStore
from .base import VTasksBaseBackend
from .sharing import shared


class ValkeyTaskBackend(VTasksBaseBackend):
    """Enqueues when the caller's transaction commits. OPTIONS: `cache_alias` or `BROKER_URL`, `CLUSTER_MODE`,
    `PREFIX`, `BLOCKING_TIMEOUT`, `DLQ_CAP`."""

    requires_scheduled_promotion = True
    default_result_ttl = 600.0
    reserved_queues = frozenset(("failed",))
    known_options = VTasksBaseBackend.known_options | {
        "cache_alias",
        "BROKER_URL",
        "CLUSTER_MODE",
        "PREFIX",
        "BLOCKING_TIMEOUT",
        "CONNECT_TIMEOUT",
        "SOCKET_TIMEOUT",
    }

    @property
    def client_store(self) -> ClientStore:
        """The Valkey store for application code."""
        return shared(self.alias, "client", self._make_client_store)

    @property
    def admin_store(self) -> AdminStore:
        """The Valkey store for operators."""
        return shared(self.alias, "admin", self._make_admin_store)

    def new_worker_store(self) -> WorkerStore:
        """A Valkey store for one worker."""
        from ..stores.valkey.store import ValkeyWorkerStore

        return ValkeyWorkerStore(self._store_options())

    @property
    def prefix(self) -> str:
        """What every key starts with: the `PREFIX` option, else `VTASKS_VALKEY_PREFIX`; ends with a colon."""
        prefix: str = self.options.get("PREFIX") or settings.VTASKS_VALKEY_PREFIX
        return prefix if not prefix or prefix.endswith(":") else f"{prefix}:"

    @property
    def blocking_timeout(self) -> float:
        """Seconds that a worker waits for jobs in one call."""
        return float(self.options.get("BLOCKING_TIMEOUT", 1.0))

    def _make_client_store(self) -> ClientStore:
        from ..stores.valkey.store import ValkeyClientStore

        return ValkeyClientStore(self._store_options())

    def _make_admin_store(self) -> AdminStore:
        from ..stores.valkey.store import ValkeyAdminStore

        return ValkeyAdminStore(self._store_options())

    def _store_options(self) -> Any:
        from ..stores.valkey.store import ValkeyOptions

        if not self.options.get("cache_alias") and not self.options.get("BROKER_URL"):
            raise ImproperlyConfigured(
                f"TASKS[{self.alias!r}]['OPTIONS'] needs 'cache_alias' (an alias of CACHES) or 'BROKER_URL'."
            )
        return ValkeyOptions(prefix=self.prefix, dead_letter_cap=self.dlq_cap)
