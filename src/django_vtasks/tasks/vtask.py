"""The Task of this package: Django's, with options of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from django.utils import timezone

from ..framework import AnyTask, InvalidTask, TaskOf, task_backends
from ..jobs.errors import TaskNotFound
from ..jobs.retries import Backoff
from .loading import load_task
from .options import DECLARED_ONLY, CallOptions, Classes, OnDuplicate, option_problems
from .unique import Seconds, Unique

if TYPE_CHECKING:
    from .results import VTaskResult


@dataclass(frozen=True, slots=True, kw_only=True)
class VTask[**P, R](TaskOf[P, R]):
    """A task, and everything its decorator or `using()` said. Calling it calls the function, here and now.

    Every field beyond Django's has a default, so a task rebuilt from Django's fields alone still runs.
    """

    do_not_call_in_templates: ClassVar[bool] = True
    """A template that shows a task must not run it."""

    priority: int = 0
    backend: str = "default"
    queue_name: str = "default"
    run_after: Any = None
    # Two tasks are equal when Django's fields are: one that was read back knows nothing of how it was enqueued.
    unique: bool | Unique | None = field(default=None, compare=False)
    unique_key: Any = field(default=None, compare=False)
    ttl: Seconds | None = field(default=None, compare=False)
    remove_unique_on_complete: bool = field(default=True, compare=False)
    on_commit: bool | str = field(default=True, compare=False)
    max_rescues: int | None = field(default=None, compare=False)
    max_attempts: int | None = field(default=None, compare=False)
    backoff: float | str | Backoff | None = field(default=None, compare=False)
    retry_on: Classes | None = field(default=None, compare=False)
    give_up_on: Classes | None = field(default=None, compare=False)
    timeout: Seconds | None = field(default=None, compare=False)
    expires: Seconds | datetime | None = field(default=None, compare=False)
    result_ttl: Seconds | None = field(default=None, compare=False)
    on_duplicate: OnDuplicate = field(default="none", compare=False)
    redact: bool | tuple[str, ...] | list[str] = field(default=(), compare=False)
    metadata: Mapping[str, Any] | None = field(default=None, compare=False)
    limit: Any = field(default=None, compare=False)
    rate: Any = field(default=None, compare=False)
    schedule: Any = field(default=None, compare=False)
    _prepared: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        change = object.__setattr__
        change(self, "priority", whole_priority(self.priority))
        if self.unique is None:
            change(self, "unique", self.unique_key is not None)
        if _own_values(self) != _DEFAULTS:
            problems = option_problems(self)
            if problems:
                raise InvalidTask(f"{self.module_path}: {' '.join(problems)}")
        backend = self.get_backend()
        if isinstance(self.run_after, timedelta) and not getattr(backend, "keeps_relative_run_after", False):
            change(self, "run_after", timezone.now() + self.run_after)
        backend.validate_task(self)

    @property
    def django_task(self) -> "VTask[P, R]":
        """The task itself; in the 3.2 line the task of the framework was inside this one."""
        return self

    def get_backend(self) -> Any:
        """The backend object of this task's alias."""
        return task_backends[self.backend]

    def using(self, **changes: Unpack[CallOptions]) -> "VTask[P, R]":
        """A copy with some options changed; None means unchanged.

        A `run_after` that is a timedelta counts from each enqueue. Raises TypeError for an option that is unknown or
        belongs to the declaration, and InvalidTask for a wrong value.
        """
        given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
        _check_names(given, CallOptions.__annotations__)
        key = given.get("unique_key")
        if key is not None and "unique" not in given:
            if isinstance(self.unique, Unique):
                given["unique"] = replace(self.unique, key=given.pop("unique_key"))
            else:
                given["unique"] = True
        return replace(self, **given)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function; for a coroutine function this returns the coroutine."""
        return self.func(*args, **kwargs)  # type: ignore[no-any-return,unused-ignore]

    def __copy__(self) -> "VTask[P, R]":
        return self

    def __deepcopy__(self, _memo: object) -> "VTask[P, R]":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the path of the declared task and what differs from it."""
        declared = _declared(self.module_path)
        nothing = object()
        changes = {
            name: value
            for name in _FIELDS
            if (value := getattr(self, name)) is not getattr(declared, name, nothing)
            and value != getattr(declared, name, nothing)
        }
        return _restored, (type(self), self.module_path, changes)

    if TYPE_CHECKING:
        # Inherited as they are, so that tools that wrap `Task.enqueue` see every call; here for their types.
        def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> VTaskResult[P, R]: ...
        async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> VTaskResult[P, R]: ...
        def get_result(self, result_id: str) -> VTaskResult[P, R]: ...
        async def aget_result(self, result_id: str) -> VTaskResult[P, R]: ...


_FIELDS = tuple(item.name for item in fields(VTask) if item.init and item.name != "func")
_OWN = tuple(item.name for item in fields(VTask) if item.init and not item.compare and item.name != "unique")
_own_values = attrgetter("unique", *_OWN)
_DEFAULTS = (False, *(next(item.default for item in fields(VTask) if item.name == name) for name in _OWN))


def whole_priority(value: Any) -> int:
    """A priority as an int. Raises InvalidTask for what is no whole number; the range is the backend's to check."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise InvalidTask(f"priority must be a whole number between -100 and 100. It is {value!r}.")


def variant(task: AnyTask, **values: Any) -> Any:
    """A copy of a task with other values, without validating it: for tasks read back, which may no longer be valid."""
    kind: Any = type(task)
    copy = object.__new__(kind)
    put = object.__setattr__
    for name, kept in _fields_of(kind):
        put(copy, name, getattr(task, name) if kept else None)
    for name, value in values.items():
        put(copy, name, value)
    return copy


@cache
def _fields_of(kind: type) -> tuple[tuple[str, bool], ...]:
    return tuple((item.name, item.init) for item in fields(kind))


def _check_names(given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name in given:
        if name in known:
            continue
        if name in DECLARED_ONLY:
            raise TypeError(f"{name} cannot differ from call to call: give it to the @task decorator, not to using()")
        raise TypeError(unknown_option(name, known))


def unknown_option(name: str, known: Mapping[str, Any]) -> str:
    """The message for an option that does not exist, with the one probably meant."""
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
    return f"unknown task option {name!r}: {hint}"


def _declared(path: str) -> AnyTask | None:
    try:
        return load_task(path)
    except TaskNotFound:
        return None


def _restored(kind: type[VTask[..., Any]], path: str, changes: dict[str, Any]) -> VTask[..., Any]:
    try:
        declared = load_task(path)
    except TaskNotFound as error:
        raise ValueError(f"Expected {path!r} to point to a Task instance.") from error
    if isinstance(declared, kind):
        return replace(declared, **changes) if changes else declared
    return kind(func=declared.func, **changes)
