"""What a task with `bind=True` gets as `self`."""

from datetime import UTC, datetime
from typing import Any, NoReturn

from ...exceptions import Retry
from ...framework import AnyContext
from ...tasks import load_task, to_epoch
from ...tasks.timing import clock
from .options import CeleryOptions, MaxRetriesExceededError, NotSupported


class Request:
    """`self.request`: `id`, `retries`, `args`, `kwargs`, `delivery_info` and `called_directly`."""

    is_eager = False

    def __init__(self, context: AnyContext | None) -> None:
        result = None if context is None else context.task_result
        self.called_directly = result is None
        self.id = None if result is None else result.id
        self.retries = 0 if context is None else max(0, context.attempt - 1)
        self.args = [] if result is None else list(result.args)
        self.kwargs = {} if result is None else dict(result.kwargs)
        self.delivery_info = {} if result is None else {"routing_key": result.task.queue_name}

    def __getattr__(self, name: str) -> NoReturn:
        known = "id, retries, args, kwargs, delivery_info, called_directly"
        raise AttributeError(f"self.request.{name} is not of this shim; there are {known}")


class _NoJob:
    """The context of a direct call: nobody cancels it, and nobody is told how far it is."""

    cancelled = False
    shutdown_requested = False

    def check(self) -> None:
        """Do nothing."""

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Do nothing."""


class BoundTask:
    """`self` of a task with `bind=True`. `context` is the framework's context of the attempt."""

    def __init__(self, options: CeleryOptions, path: str, context: AnyContext | None) -> None:
        self._options = options
        self._path = path
        self._context = context
        self.context: Any = _NoJob() if context is None else context
        self.name = options.name
        self.max_retries = options.max_retries
        self.default_retry_delay = options.default_retry_delay
        self.request = Request(context)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, here and now."""
        return self._options.function(self, *args, **kwargs)

    def retry(
        self,
        *,
        exc: BaseException | None = None,
        countdown: float | None = None,
        eta: datetime | None = None,
        max_retries: int | None = None,
        **others: Any,
    ) -> NoReturn:
        """End this attempt and have another one, after `countdown` seconds, at `eta`, or after the task's delay.

        Without a retry left it raises `exc`, or MaxRetriesExceededError.
        """
        if others:
            names = ", ".join(others)
            raise NotSupported(
                f"self.retry({names}=...): a retry is the same job; enqueue another one for other needs"
            )
        if self.request.called_directly:
            raise exc or MaxRetriesExceededError(f"{self.name} was called directly, so there is no job to retry")
        allowed = self._allowed(max_retries)
        if allowed is not None and self.request.retries >= allowed:
            raise exc or MaxRetriesExceededError(f"{self.name} was retried {allowed} times, as often as it may be")
        raise Retry(_delay(countdown, eta, self.default_retry_delay), str(exc or "")) from exc

    def update_state(self, task_id: str | None = None, state: str | None = None, meta: Any = None) -> None:
        """Show a state of its own and details, in `AsyncResult.state` and `.info`, while the job runs."""
        if task_id not in (None, self.request.id):
            raise NotSupported("update_state(task_id=...): a task can tell of itself only")
        if self._context is not None:
            metadata = self._context.metadata  # type: ignore[attr-defined]
            metadata["celery"] = {"state": state, "meta": meta}

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        """See `CeleryTask.delay`."""
        return load_task(self._path).delay(*args, **kwargs)  # type: ignore[attr-defined]

    def apply_async(self, *args: Any, **kwargs: Any) -> Any:
        """See `CeleryTask.apply_async`."""
        return load_task(self._path).apply_async(*args, **kwargs)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> NoReturn:
        known = "request, retry(), update_state() and context"
        raise AttributeError(f"self.{name} is not of this shim; there are {known}")

    def _allowed(self, asked: int | None) -> int | None:
        declared = self.max_retries
        if asked is not None and declared is not None and asked > declared:
            raise NotSupported(
                f"self.retry(max_retries={asked}) is more than {self.name} declares ({declared}): declare it with "
                "shared_task(max_retries=...)"
            )
        return declared if asked is None else asked


def _delay(countdown: float | None, eta: datetime | None, default: float) -> float:
    if countdown is not None and eta is not None:
        raise NotSupported("countdown and eta: give one of them")
    if eta is not None:
        return max(0.0, to_epoch(eta if eta.tzinfo else eta.replace(tzinfo=UTC)) - clock())
    return default if countdown is None else float(countdown)
