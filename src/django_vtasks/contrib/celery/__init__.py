"""Celery's words for tasks of this package, so that a project moves by changing its imports.

A shim and no reimplementation: what has no counterpart is refused with a message that says what to do instead.
Settings modules may import it too.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...scheduling.entries import crontab
    from .beat import import_beat_schedule
    from .options import MaxRetriesExceededError, NotSupported, configure
    from .refused import chain, chord, chunks, group, signature
    from .results import AsyncResult
    from .tasks import CeleryTask, shared_task

_HOMES = {
    "AsyncResult": ".results",
    "CeleryTask": ".tasks",
    "MaxRetriesExceededError": ".options",
    "NotSupported": ".options",
    "chain": ".refused",
    "chord": ".refused",
    "chunks": ".refused",
    "configure": ".options",
    "crontab": "...scheduling.entries",
    "group": ".refused",
    "import_beat_schedule": ".beat",
    "shared_task": ".tasks",
    "signature": ".refused",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {_ADVICE.get(name, 'not of this shim')}")
    from importlib import import_module

    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


_ADVICE = {
    "Celery": "there is no app object; use shared_task, and put settings into Django's",
    "Task": "there are no task classes; use functions, and django_vtasks.signals for hooks",
    "current_app": "there is no app object",
    "current_task": "declare the task with bind=True and use self",
}


def __dir__() -> list[str]:
    return sorted((*globals(), *_HOMES))


__all__ = [
    "AsyncResult",
    "CeleryTask",
    "MaxRetriesExceededError",
    "NotSupported",
    "chain",
    "chord",
    "chunks",
    "configure",
    "crontab",
    "group",
    "import_beat_schedule",
    "shared_task",
    "signature",
]
