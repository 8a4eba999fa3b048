"""The memory store: all three protocols in one object."""

import time
from collections.abc import Callable

from ...jobs.transitions import Policy
from .admin import MemoryAdminStore
from .client import MemoryClientStore
from .state import State
from .worker import MemoryWorkerStore


class MemoryStore(MemoryClientStore, MemoryWorkerStore, MemoryAdminStore):
    """Jobs in memory, safe to share between threads and event loops; gone with the process.

    Give `clock` (epoch seconds) to decide what time it is. The oldest dead letters beyond `dead_letter_cap` are
    evicted. `result_ttl` (seconds) is for cancelled jobs that name none of their own.
    """

    def __init__(
        self, clock: Callable[[], float] = time.time, *, dead_letter_cap: int = 1000, result_ttl: float = 0.0
    ) -> None:
        super().__init__(State(clock, dead_letter_cap))
        self.policy = Policy(result_ttl=result_ttl)
