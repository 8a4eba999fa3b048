"""`crontab` for settings modules, and the scheduler; names of the 3.2 line."""

from typing import TYPE_CHECKING, Any

from .scheduling.entries import crontab

if TYPE_CHECKING:
    from .scheduling.scheduler import Scheduler

__all__ = ["Scheduler", "crontab"]


def __getattr__(name: str) -> Any:
    # Settings modules import `crontab` from here before there are settings.
    if name == "Scheduler":
        from .scheduling.scheduler import Scheduler

        return Scheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
