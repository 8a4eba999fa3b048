"""Everything a task says, resolved to a value: its own option, else its queue's, else the setting's."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from ..conf import Problems, default_result_ttl, queue_configs, retry_defaults, settings
from ..conf.problems import COUNT, SECONDS, SECONDS_OR_ZERO, WHOLE, Bounds
from ..framework import AnyTask
from ..jobs.limits import problem_of
from ..jobs.retries import Backoff, RetryRule, named_backoff
from ..jobs.transitions import Policy
from .unique import Seconds, Unique

type Classes = type[BaseException] | tuple[type[BaseException], ...]
type OnDuplicate = Literal["none", "result"]


class CallOptions(TypedDict, total=False):
    """What may differ from call to call: the keywords of `using()`. None means unchanged."""

    priority: int | None
    queue_name: str | None
    run_after: datetime | timedelta | None
    backend: str | None
    unique: bool | Unique | None
    unique_key: Any
    ttl: Seconds | None
    remove_unique_on_complete: bool | None
    on_commit: bool | str | None
    max_rescues: int | None
    expires: Seconds | datetime | None
    result_ttl: Seconds | None
    on_duplicate: OnDuplicate | None
    metadata: Mapping[str, Any] | None


class DeclaredOptions(TypedDict, total=False):
    """What a task is declared with: the keywords of `task()` beside Django's four."""

    unique: bool | Unique | None
    unique_key: Any
    ttl: Seconds | None
    remove_unique_on_complete: bool
    on_commit: bool | str
    max_rescues: int | None
    expires: Seconds | None
    result_ttl: Seconds | None
    on_duplicate: OnDuplicate
    metadata: Mapping[str, Any] | None
    max_attempts: int | None
    backoff: float | str | Backoff | None
    retry_on: Classes | None
    give_up_on: Classes | None
    timeout: Seconds | None
    redact: bool | tuple[str, ...] | list[str]
    limit: Any
    rate: Any
    schedule: Any


