"""The scheduler lock of the 3.2 line, so that in a mixed fleet either its scheduler fires or ours do.

Among ours nobody needs a leader, since a slot is fired in one atomic step. So all of ours hold the lock together,
under one owner: a 3.2 scheduler finds it taken, and while one of those holds it, ours stand by.
"""

import logging
import time

from ..stores.base import WorkerStore

logger = logging.getLogger("django_vtasks.scheduler")

ROLE = "vtasks_scheduler_lock"
OWNER = "django-vtasks-4-schedulers"
SECONDS = 15.0
RENEW_AFTER = 5.0


class SharedLock:
    """Whether the schedulers of this line may fire."""

    def __init__(self, store: WorkerStore) -> None:
        self._store = store
        self._asked_at: float | None = None
        self._ours = True

    async def is_ours(self) -> bool:
        """Take or renew the lock, at most every few seconds; False while a scheduler of the 3.2 line has it."""
        now = time.monotonic()
        if self._asked_at is None or now - self._asked_at >= RENEW_AFTER:
            ours = await self._store.hold(ROLE, OWNER, SECONDS)
            self._asked_at = now
            if ours is not self._ours:
                self._ours = ours
                logger.info("the 3.2 scheduler is gone, taking over" if ours else "standing by for a 3.2 scheduler")
        return self._ours
