"""`@task`: Django's decorator with the options of this package, on every supported version of Django."""

from collections.abc import Callable
from typing import Any, Concatenate, Literal, Unpack, overload

from ..framework import AnyContext, task_backends
from .options import DeclaredOptions
from .vtask import VTask, unknown_option

_DJANGO_OPTIONS = {"priority": int, "queue_name": str, "backend": str, "takes_context": bool}


class TaskDeclaration(DeclaredOptions, total=False):
    """Every keyword of `task()` except `takes_context`."""

    priority: int
    queue_name: str
    backend: str


@overload
def task[**P, R](function: Callable[P, R], /) -> VTask[P, R]: ...
@overload
def task[**P, R](
    function: None = None, /, *, takes_context: Literal[True], **options: Unpack[TaskDeclaration]
) -> Callable[[Callable[Concatenate[AnyContext, P], R]], VTask[P, R]]: ...
@overload
def task[**P, R](
    function: None = None, /, *, takes_context: Literal[False] = False, **options: Unpack[TaskDeclaration]
) -> Callable[[Callable[P, R]], VTask[P, R]]: ...
@overload
def task[**P, R](
    function: Callable[P, R], /, *, takes_context: bool = False, **options: Unpack[TaskDeclaration]
) -> VTask[P, R]: ...


def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a task; works bare and with options, and on backends of other packages too.

    Raises TypeError for an unknown option, InvalidTask for a wrong value, and InvalidTaskBackend for an unknown
    alias. On a backend of another package the options of this one are kept but have no effect.
    """
    _check(options)

    def declare(declared: Callable[..., Any]) -> VTask[..., Any]:
        kind = task_backends[options.get("backend", "default")].task_class
        own_kind = kind if isinstance(kind, type) and issubclass(kind, VTask) else VTask
        return own_kind(func=declared, **options)

    return declare if function is None else declare(function)


_KNOWN = _DJANGO_OPTIONS | DeclaredOptions.__annotations__


def _check(options: dict[str, Any]) -> None:
    if "run_after" in options:
        raise TypeError(
            "run_after cannot be defined statically with the @task decorator. "
            "Use .using(run_after=...) to set it dynamically."
        )
    for name in options:
        if name not in _KNOWN:
            raise TypeError(unknown_option(name, _KNOWN))
