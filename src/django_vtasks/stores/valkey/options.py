"""What a Valkey store is told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .keys import DEFAULT_PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class ValkeyOptions:
    """Where the server is and how it is used. Durations are seconds.

    Give `urls` (one, or several start nodes with `cluster`) or in `cache` an entry of CACHES, which wins. `result_ttl`
    is how long results of jobs are kept that name no time of their own (None = not known here). `clock` replaces the
    server's time in tests.
    """

    urls: tuple[str, ...] = field(default=(), repr=False)
    cache: Mapping[str, Any] | None = field(default=None, repr=False)
    cluster: bool = False
    prefix: str = DEFAULT_PREFIX
    dead_letter_cap: int = 1000
    result_ttl: float | None = None
    connect_timeout: float = 2.0
    read_timeout: float = 5.0
    blocking_timeout: float = 1.0
    poll_interval: float = 0.22
    clock: Callable[[], float] | None = field(default=None, repr=False)

    @property
    def grace(self) -> float:
        """Seconds by which the server's own expiry is put off while a test clock decides what is over."""
        return 3600.0 if self.clock else 0.0
