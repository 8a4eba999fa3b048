"""A task queue for Django's Tasks framework, on the project's own database or on Valkey/Redis."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .exceptions import Discard, Retry, Snooze
    from .jobs.limits import Concurrency, Rate
    from .jobs.retries import Exponential, Fixed
    from .tasks import Unique, VTask, VTaskResult, task

__version__ = "4.0.0.dev0"

_HOMES = {
    "Concurrency": "jobs.limits",
    "Discard": "exceptions",
    "Exponential": "jobs.retries",
    "Fixed": "jobs.retries",
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
    "Concurrency",
    "Discard",
    "Exponential",
    "Fixed",
    "Rate",
    "Retry",
    "Snooze",
    "Unique",
    "VTask",
    "VTaskResult",
    "task",
]
