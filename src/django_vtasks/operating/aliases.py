"""The aliases of TASKS whose jobs can be looked at: those of this package that keep them in a store."""

from dataclasses import dataclass
from typing import TypeGuard

from django.core.exceptions import ImproperlyConfigured

from ..backends.base import VTasksBaseBackend
from ..conf import queue_configs
from ..framework import InvalidTaskBackend, task_backends
from ..jobs.errors import StoreRefused
from ..stores.base import AdminStore, ClientStore


class UnknownAlias(InvalidTaskBackend):
    """Raised for an alias that TASKS does not have, or whose jobs are not kept; it says which there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """One alias of TASKS and its backend."""

    name: str
    backend: VTasksBaseBackend

    @property
    def admin(self) -> AdminStore:
        """The operators' side of its store. Raises StoreRefused when the alias is not configured well."""
        try:
            return self.backend.admin_store
        except ImproperlyConfigured as error:
            raise StoreRefused(str(error)) from error

    @property
    def client(self) -> ClientStore:
        """The application's side of its store. Raises StoreRefused as `admin` does."""
        try:
            return self.backend.client_store
        except ImproperlyConfigured as error:
            raise StoreRefused(str(error)) from error

    def configured_queues(self) -> set[str]:
        """The queues that settings name, so that one without jobs is known too."""
        return {*self.backend.queues, *queue_configs()}


def aliases() -> list[Alias]:
    """Every alias whose jobs can be looked at, in the order of TASKS."""
    backends = ((name, task_backends[name]) for name in task_backends)
    return [Alias(name=name, backend=backend) for name, backend in backends if _keeps_jobs(backend)]


def alias_named(name: str) -> Alias:
    """One alias. Raises UnknownAlias (an InvalidTaskBackend) that names the choices."""
    found = {alias.name: alias for alias in aliases()}
    if name not in found:
        raise UnknownAlias(f"TASKS has no alias {name!r} with a store; choose one of: {', '.join(found) or 'none'}")
    return found[name]


def _keeps_jobs(backend: object) -> TypeGuard[VTasksBaseBackend]:
    if not isinstance(backend, VTasksBaseBackend):
        return False
    try:
        return bool(backend.admin_store)
    except NotImplementedError:
        return False
    except ImproperlyConfigured:
        # Its pages say what is wrong.
        return True
