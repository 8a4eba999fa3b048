"""Every store keeps the three protocols: read by mypy in `test_typing.py`, never run."""

from __future__ import annotations

from django_vtasks.stores.base import AdminStore, ClientStore, WorkerStore
from django_vtasks.stores.database.store import (
    DatabaseAdminStore,
    DatabaseClientStore,
    DatabaseOptions,
    DatabaseWorkerStore,
)
from django_vtasks.stores.memory import MemoryStore
from django_vtasks.stores.valkey.store import (
    ValkeyAdminStore,
    ValkeyClientStore,
    ValkeyOptions,
    ValkeyWorkerStore,
)

clients: list[ClientStore] = [
    MemoryStore(),
    DatabaseClientStore(DatabaseOptions()),
    ValkeyClientStore(ValkeyOptions()),
]
workers: list[WorkerStore] = [
    MemoryStore(),
    DatabaseWorkerStore(DatabaseOptions()),
    ValkeyWorkerStore(ValkeyOptions()),
]
admins: list[AdminStore] = [
    MemoryStore(),
    DatabaseAdminStore(DatabaseOptions()),
    ValkeyAdminStore(ValkeyOptions()),
]
no_admin: AdminStore = ValkeyClientStore(ValkeyOptions())  # error: assignment
