"""Errors that come again every few seconds are logged at most hourly."""

import logging
import time

logger = logging.getLogger("django_vtasks.scheduler")

HOUR = 3600.0


class Complaints:
    """Remembers what was said when, so that the same is not said again within the hour."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], float] = {}

    def say(self, about: str, what: str, error: BaseException | None = None) -> None:
        """Log `what` about an entry, with the traceback of `error`, unless that was done within the hour."""
        now = time.monotonic()
        said = self._said.get((about, what))
        if said is not None and now - said < HOUR:
            return
        self._said[(about, what)] = now
        logger.error(what, exc_info=error)
