"""From a stored path to something that can be run: looked up once per function and queue."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..framework import AnyTask
from ..jobs.retries import RetryRule
from ..tasks import TaskOptions, load_task, options_of
from ..tasks.redaction import Redaction, redaction_for

OLD_OPTIONS = frozenset(("queue_name", "unique", "unique_key", "ttl", "remove_unique_on_complete"))
"""Keyword arguments that payloads of the 3.2 line may carry beside the function's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnableTask:
    """A task with all that its attempts need, worked out once.

    `dropped` are keyword arguments that are not the function's; `problem` says why it cannot be run at all.
    """

    path: str
    task: AnyTask
    function: Callable[..., Any]
    is_async: bool
    takes_context: bool
    options: TaskOptions
    retry_rule: RetryRule
    timeout: float | None
    dropped: frozenset[str]
    redaction: Redaction
    problem: str | None = None


class Registry:
    """Finds tasks by path; nothing that is not a Task is ever called.

    `load` and `options` are what turns a path into a Task, and a Task in a queue into its options.
    """

    def __init__(
        self,
        load: Callable[[str], AnyTask] = load_task,
        options: Callable[[AnyTask, str], TaskOptions] = options_of,
    ) -> None:
        self._load = load
        self._options = options
        self._found: dict[tuple[str, str], RunnableTask] = {}

    def resolve(self, path: str, queue: str) -> RunnableTask:
        """The task at a path for jobs of a queue. Raises TaskNotFound when the path names no Task of this code."""
        key = (path, queue)
        runnable = self._found.get(key)
        if runnable is None:
            runnable = self._found[key] = self._make(path, queue)
        return runnable

    def _make(self, path: str, queue: str) -> RunnableTask:
        task = self._load(path)
        options = self._options(task, queue)
        return RunnableTask(
            path=path,
            task=task,
            function=task.func,
            is_async=inspect.iscoroutinefunction(task.func),
            takes_context=task.takes_context,
            options=options,
            retry_rule=options.retry,
            timeout=options.timeout,
            dropped=_not_taken(task.func),
            redaction=redaction_for(task, options),
            problem=_problem(task.func),
        )


def _not_taken(function: Callable[..., Any]) -> frozenset[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return frozenset()
    by_name = {parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY}
    return OLD_OPTIONS - by_name


def _problem(function: Callable[..., Any]) -> str | None:
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        return "it is a generator function, and calling one runs nothing; take the `yield` out of the task"
    return None
