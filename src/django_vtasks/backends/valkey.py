"""Jobs in Valkey or Redis."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.conf import settings as django_settings
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured

from ..conf import default_result_ttl, settings
from ..stores.base import AdminStore, ClientStore, WorkerStore
from ..tasks import moved_clock
from .base import VTasksBaseBackend
from .sharing import shared

if TYPE_CHECKING:
    from ..stores.valkey.options import ValkeyOptions
    from .examining import Examination


class ValkeyTaskBackend(VTasksBaseBackend):
    """Enqueues when the caller's transaction commits.

    OPTIONS: `cache_alias` or `BROKER_URL`, `CLUSTER_MODE`, `PREFIX`, `BLOCKING_TIMEOUT`, `CONNECT_TIMEOUT`,
    `SOCKET_TIMEOUT` (seconds), `DLQ_CAP`, `RAISE_AT_COMMIT`.
    """

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
        from ..stores.valkey.worker_store import ValkeyWorkerStore

        return ValkeyWorkerStore(self._store_options())

    @property
    def prefix(self) -> str:
        """What every key starts with: the `PREFIX` option, else `VTASKS_VALKEY_PREFIX`; ends with a colon."""
        prefix: str = self.options.get("PREFIX") or settings.VTASKS_VALKEY_PREFIX
        return prefix if not prefix or prefix.endswith(":") else f"{prefix}:"

    @property
    def location(self) -> str:
        """The servers as one URL, its password masked."""
        from ..stores.valkey.connection import link_of

        return str(link_of(self._store_options()).endpoint)

    def _get_key(self, name: str) -> str:
        return f"{self.prefix}{name}"

    @property
    def blocking_timeout(self) -> float:
        """Seconds that a worker waits for jobs in one call."""
        return float(self.options.get("BLOCKING_TIMEOUT", 1.0))

    def check_store(self) -> list[CheckMessage]:
        """What the store needs."""
        from .checking import check_valkey

        return check_valkey(self)

    def examine(self) -> "Examination":
        """See `VTasksBaseBackend.examine`."""
        from .examining import examine_valkey

        return examine_valkey(self._store_options())

    def _make_client_store(self) -> ClientStore:
        from ..stores.valkey.client_store import ValkeyClientStore

        return ValkeyClientStore(self._store_options())

    def _make_admin_store(self) -> AdminStore:
        from ..stores.valkey.admin_store import ValkeyAdminStore

        return ValkeyAdminStore(self._store_options())

    def _store_options(self) -> "ValkeyOptions":
        from ..stores.valkey.options import ValkeyOptions

        options = self.options
        timeouts: dict[str, Any] = {
            "connect_timeout": options.get("CONNECT_TIMEOUT"),
            "read_timeout": options.get("SOCKET_TIMEOUT"),
        }
        given: dict[str, Any] = {name: float(value) for name, value in timeouts.items() if value is not None}
        return ValkeyOptions(
            urls=broker_urls(options.get("BROKER_URL")),
            cache=self._cache_entry(),
            cluster=bool(options.get("CLUSTER_MODE", False)),
            prefix=self.prefix,
            dead_letter_cap=self.dlq_cap,
            result_ttl=default_result_ttl(self.alias),
            blocking_timeout=self.blocking_timeout,
            clock=moved_clock(),
            **given,
        )

    def _cache_entry(self) -> Mapping[str, Any] | None:
        alias = self.options.get("cache_alias")
        where = f"TASKS[{self.alias!r}]['OPTIONS']"
        if alias is None:
            if not self.options.get("BROKER_URL"):
                raise ImproperlyConfigured(f"{where} needs 'cache_alias' (an alias of CACHES) or 'BROKER_URL'.")
            return None
        entry: Mapping[str, Any] | None = django_settings.CACHES.get(alias)
        if entry is None:
            raise ImproperlyConfigured(f"{where}['cache_alias'] is {alias!r}, which CACHES does not have.")
        return entry


def broker_urls(value: Any) -> tuple[str, ...]:
    """`BROKER_URL` as a tuple: one URL, or several with commas between them or in a list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value or ())
