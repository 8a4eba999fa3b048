"""Celery's words for tasks of this package, so that a project moves by changing its imports.

A shim and no reimplementation: what has no counterpart is refused with a message that says what to do instead.
Settings modules may import it too.
"""

from typing import TYPE_CHECKING, Any

from django.core import checks

if TYPE_CHECKING:
    from builtins import TimeoutError  # noqa: A004

    from ...jobs.errors import Retry
    from ...scheduling.entries import crontab
    from .beat import import_beat_schedule
    from .options import MaxRetriesExceededError, NotSupported, configure
    from .refused import chain, chord, chunks, group, signature
    from .results import AsyncResult
    from .tasks import CeleryTask, get_task_logger, shared_task

_HOMES = {
    "AsyncResult": ".results",
    "CeleryTask": ".tasks",
    "MaxRetriesExceededError": ".options",
    "NotSupported": ".options",
    "Retry": "...jobs.errors",
    "TimeoutError": "builtins",
    "chain": ".refused",
    "chord": ".refused",
    "chunks": ".refused",
    "configure": ".options",
    "crontab": "...scheduling.entries",
    "get_task_logger": ".tasks",
    "group": ".refused",
    "import_beat_schedule": ".beat",
    "shared_task": ".tasks",
    "signature": ".refused",
}


_ADVICE = {
    "Celery": "there is no app object; use shared_task, and put settings into Django's",
    "Ignore": "raise django_vtasks.Discard()",
    "Reject": "raise django_vtasks.Discard(), or django_vtasks.Retry() to start again",
    "SoftTimeLimitExceeded": (
        "a coroutine is cancelled; a function of a task with bind=True calls self.context.check(), which raises "
        "django_vtasks.exceptions.JobTimedOut"
    ),
    "Task": "there are no task classes; use functions, and django_vtasks.signals for hooks",
    "current_app": "there is no app object",
    "current_task": "declare the task with bind=True and use self",
    "signals": "connect to django_vtasks.signals",
}


def __getattr__(name: str) -> Any:
    if name in _ADVICE:
        # `from ... import` would replace the text of an AttributeError by its own.
        raise ImportError(f"{name} is not of {__name__}: {_ADVICE[name]}", name=__name__)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: not of this shim")
    from importlib import import_module

    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


@checks.register("vtasks")
def _leftovers(**kwargs: Any) -> list[checks.CheckMessage]:
    from .leftovers import leftovers

    return leftovers(**kwargs)


def __dir__() -> list[str]:
    return sorted((*globals(), *_HOMES))


__all__ = [
    "AsyncResult",
    "CeleryTask",
    "MaxRetriesExceededError",
    "NotSupported",
    "Retry",
    "TimeoutError",
    "chain",
    "chord",
    "chunks",
    "configure",
    "crontab",
    "get_task_logger",
    "group",
    "import_beat_schedule",
    "shared_task",
    "signature",
]
