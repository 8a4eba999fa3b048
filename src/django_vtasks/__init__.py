"""A task queue for Django's Tasks framework, on the project's own database or on Valkey/Redis."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .exceptions import Discard, Retry, Snooze
    from .execution.context import JobContext
    from .execution.members import BatchResult, MemberFailed
    from .jobs.limits import Concurrency, Rate
    from .jobs.retries import Exponential, Fixed
    from .tasks import Unique, VTask, VTaskResult, task

__version__ = "4.0.0.dev0"

_HOMES = {
    "BatchResult": "execution.members",
    "Concurrency": "jobs.limits",
    "Discard": "exceptions",
    "Exponential": "jobs.retries",
    "Fixed": "jobs.retries",
    "JobContext": "execution.context",
    "MemberFailed": "execution.members",
    "Rate": "jobs.limits",
    "Retry": "exceptions",
    "Snooze": "exceptions",
    "Unique": "tasks",
    "VTask": "tasks",
    "VTaskResult": "tasks",
    "task": "tasks",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: the app is imported before settings and apps are ready, and by processes without tasks.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*globals(), *_HOMES))


__all__ = [
    "BatchResult",
    "Concurrency",
    "Discard",
    "Exponential",
    "Fixed",
    "JobContext",
    "MemberFailed",
    "Rate",
    "Retry",
    "Snooze",
    "Unique",
    "VTask",
    "VTaskResult",
    "task",
]
