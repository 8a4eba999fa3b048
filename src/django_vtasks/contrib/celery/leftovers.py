"""What a project left of Celery's settings and signals without an effect on its tasks here, as system checks."""

import sys
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage
from django.core.checks import Warning as Caution

from ...conf import settings as own_settings

SETTINGS = {
    "TASK_ACKS_LATE": "Set VTASKS_MAX_RESCUES = 3, or give acks_late=True to the tasks that may start again.",
    "TASK_ALWAYS_EAGER": "Run the jobs of a test with django_vtasks.testing.drain().",
    "TASK_ANNOTATIONS": "Give the tasks their options with shared_task(...).",
    "TASK_DEFAULT_PRIORITY": "Give the tasks their priority with shared_task(priority=...).",
    "TASK_DEFAULT_RATE_LIMIT": "Give the tasks their rate with shared_task(rate_limit=...).",
    "TASK_IGNORE_RESULT": "Set VTASKS_RESULT_TTL = 0.",
    "TASK_ROUTES": "Give the tasks their queue with shared_task(queue=...), and name it in VTASKS_QUEUES.",
    "TASK_SOFT_TIME_LIMIT": "Set VTASKS_TASK_TIMEOUT.",
    "TASK_TIME_LIMIT": "Set VTASKS_TASK_TIMEOUT.",
    "RESULT_EXPIRES": "Set VTASKS_RESULT_TTL, in seconds.",
    "WORKER_CONCURRENCY": "Set VTASKS_CONCURRENCY.",
    "WORKER_MAX_TASKS_PER_CHILD": "Start the workers with --max-jobs, under a supervisor.",
}
"""Settings of Celery that say what becomes of a task, without their CELERY_, and what to do instead."""

SIGNALS = {
    "after_task_publish": "django.tasks.signals.task_enqueued",
    "before_task_publish": "django.tasks.signals.task_enqueued",
    "task_failure": "django_vtasks.signals.task_failure",
    "task_postrun": "task_finished, task_failure and task_retried of django_vtasks.signals, one for each attempt",
    "task_prerun": "django_vtasks.signals.task_started",
    "task_retry": "django_vtasks.signals.task_retried",
    "task_success": "django_vtasks.signals.task_finished",
}
"""Signals of Celery, and what to connect to instead."""


_CELERYS_OWN = ("celery", "kombu", "vine")  # `autodiscover_tasks()` connects a promise of vine's


def leftovers(_app_configs: Any = None, **_kwargs: Any) -> list[CheckMessage]:
    """A warning for each setting and each receiver that has no effect any more."""
    return [*_settings(), *_schedule(), *_receivers()]


def _settings() -> Iterator[CheckMessage]:
    for name, hint in SETTINGS.items():
        if getattr(settings, f"CELERY_{name}", None):
            yield _without_effect(name, hint)
    if getattr(settings, "CELERY_TASK_DEFAULT_QUEUE", "default") != "default":
        yield _without_effect("TASK_DEFAULT_QUEUE", "Tasks that name no queue are in 'default'; remove the setting.")


def _without_effect(name: str, hint: str) -> CheckMessage:
    text = f"The setting CELERY_{name} has no effect on tasks of django_vtasks.contrib.celery."
    return Caution(text, hint=hint, id="django_vtasks.W015")


def _schedule() -> Iterator[CheckMessage]:
    beat, own = getattr(settings, "CELERY_BEAT_SCHEDULE", None), own_settings.VTASKS_SCHEDULE
    if not isinstance(beat, Mapping) or not isinstance(own, Mapping):
        return
    for name in sorted(set(beat) - set(own)):
        text = f"The entry {name!r} of CELERY_BEAT_SCHEDULE is not in VTASKS_SCHEDULE."
        hint = "VTASKS_SCHEDULE = import_beat_schedule(CELERY_BEAT_SCHEDULE), or remove the entry."
        yield Caution(text, hint=hint, id="django_vtasks.W015")


def _receivers() -> Iterator[CheckMessage]:
    """Receivers of Celery's signals that are not Celery's own; nobody sends to them."""
    for name, signal in sorted(vars(sys.modules.get("celery.signals", object)).items()):
        for _, kept in getattr(signal, "receivers", None) or ():
            receiver = kept() if isinstance(kept, weakref.ref) else kept
            module = getattr(receiver, "__module__", None) or "celery"
            if module.partition(".")[0] not in _CELERYS_OWN:
                path = f"{module}.{getattr(receiver, '__qualname__', receiver)}"
                text = f"{path} receives Celery's {name}, which no job here sends."
                instead = SIGNALS.get(name)
                hint = f"Connect it to {instead}." if instead else "There is no such signal; see the guide on moving."
                yield Caution(text, hint=hint, id="django_vtasks.W016")
