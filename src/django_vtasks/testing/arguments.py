"""Which jobs a test means, with only some of their arguments given."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from ..framework import AnyTask, Task
from ..jobs.errors import TaskNotFound
from ..tasks import load_task

if TYPE_CHECKING:
    from .jobs import EnqueuedJob

_MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a test asks for; empty parts do not restrict."""

    task: AnyTask | str | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any]
    queue: str | None = None

    def fits(self, job: "EnqueuedJob") -> bool:
        """Whether this job is one that is meant."""
        return self.is_task(job) and not self.differences(job)

    def is_task(self, job: "EnqueuedJob") -> bool:
        """Whether the job is one of the task."""
        return self.task is None or job.task == self.path

    @property
    def path(self) -> str:
        """The dotted path of the task. Raises TypeError for what is neither a task nor text."""
        if isinstance(self.task, Task):
            return self.task.module_path
        if isinstance(self.task, str):
            return self.task
        raise TypeError(f"give a task or its dotted path, not {self.task!r}; is its @task decorator the outermost?")

    def differences(self, job: "EnqueuedJob") -> list[str]:
        """What is not as wanted, as sentences; the task aside."""
        found = [f"{name} is {_shown(got)}, not {value!r}" for name, value, got in self._compared(job)]
        if self.queue is not None and job.queue != self.queue:
            found.append(f"its queue is {job.queue!r}, not {self.queue!r}")
        return found

    def _compared(self, job: "EnqueuedJob") -> list[tuple[str, Any, Any]]:
        function = _function_of(job.task)
        wanted = function and _named(function, self.args, self.kwargs, with_defaults=False)
        actual = function and _named(function, job.args, job.kwargs, with_defaults=True)
        if wanted is None or actual is None:
            wanted, actual = _raw(self.args, self.kwargs), _raw(job.args, job.kwargs)
        pairs = [(name, value, actual.get(name, _MISSING)) for name, value in wanted.items()]
        return [(name, value, got) for name, value, got in pairs if not _equal(value, got)]

    def __str__(self) -> str:
        parts = [f"job of {self.path}" if self.task is not None else "job"]
        if self.args:
            parts.append(f"with args={list(self.args)!r}")
        if self.kwargs:
            parts.append(f"with kwargs={dict(self.kwargs)!r}")
        if self.queue is not None:
            parts.append(f"in the queue {self.queue!r}")
        return " ".join(parts)


def _function_of(path: str) -> Callable[..., Any] | None:
    try:
        task = load_task(path)
    except TaskNotFound:
        return None
    return _without_context(task.func) if task.takes_context else task.func


def _without_context(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> None: ...

    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def _named(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, with_defaults: bool
) -> dict[str, Any] | None:
    """Every argument by the name of its parameter; None when the function does not take them."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind_partial(*args, **kwargs)
    except TypeError:
        return None
    if with_defaults:
        bound.apply_defaults()
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        match signature.parameters[name].kind:
            case inspect.Parameter.VAR_KEYWORD:
                named |= value
            case inspect.Parameter.VAR_POSITIONAL:
                named |= {f"*{name}[{place}]": item for place, item in enumerate(value)}
            case _:
                named[name] = value
    return named


def _raw(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {f"argument {place}": value for place, value in enumerate(args, start=1)} | dict(kwargs)


def _equal(wanted: Any, got: Any) -> bool:
    if got is _MISSING:
        return False
    if bool(wanted == got):
        return True
    try:
        return bool(orjson.loads(orjson.dumps(wanted)) == got)
    except TypeError:
        return False


def _shown(got: Any) -> str:
    return "missing" if got is _MISSING else repr(got)
