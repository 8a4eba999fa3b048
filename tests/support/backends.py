"""A backend over the memory store, for tests of what all backends share."""

from __future__ import annotations

from django_vtasks.backends.base import VTasksBaseBackend
from django_vtasks.backends.sharing import shared
from django_vtasks.stores.memory import MemoryStore


class Transactional(MemoryStore):
    """A memory store that says that it joins the caller's transaction."""

    transactional = True


class MemoryBackend(VTasksBaseBackend):
    """Jobs in memory, forgotten when a test changes TASKS."""

    def _store(self):
        return shared(self.alias, "memory", MemoryStore)

    @property
    def client_store(self):
        return self._store()

    @property
    def admin_store(self):
        return self._store()

    def new_worker_store(self):
        return self._store()


class TransactionalBackend(MemoryBackend):
    """As MemoryBackend, but enqueues at once inside transactions, as a database does."""

    def _store(self):
        return shared(self.alias, "memory", Transactional)
