"""`shared_task`, and what it makes: a task of this package that also answers to Celery's names."""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, NoReturn

from ...tasks import VTask
from .bound import BoundTask
from .options import CeleryOptions, NotSupported, max_retries_of, own_options, priority_of, retry_delay_of, unknown
from .refused import CANVAS
from .results import AsyncResult


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared[**P, R](VTask[P, R]):
    """A task, and what it keeps of Celery's options."""

    celery: CeleryOptions | None = field(default=None, compare=False)


class CeleryTask[**P, R](_Declared[P, R]):
    """A task that was declared with `shared_task`. It has all that a VTask has: `using`, `enqueue`, `aenqueue`.

    Its fields cannot be changed. `delay`, `apply_async` and `retry` can be replaced, for `unittest.mock`.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, here and now; a bound one gets a `self` without a job."""
        options = self.celery
        if options is not None and options.bind:
            bound = BoundTask(options, self.module_path, None)
            vars(bound).update(vars(self))  # the mocks that stand for methods of the task
            return options.function(bound, *args, **kwargs)
        return self.func(*args, **kwargs)

    run = __call__

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _REPLACEABLE:
            raise FrozenInstanceError(
                f"cannot assign to {name!r} of a task; mocks may replace {', '.join(_REPLACEABLE)}"
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name not in _REPLACEABLE:
            raise FrozenInstanceError(f"cannot delete {name!r} of a task")
        object.__delattr__(self, name)

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult | None:
        """Enqueue a call; None for a refused duplicate."""
        return self.apply_async(args, kwargs)

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> AsyncResult | None:
        """As `delay`, which is of the transaction already."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult | None:
        """Enqueue a call with `countdown`, `eta`, `queue`, `priority`, `expires` or `ignore_result`.

        Raises NotSupported, with what to do, for another option.
        """
        changes = call_options(options)
        task = self.using(**changes) if changes else self
        return _result_of(task.enqueue(*(args or ()), **(kwargs or {})))

    apply_async_on_commit = apply_async

    def retry(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """For mocks, which a bound call then has as its `self.retry`. Raises NotSupported."""
        raise NotSupported("retry(): declare the task with bind=True, and use self.retry()")

    def AsyncResult(self, task_id: str) -> AsyncResult:  # noqa: N802 - Celery's name
        """The result of a job of this task's alias by its id."""
        return AsyncResult(task_id, alias=self.backend)

    def s(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Not supported. Raises NotSupported with what to do instead."""
        raise NotSupported(CANVAS)

    si = signature = subtask = chunks = map = starmap = s

    def apply(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Not supported. Raises NotSupported with what to do instead."""
        raise NotSupported("apply(): call the function, or run the job with django_vtasks.testing.run_job()")


_REPLACEABLE = ("delay", "delay_on_commit", "apply_async", "apply_async_on_commit", "retry")


def get_task_logger(name: str) -> logging.Logger:
    """The logger of that name, as `logging.getLogger`."""
    return logging.getLogger(name)


def shared_task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Celery's decorator; works bare and with options.

    Raises NotSupported that lists everything that cannot be moved.
    """

    def declare(declared: Callable[..., Any]) -> CeleryTask[..., Any]:
        path = f"{declared.__module__}.{declared.__qualname__}"
        kept = CeleryOptions(
            function=declared,
            name=options.get("name") or path,
            bind=bool(options.get("bind", False)),
            max_retries=max_retries_of(options),
            default_retry_delay=retry_delay_of(options),
        )
        own = own_options(options)
        if not kept.bind:
            return CeleryTask(func=declared, celery=kept, **own)
        return CeleryTask(func=_bound(kept, path), celery=kept, takes_context=True, **own)

    return declare if function is None else declare(function)


def call_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Our options for those of `apply_async`. Raises NotSupported that lists everything that is not taken."""
    wrong = [unknown(name) for name in given if name not in _CALL]
    if wrong:
        raise NotSupported("; ".join(wrong))
    if given.get("countdown") is not None and given.get("eta") is not None:
        raise NotSupported("countdown and eta: give one of them")
    own: dict[str, Any] = {}
    for name, value in given.items():
        if value is not None:
            own |= _CALL[name](value)
    return own


def _moment(value: datetime) -> datetime:
    """Celery reads a naive moment as UTC."""
    return value if value.tzinfo else value.replace(tzinfo=UTC)


_CALL: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "countdown": lambda value: {"run_after": timedelta(seconds=value)},
    "eta": lambda value: {"run_after": _moment(value)},
    "queue": lambda value: {"queue_name": value},
    "priority": lambda value: {"priority": priority_of(value)},
    "expires": lambda value: {"expires": _moment(value) if isinstance(value, datetime) else value},
    "ignore_result": lambda value: {"result_ttl": 0} if value else {},
    "retry": lambda _value: {},
    "retry_policy": lambda _value: {},
}


def _result_of(result: Any) -> AsyncResult | None:
    return None if result is None else AsyncResult(result.id, alias=result.backend)


def _bound(options: CeleryOptions, path: str) -> Callable[..., Any]:
    """The function as a worker calls it: with a context, of which it makes the `self`."""
    function = options.function
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def acall(context: Any, *args: Any, **kwargs: Any) -> Any:
            return await function(BoundTask(options, path, context), *args, **kwargs)

        return _signed(acall, function)

    @wraps(function)
    def call(context: Any, *args: Any, **kwargs: Any) -> Any:
        return function(BoundTask(options, path, context), *args, **kwargs)

    return _signed(call, function)


def _signed(call: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The call with the function's signature, its first parameter under the name that the framework asks for."""
    signature = inspect.signature(function)
    first, *others = signature.parameters.values()
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[first.replace(name="context"), *others]
    )
    return call
