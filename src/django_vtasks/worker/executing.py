"""Makes the executor of a worker: what the configuration says, in the executor's own words."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from ..conf import WorkerConfig
from ..events import Emitter
from ..execution.environment import ExecutorOptions, MayBegin
from ..execution.executor import Executor
from ..execution.registry import Registry
from ..jobs.model import Claim
from ..jobs.transitions import Policy
from .reports import Report


def task_context(config: WorkerConfig) -> Callable[..., Any] | None:
    """The callable behind `VTASKS_TASK_CONTEXT`. Raises ImproperlyConfigured for what is none."""
    value = config.task_context
    if isinstance(value, str):
        try:
            value = import_string(value)
        except ImportError as error:
            raise ImproperlyConfigured(f"VTASKS_TASK_CONTEXT: {error}") from error
    if value is not None and not callable(value):
        raise ImproperlyConfigured(f"VTASKS_TASK_CONTEXT must be a callable or a dotted path to one, not {value!r}.")
    result: Callable[..., Any] | None = value
    return result


def executor_options(
    config: WorkerConfig, backend: Any, worker_class: type, policy_of: Callable[[Claim], Policy], emitter: Emitter
) -> ExecutorOptions:
    """What the executor is told, the way to save reports aside."""
    return ExecutorOptions(
        backend_class=type(backend),
        worker_class=worker_class,
        result_from=backend.result_from,
        policy_of=policy_of,
        task_context=task_context(config),
        span=_span(),
        concurrency=config.concurrency,
        max_abandoned_threads=config.max_abandoned_threads,
        one_by_one=frozenset(q.name for q in config.queues if q.batch and q.batch.on_failure == "one_by_one"),
        emitter=emitter,
    )


def make_executor(options: ExecutorOptions, report: Report, may_begin: MayBegin) -> Executor:
    """The executor for the running event loop."""
    return Executor(Registry(), replace(options, report=report, may_begin=may_begin))


def _span() -> Callable[..., Any] | None:
    from .. import tracing

    return tracing.attempt_span if tracing.is_active() else None
