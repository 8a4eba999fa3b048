"""The three sides of the Valkey store."""

from .admin_store import ValkeyAdminStore
from .client_store import ValkeyClientStore
from .options import ValkeyOptions
from .worker_store import ValkeyWorkerStore

__all__ = ["ValkeyAdminStore", "ValkeyClientStore", "ValkeyOptions", "ValkeyWorkerStore"]