DECLARED_ONLY = frozenset(DeclaredOptions.__annotations__) - frozenset(CallOptions.__annotations__)
"""Options that the worker reads from the declared task, and that therefore cannot differ from call to call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """Every option of a task, resolved. Durations are seconds.

    `on_commit` is False (at once), True (when the transaction of the default alias commits) or an alias.
    `own_result_ttl` is what task or queue say, None when only the general default is left. `batch` says that the
    queue hands over lists of calls. `redact` names the arguments that are never shown, `("*",)` all of them.
    """

    path: str
    queue: str
    priority: int
    backend: str
    takes_context: bool
    batch: bool
    unique: Unique | None
    on_commit: bool | str
    on_duplicate: OnDuplicate
    max_rescues: int
    retry: RetryRule
    timeout: float | None
    expires: float | datetime | None
    own_result_ttl: float | None
    result_ttl: float
    redact: tuple[str, ...]
    metadata: Mapping[str, Any]
    limit: Any
    rate: Any
    schedule: Any

    @property
    def policy(self) -> Policy:
        """What `transitions.decide` needs to know."""
        return Policy(max_attempts=self.retry.max_attempts, result_ttl=self.result_ttl)


def options_of(task: AnyTask, queue: str | None = None) -> TaskOptions:
    """The options of any Task, a plain one included. `queue` is the queue the job is in, if not the task's own.

    Raises ImproperlyConfigured when a setting they fall back to is wrong.
    """
    queue = queue or task.queue_name
    config = queue_configs().get(queue)
    own = _first(option(task, "result_ttl"), config and config.result_ttl)
    own_result_ttl = None if own is None else _number(own)
    return TaskOptions(
        path=task.module_path,
        queue=queue,
        priority=int(task.priority),
        backend=task.backend,
        takes_context=task.takes_context,
        batch=config is not None and config.batch is not None,
        unique=unique_rule(task),
        on_commit=option(task, "on_commit", default=True),
        on_duplicate=option(task, "on_duplicate", default="none"),
        max_rescues=int(_first(option(task, "max_rescues"), settings.VTASKS_MAX_RESCUES, 0)),
        retry=_retry_rule(task, config.max_attempts if config else None),
        timeout=_number(_first(option(task, "timeout"), config and config.timeout, settings.VTASKS_TASK_TIMEOUT)),
        expires=_number(option(task, "expires")),
        own_result_ttl=own_result_ttl,
        result_ttl=default_result_ttl(task.backend) if own_result_ttl is None else own_result_ttl,
        redact=redacted(option(task, "redact", default=())),
        metadata=option(task, "metadata") or {},
        limit=_first(option(task, "limit"), config and config.limit),
        rate=_first(option(task, "rate"), config and config.rate),
        schedule=option(task, "schedule"),
    )


def option(task: AnyTask, name: str, *, default: Any = None) -> Any:
    """An option of a task by name; the default when the task is a plain one or says None."""
    value = getattr(task, name, None)
    return default if value is None else value


def unique_rule(task: AnyTask) -> Unique | None:
    """The rule behind `unique`, `unique_key`, `ttl` and `remove_unique_on_complete`; None for a task without one."""
    unique = option(task, "unique", default=False)
    if not unique or isinstance(unique, Unique):
        return unique or None
    key, ttl = option(task, "unique_key"), option(task, "ttl")
    if not option(task, "remove_unique_on_complete", default=True):
        return Unique(mode=_WINDOW, key=key, window=_number(ttl))
    return Unique(key=key, window=_number(ttl))


_WINDOW = Unique.once_per(1).mode


def redacted(value: Any) -> tuple[str, ...]:
    """The option `redact` as names: True is all of them."""
    if value is True:
        return ("*",)
    return tuple(value or ())


def _retry_rule(task: AnyTask, queue_attempts: int | None) -> RetryRule:
    problems = Problems()
    default_attempts, default_backoff = retry_defaults(problems)
    problems.raise_if_any()
    backoff = option(task, "backoff")
    retry_on = option(task, "retry_on")
    return RetryRule(
        max_attempts=int(_first(option(task, "max_attempts"), queue_attempts, default_attempts)),
        backoff=default_backoff if backoff is None else named_backoff(_plain(backoff)),
        retry_on=None if retry_on is None else _classes(retry_on),
        give_up_on=_classes(option(task, "give_up_on", default=())),
    )


def _classes(value: Classes) -> tuple[type[BaseException], ...]:
    return (value,) if isinstance(value, type) else tuple(value)


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _number(value: Any) -> Any:
    value = _plain(value)
    return value if value is None or isinstance(value, datetime) else float(value)


# --- what may be wrong with them -----------------------------------------------------------------------------------

_BOUNDS: Mapping[str, Bounds] = {
    "ttl": SECONDS,
    "max_rescues": WHOLE,
    "max_attempts": COUNT,
    "timeout": SECONDS,
    "result_ttl": SECONDS_OR_ZERO,
}


def option_problems(task: AnyTask) -> list[str]:
    """Everything that is wrong with a task's options, as sentences."""
    problems = Problems()
    for name, bounds in _BOUNDS.items():
        problems.number(name, option(task, name), bounds)
    if not isinstance(option(task, "expires"), datetime):
        problems.number("expires", option(task, "expires"), SECONDS)
    _check_choices(task, problems)
    _check_retries(task, problems)
    if not problems.found:
        _check_unique(task, problems)
        wrong_limit = problem_of(option(task, "limit"), option(task, "rate"), task.func)
        if wrong_limit:
            problems.add(wrong_limit)
    return problems.found


def _check_choices(task: AnyTask, problems: Problems) -> None:
    if not isinstance(option(task, "on_commit", default=True), bool | str):
        problems.add("on_commit must be True, False or the alias of a database.")
    if option(task, "on_duplicate", default="none") not in ("none", "result"):
        problems.add("on_duplicate must be 'none' or 'result'.")
    if not isinstance(option(task, "metadata", default={}), Mapping):
        problems.add("metadata must be a dict with text keys.")
    redact = option(task, "redact", default=())
    if not isinstance(redact, bool | list | tuple) or not all(isinstance(name, str) for name in redacted(redact)):
        problems.add("redact must be True or a list of argument names.")


def _check_retries(task: AnyTask, problems: Problems) -> None:
    backoff = option(task, "backoff")
    if backoff is not None:
        try:
            named_backoff(_plain(backoff))
        except (TypeError, ValueError) as error:
            problems.add(f"{error}.")
    for name in ("retry_on", "give_up_on"):
        value = option(task, name, default=())
        classes = value if isinstance(value, tuple | list) else (value,)
        if not all(isinstance(item, type) and issubclass(item, BaseException) for item in classes):
            problems.add(f"{name} must be an exception class or a tuple of them, not {value!r}.")


def _check_unique(task: AnyTask, problems: Problems) -> None:
    unique = option(task, "unique", default=False)
    if not isinstance(unique, bool | Unique):
        problems.add("unique must be True, False or a Unique rule.")
        return
    if isinstance(unique, Unique):
        for name in ("unique_key", "ttl"):
            if option(task, name) is not None:
                problems.add(f"{name} has no effect beside a Unique rule: give it to the rule.")
    rule = unique_rule(task)
    wrong = rule and rule.problem(task.func)
    if wrong:
        problems.add(f"{wrong}.")
