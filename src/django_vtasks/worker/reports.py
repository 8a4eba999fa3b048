"""What running jobs say of themselves, on its way to the store: the latest word of each, saved now and then."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..jobs.errors import StoreUnavailable
from ..jobs.model import Claim, Lease, Progress
from ..stores.base import WorkerStore
from .service import Pace, PeriodicService

logger = logging.getLogger("django_vtasks.worker")

INTERVAL = 0.5
"""Seconds between two saves of what one job says."""


type Report = Callable[[Claim, Progress | None, Mapping[str, Any] | None], None]
"""Takes what a running job says of itself; called from any thread, and often."""


class Reports(PeriodicService):
    """Takes reports from any thread and saves them; `on_lost` is called when a job turns out to be somebody else's."""

    def __init__(self, store: WorkerStore, pace: Pace, on_lost: Callable[[], None]) -> None:
        super().__init__(pace, INTERVAL)
        self._store = store
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._latest: dict[str, tuple[Lease, Progress | None, Mapping[str, Any] | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._latest)

    def put(self, claim: Claim, progress: Progress | None, metadata: Mapping[str, Any] | None) -> None:
        """Have this saved; None = nothing new."""
        token = claim.lease.token
        with self._lock:
            _, old_progress, old_metadata = self._latest.get(token, (None, None, None))
            self._latest[token] = (
                claim.lease,
                old_progress if progress is None else progress,
                old_metadata if metadata is None else metadata,
            )

    async def tick(self) -> float | None:
        """Save everything that is new."""
        if self._latest:
            await self._save(list(self._latest))
        return None

    async def save_for(self, tokens: Iterable[str]) -> None:
        """Save what these jobs said last, since they are about to be settled."""
        await self._save([token for token in tokens if token in self._latest])

    async def _save(self, tokens: Iterable[str]) -> None:
        for token in tokens:
            with self._lock:
                report = self._latest.pop(token, None)
            if report is None:
                continue
            lease, progress, metadata = report
            try:
                kept = await self._store.progress(lease, progress, metadata)
            except StoreUnavailable:
                self._put_back(token, report)
                raise
            except Exception as error:
                logger.warning("What the job %s says of itself cannot be saved: %s", lease.job_id, error)
                continue
            if not kept:
                self._on_lost()

    def _put_back(self, token: str, report: tuple[Lease, Progress | None, Mapping[str, Any] | None]) -> None:
        with self._lock:
            self._latest.setdefault(token, report)
