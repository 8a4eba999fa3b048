"""Django's Tasks framework under one roof: `django.tasks` on Django 6 and newer, the backport `django_tasks` on 5.2.

Nothing else imports either package, so the names below are the same on every supported version.
"""

import inspect
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings as django_settings
from django.dispatch import Signal
from django.utils.log import AdminEmailHandler, RequireDebugTrue

if TYPE_CHECKING or django.VERSION >= (6, 0):
    from django.tasks import task as django_task
    from django.tasks import task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import TASK_REFRESH_ATTRS, Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import (
        InvalidTask,
        InvalidTaskBackend,
        TaskException,
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django.tasks.signals import (
        log_task_enqueued,
        log_task_finished,
        log_task_started,
        task_enqueued,
        task_finished,
        task_started,
    )
    from django.utils.inspect import is_module_level_function
    from django.utils.json import normalize_json

    LOGGER_NAME = "django.tasks"
else:
    try:
        import django_tasks.checks  # noqa: F401 - registers the check of all backends
    except ImportError as error:
        raise ImportError(
            "On Django 5.2 the Tasks framework is a package of its own: pip install 'django-vtasks[backport]'"
        ) from error
    from django_tasks import exceptions as _exceptions
    from django_tasks import task as django_task
    from django_tasks import task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import TASK_REFRESH_ATTRS, Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import TaskException, TaskResultDoesNotExist, TaskResultMismatch
    from django_tasks.signals import (
        log_task_enqueued,
        log_task_finished,
        log_task_started,
        task_enqueued,
        task_finished,
        task_started,
    )
    from django_tasks.utils import is_module_level_function, normalize_json

    InvalidTask = getattr(_exceptions, "InvalidTask", None) or _exceptions.InvalidTaskError
    InvalidTaskBackend = getattr(_exceptions, "InvalidTaskBackend", None) or _exceptions.InvalidTaskBackendError
    LOGGER_NAME = "django_tasks"

logger = logging.getLogger(LOGGER_NAME)

DECORATOR_TAKES_OPTIONS: bool = "kwargs" in inspect.signature(django_task).parameters
"""Whether the framework's own decorator hands further keywords to the backend's task class (not on Django 6.0)."""


class _Parametrised:
    """Lets `Base[P, R]` be written as a base class where `Base` is generic for the type checker only."""

    def __init__(self, base: type) -> None:
        self._base = base

    def __getitem__(self, _parameters: object) -> type:
        return self._base


if TYPE_CHECKING:
    TaskOf = Task
    TaskResultOf = TaskResult
    TaskContextOf = TaskContext
else:
    TaskOf = _Parametrised(Task)
    TaskResultOf = _Parametrised(TaskResult)
    TaskContextOf = _Parametrised(TaskContext)


type AnyTask = Task[..., Any]
type AnyContext = TaskContext[..., Any]

_STOCK_RECEIVERS: Mapping[Signal, tuple[int, int]] = {
    task_enqueued: (id(log_task_enqueued), logging.DEBUG),
    task_started: (id(log_task_started), logging.INFO),
    task_finished: (id(log_task_finished), logging.INFO),
}


def is_only_logged(signal: Signal) -> bool:
    """Whether nobody but the framework's own log receiver is connected, so that sending needs no event loop."""
    receivers: list[Any] = signal.receivers
    return len(receivers) == 1 and receivers[0][0][0] == _STOCK_RECEIVERS.get(signal, (0, 0))[0]


def is_heard(signal: Signal, *, level: int | None = None) -> bool:
    """Whether sending the signal does anything.

    False when nobody is connected, or nobody but the framework's own log receiver whose record would be dropped.
    `level` is the level of that record where it is not the usual one (ERROR for `task_finished` of a failure).
    """
    receivers: list[Any] = signal.receivers
    if len(receivers) != 1:
        return bool(receivers)
    stock_id, stock_level = _STOCK_RECEIVERS.get(signal, (0, 0))
    if receivers[0][0][0] != stock_id:
        return True
    return logger.isEnabledFor(stock_level if level is None else level)


_is_no_error: ContextVar[bool] = ContextVar("vtasks_is_no_error", default=False)


class _NoError(logging.Filter):
    """Lowers what the framework's receiver says of an end that is no error to INFO, without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not _is_no_error.get() or record.funcName != log_task_finished.__name__:
            return True
        record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
        record.exc_info = None
        return logger.isEnabledFor(logging.INFO)


logger.addFilter(_NoError())


@contextmanager
def logged_as_no_error(wanted: bool) -> Iterator[None]:  # noqa: FBT001 - the condition, as of an `if`
    """While a `task_finished` is sent: a job that was discarded shows as FAILED, and is no alarm all the same."""
    token = _is_no_error.set(wanted)
    try:
        yield
    finally:
        _is_no_error.reset(token)


def is_error_written() -> bool:
    """Whether a handler writes the error records of the framework's logger; one that only mails them does not.

    Django's own logging, with DEBUG off, has no other handler than the one that mails.
    """
    handlers: list[logging.Handler] = []
    current: logging.Logger | None = logger
    while current is not None:
        handlers += current.handlers
        current = current.parent if current.propagate else None
    # Without any handler the last resort of the standard library writes.
    return not handlers or any(_writes_errors(handler) for handler in handlers)


def _writes_errors(handler: logging.Handler) -> bool:
    if handler.level > logging.ERROR or isinstance(handler, AdminEmailHandler | logging.NullHandler):
        return False
    return django_settings.DEBUG or not any(isinstance(item, RequireDebugTrue) for item in handler.filters)


__all__ = [
    "DECORATOR_TAKES_OPTIONS",
    "LOGGER_NAME",
    "TASK_REFRESH_ATTRS",
    "AnyContext",
    "AnyTask",
    "BaseTaskBackend",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskContextOf",
    "TaskError",
    "TaskException",
    "TaskOf",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultOf",
    "TaskResultStatus",
    "django_task",
    "is_error_written",
    "is_heard",
    "is_module_level_function",
    "is_only_logged",
    "logged_as_no_error",
    "normalize_json",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
