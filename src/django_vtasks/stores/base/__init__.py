"""The seam between policy and storage: three protocols, named after who holds them, and the values they exchange.

A store writes decisions down, each in one atomic step, and decides nothing. Times are epoch seconds by the store's
own clock (Valkey `TIME`, the database's now); durations are seconds. Driver errors leave a store as
`StoreUnavailable` (try again later) or `StoreRefused` (the server said no).
"""

from .deferred import DeferredStore
from .protocols import AdminStore, ClientStore, WorkerStore
from .values import (
    FARTHEST,
    MAX_AHEAD,
    Added,
    AddStatus,
    CancelStatus,
    ClaimRequest,
    Connections,
    Exchange,
    Firing,
    JobFilter,
    LetterGroup,
    Page,
    Pulse,
    Purged,
    QueueCounts,
    Redrive,
    Retention,
    Standing,
    Want,
    WorkerInfo,
    position,
)

__all__ = [
    "FARTHEST",
    "MAX_AHEAD",
    "AddStatus",
    "Added",
    "AdminStore",
    "CancelStatus",
    "ClaimRequest",
    "ClientStore",
    "Connections",
    "DeferredStore",
    "Exchange",
    "Firing",
    "JobFilter",
    "LetterGroup",
    "Page",
    "Pulse",
    "Purged",
    "QueueCounts",
    "Redrive",
    "Retention",
    "Standing",
    "Want",
    "WorkerInfo",
    "WorkerStore",
    "position",
]
