"""The three sides of the Valkey store."""

from .client_store import ValkeyClientStore
from .options import ValkeyOptions
from .worker_store import ValkeyWorkerStore

__all__ = ["ValkeyClientStore", "ValkeyOptions", "ValkeyWorkerStore"]
