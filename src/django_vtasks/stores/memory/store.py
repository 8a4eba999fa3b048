"""The memory store: all three protocols in one object."""

import time
from collections.abc import Callable

from .admin import MemoryAdminStore
from .client import MemoryClientStore
from .state import State
from .worker import MemoryWorkerStore


class MemoryStore(MemoryClientStore, MemoryWorkerStore, MemoryAdminStore):
    """Jobs in memory, safe to share between threads and event loops; gone with the process.

    Give `clock` (epoch seconds) to decide what time it is. The oldest dead letters beyond `dead_letter_cap` are
    evicted.
    """

    def __init__(self, clock: Callable[[], float] = time.time, *, dead_letter_cap: int = 1000) -> None:
        super().__init__(State(clock, dead_letter_cap))
