"""What a task must be to be enqueued here, beyond what the framework asks."""

import inspect
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from ..framework import AnyTask, BaseTaskBackend, InvalidTask
from ..tasks import variant, whole_priority
from ..tasks.loading import MAX_PATH_LENGTH

MAX_QUEUE_LENGTH = 255
"""Characters a queue's name may have."""

LONGEST_DELAY = timedelta(days=36_525)


def validate(backend: BaseTaskBackend, task: AnyTask) -> None:
    """Raise InvalidTask, with what to do, for a task the backend cannot run."""
    function = task.func
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTask(f"{task.module_path} is a generator function, whose body a call does not run.")
    whole_priority(task.priority)
    _check_queue_name(task.queue_name, getattr(backend, "reserved_queues", ()))
    try:
        BaseTaskBackend.validate_task(backend, _with_moment(task))
    except InvalidTask as error:
        if backend.queues and task.queue_name not in backend.queues:
            known = ", ".join(sorted(backend.queues))
            raise InvalidTask(f"{error} Name it in VTASKS_QUEUES; TASKS[{backend.alias!r}] has: {known}.") from None
        raise
    if len(task.module_path) > MAX_PATH_LENGTH:
        raise InvalidTask(f"The path {task.module_path!r} is longer than {MAX_PATH_LENGTH} characters.")


def _check_queue_name(name: Any, reserved: Any) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidTask(f"queue_name must be text, not {name!r}.")
    if len(name) > MAX_QUEUE_LENGTH:
        raise InvalidTask(f"The queue name {name[:40]!r}... is longer than {MAX_QUEUE_LENGTH} characters.")
    if not name.isprintable():
        raise InvalidTask(f"The queue name {name!r} has characters that cannot be printed.")
    if name in reserved:
        raise InvalidTask(f"The queue name {name!r} is reserved: the dead letters are kept under it.")


def _with_moment(task: AnyTask) -> AnyTask:
    """The task with a relative `run_after` as a moment, which is what the framework's checks understand."""
    run_after: Any = task.run_after
    if run_after is None or isinstance(run_after, datetime):
        return task
    if not isinstance(run_after, timedelta):
        raise InvalidTask(f"run_after must be a datetime or a timedelta, not {run_after!r}.")
    if abs(run_after) > LONGEST_DELAY:
        raise InvalidTask(f"run_after must be within a hundred years, not {run_after!r}.")
    return variant(task, run_after=timezone.now())  # type: ignore[no-any-return]


class CallShape:
    """Which arguments a function takes, for a quick comparison with a call's."""

    __slots__ = ("_any_names", "_at_most", "_counts", "_names", "_positional", "_required")

    def __init__(self, task: AnyTask) -> None:
        # Without following wrappers: a decorator may take other arguments than the function inside it.
        parameters = list(inspect.signature(task.func, follow_wrapped=False).parameters.values())
        kinds = inspect.Parameter
        if task.takes_context:
            parameters = parameters[1:]
        positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
        named = [p for p in parameters if p.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
        self._positional = [p.name for p in positional]
        self._at_most = None if any(p.kind is kinds.VAR_POSITIONAL for p in parameters) else len(positional)
        self._names = frozenset(p.name for p in named)
        self._any_names = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
        self._required = frozenset(p.name for p in (*positional, *named) if p.default is kinds.empty)
        self._counts = frozenset(count for count in range(16) if self._fits(count, frozenset()))

    def fits(self, args: Any, kwargs: Any) -> bool:
        """Whether the function can be called like this."""
        if not kwargs and len(args) in self._counts:
            return True
        return self._fits(len(args), kwargs.keys())

    def _fits(self, count: int, names: Any) -> bool:
        if self._at_most is not None and count > self._at_most:
            return False
        given = self._positional[:count]
        if names and not self._any_names and not (names <= self._names):
            return False
        if names and not names.isdisjoint(given):
            return False
        return not self._required or self._required <= {*given, *names}


def check_call(task: AnyTask, shape: CallShape, args: Any, kwargs: Any) -> None:
    """Raise the TypeError that calling the function would raise."""
    if shape.fits(args, kwargs):
        return
    leading = (None,) if task.takes_context else ()
    try:
        inspect.signature(task.func, follow_wrapped=False).bind(*leading, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{task.module_path}: {error}") from None
