"""What a database store can be told."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    """Where the tables are and how much is kept.

    `using` is a database alias (None = what the router answers for writes to `QueuedTask`). `result_ttl` (seconds)
    is for cancelled jobs that name none of their own. A worker's statement that
    is not answered within `reply_timeout` seconds counts as an outage. `clock` (epoch seconds) replaces the database's
    clock in tests.
    """

    using: str | None = None
    dead_letter_cap: int = 1000
    result_ttl: float = 0.0
    reply_timeout: float = 15.0
    clock: Callable[[], float] | None = None
