"""Testing code that enqueues: what was enqueued, running it in the test, and moving the clock.

Everything works with the real store of the alias, inside the transaction of a `TestCase` and on its connection.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..backends.memory import clear_memory
    from .cases import TasksMixin, VTasksTestCase
    from .clock import TestClock, travel
    from .draining import DrainLimit, adrain, aflush_batches, arun_job, drain, flush_batches, run_job
    from .jobs import EnqueuedJob, enqueued
    from .outcomes import DrainResult, JobFailed, RanJob
    from .schedule import afire_due, fire_due
    from .seeking import assert_enqueued, assert_not_enqueued

_HOMES = {
    "DrainLimit": "draining",
    "DrainResult": "outcomes",
    "EnqueuedJob": "jobs",
    "JobFailed": "outcomes",
    "RanJob": "outcomes",
    "TasksMixin": "cases",
    "TestClock": "clock",
    "VTasksTestCase": "cases",
    "adrain": "draining",
    "afire_due": "schedule",
    "aflush_batches": "draining",
    "arun_job": "draining",
    "assert_enqueued": "seeking",
    "assert_not_enqueued": "seeking",
    "clear_memory": "memory",
    "drain": "draining",
    "enqueued": "jobs",
    "fire_due": "schedule",
    "flush_batches": "draining",
    "run_job": "draining",
    "travel": "clock",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: pytest imports the plugin beside this before any settings are known.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    path = "django_vtasks.backends.memory" if home == "memory" else f"{__name__}.{home}"
    value = getattr(import_module(path), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*globals(), *_HOMES))


__all__ = [
    "DrainLimit",
    "DrainResult",
    "EnqueuedJob",
    "JobFailed",
    "RanJob",
    "TasksMixin",
    "TestClock",
    "VTasksTestCase",
    "adrain",
    "afire_due",
    "aflush_batches",
    "arun_job",
    "assert_enqueued",
    "assert_not_enqueued",
    "clear_memory",
    "drain",
    "enqueued",
    "fire_due",
    "flush_batches",
    "run_job",
    "travel",
]
