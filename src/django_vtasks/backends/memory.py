"""Jobs in memory, for tests."""

from ..conf import default_result_ttl
from ..stores.base import AdminStore, ClientStore, WorkerStore
from ..stores.memory import MemoryStore
from ..tasks import clock
from .base import VTasksBaseBackend
from .sharing import forget, shared

KIND = "memory"


class MemoryTaskBackend(VTasksBaseBackend):
    """Keeps jobs in the memory of this process until `clear_memory`; enqueues when the caller's transaction commits.

    For tests, and for a worker embedded in a single process: no other process sees the jobs.
    """

    @property
    def client_store(self) -> ClientStore:
        """The store of the alias, one for all sides."""
        return self._store()

    @property
    def admin_store(self) -> AdminStore:
        """The store of the alias, one for all sides."""
        return self._store()

    def new_worker_store(self) -> WorkerStore:
        """The store of the alias, one for all sides."""
        return self._store()

    @property
    def is_private(self) -> bool:
        """Always."""
        return True

    @property
    def location(self) -> str:
        """Where the jobs are, for people to read."""
        return "the memory of this process"

    def _store(self) -> MemoryStore:
        return shared(self.alias, KIND, self._make_store)

    def _make_store(self) -> MemoryStore:
        return MemoryStore(clock, dead_letter_cap=self.dlq_cap, result_ttl=default_result_ttl(self.alias))


def clear_memory() -> None:
    """Forget every job of every alias that keeps its jobs in memory."""
    forget(KIND)
