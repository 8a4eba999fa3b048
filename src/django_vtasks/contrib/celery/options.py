"""What a Celery task's options mean here. Each option is taken, without an effect that is missed, or refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from ...jobs.limits import Rate
from ...jobs.retries import Backoff, Exponential, Fixed

UNLIMITED = 10**9
"""Attempts of a task with `max_retries=None`."""

LATE_RESCUES = 3
"""Starts after a worker died in the middle, of a task with `acks_late`."""


class NotSupported(TypeError):
    """Raised for what Celery has and this shim has not; the message says what to do instead."""


class MaxRetriesExceededError(Exception):
    """Raised by `self.retry()` of a task that has no retry left and gave no exception."""


class _Convention:
    highest_priority = 9


def configure(*, highest_priority: int) -> None:
    """Say which of Celery's priorities was the highest: 9 as with RabbitMQ (the default), or 0 as with Redis.

    Raises ValueError for another number.
    """
    if highest_priority not in (0, 9):
        raise ValueError(f"the highest priority is 9 (RabbitMQ) or 0 (Redis), not {highest_priority!r}")
    _Convention.highest_priority = highest_priority


def priority_of(value: Any) -> int:
    """Celery's 0 to 9 as -100 to 100. What Celery gives a task that names none, 0, stays 0, ten for each step."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 9:
        raise NotSupported(f"priority={value!r}: Celery's priorities are 0 to 9; use `.using(priority=-100 to 100)`")
    return 10 * value if _Convention.highest_priority else -10 * value


@dataclass(frozen=True, slots=True, kw_only=True)
class CeleryOptions:
    """What a task keeps of its declaration beside its own options; `function` is the undecorated one."""

    function: Callable[..., Any]
    name: str
    bind: bool = False
    max_retries: int | None = 3
    default_retry_delay: float = 180.0


def own_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Our options for those of a declaration. Raises NotSupported that lists everything that cannot be moved."""
    problems = [problem for name, value in given.items() if (problem := _problem(name, value))]
    if "rate" in given and "rate_limit" in given:
        problems.append("rate_limit and rate: give one of them")
    if problems:
        raise NotSupported("; ".join(problems))
    own = {name: value for name, value in given.items() if name in PASSED}
    for name, take in _TAKEN.items():
        if given.get(name) is not None:
            own |= take(given[name])
    return own | _retries(given) | _limits(given) | _rescues(given)


PASSED = frozenset(
    (
        *("unique", "unique_key", "ttl", "remove_unique_on_complete", "on_commit", "on_duplicate", "max_rescues"),
        *("limit", "rate", "redact", "metadata", "backend", "result_ttl"),
    )
)
"""Options of our own that may stand beside Celery's."""

HARMLESS = frozenset(
    (
        *("name", "bind", "track_started", "send_events", "trail", "shared", "lazy", "typing", "throws"),
        *("store_errors_even_if_ignored", "max_retries", "default_retry_delay", "autoretry_for", "dont_autoretry_for"),
        *("retry_kwargs", "retry_backoff", "retry_backoff_max", "retry_jitter", "acks_late", "reject_on_worker_lost"),
        *("time_limit", "soft_time_limit"),
    )
)
"""Options of Celery that are read elsewhere, or that say what is so here anyway."""

REFUSED = {
    "acks_on_failure_or_timeout": "a failed job is kept as a dead letter; use max_retries to run it again",
    "after_return": "connect a receiver to django_vtasks.signals.task_finished",
    "base": "there are no task classes: make its hooks receivers of django_vtasks.signals, its helpers functions",
    "compression": "large jobs are compressed anyway; remove it",
    "delivery_mode": "jobs are always kept; remove it",
    "exchange": "name a queue",
    "link": "enqueue the next task at the end of this one",
    "link_error": "connect a receiver to django_vtasks.signals.task_failure",
    "on_failure": "connect a receiver to django_vtasks.signals.task_failure",
    "on_retry": "connect a receiver to django_vtasks.signals.task_retried",
    "on_success": "connect a receiver to django_vtasks.signals.task_finished",
    "pydantic": "validate in the task: `Model.model_validate(argument)`",
    "request_stack": "remove it",
    "routing_key": "name a queue",
    "shadow": "remove it",
    "task_id": "ids are the store's; use unique_key to tell duplicates",
    "time_limit": "declare it with the task",
    "soft_time_limit": "declare it with the task",
}
"""Options of Celery that have no counterpart, and what to do instead."""


def _problem(name: str, value: Any) -> str | None:
    if name == "serializer" and value == "json":
        return None
    if name == "serializer":
        return f"serializer={value!r}: arguments are JSON here; pass ids instead of objects and remove it"
    if name in _TAKEN or name in HARMLESS or name in PASSED or name in _READ_TOGETHER:
        return None
    return unknown(name)


def unknown(name: str) -> str:
    """What to do about an option that is not taken."""
    if name in REFUSED:
        return f"{name}: {REFUSED[name]}"
    near = get_close_matches(name, [*_TAKEN, *HARMLESS, *PASSED], n=1)
    return f"unknown option {name!r}{f': did you mean {near[0]!r}?' if near else ''}"


# -- one by one -------------------------------------------------------------------------------------------------------


def rate_of(value: Any) -> Rate | None:
    """Celery's `"10/m"`, `"5/s"`, `"100/h"` or a number per second; None for no limit (None, 0, "0").

    Celery's limit is that of each worker, ours is one for the fleet. Raises NotSupported for what is no rate.
    """
    number, _, unit = str(value).partition("/")
    try:
        count, per = Fraction(number), _UNITS[unit.strip() or "s"]
    except (ValueError, KeyError):
        raise NotSupported(f"rate_limit={value!r}: write '10/s', '10/m' or '10/h'") from None
    if count < 0:
        raise NotSupported(f"rate_limit={value!r} is negative")
    if not count:
        return None
    return Rate(count.numerator, per=float(per * count.denominator), burst=1)


_UNITS = {"s": 1, "m": 60, "h": 3600}


def _limits(given: Mapping[str, Any]) -> dict[str, Any]:
    limits = [given[name] for name in ("soft_time_limit", "time_limit") if given.get(name) is not None]
    own: dict[str, Any] = {"timeout": float(min(limits))} if limits else {}
    if given.get("rate_limit") is not None:
        rate = rate_of(given["rate_limit"])
        own |= {"rate": rate} if rate else {}
    return own


def _rescues(given: Mapping[str, Any]) -> dict[str, Any]:
    late = given.get("acks_late")
    return {"max_rescues": LATE_RESCUES} if late and "max_rescues" not in given else {}


def _ignored_result(value: Any) -> dict[str, Any]:
    return {"result_ttl": 0} if value else {}


_TAKEN: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "queue": lambda value: {"queue_name": value},
    "priority": lambda value: {"priority": priority_of(value)},
    "expires": lambda value: {"expires": value},
    "ignore_result": _ignored_result,
}
_READ_TOGETHER = frozenset(("rate_limit",))


# -- retries ----------------------------------------------------------------------------------------------------------


def max_retries_of(given: Mapping[str, Any]) -> int | None:
    """How many retries a declaration allows; None = any number."""
    in_kwargs = given.get("retry_kwargs") or {}
    value = in_kwargs.get("max_retries", given.get("max_retries", 3))
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise NotSupported(f"max_retries={value!r}: give a whole number, or None for any number of retries")
    return value


def retry_delay_of(given: Mapping[str, Any]) -> float:
    """The seconds between two attempts where nothing else is said; Celery's default is three minutes."""
    return float(given.get("default_retry_delay", 180))


def _retries(given: Mapping[str, Any]) -> dict[str, Any]:
    retries = max_retries_of(given)
    own: dict[str, Any] = {
        "max_attempts": UNLIMITED if retries is None else retries + 1,
        "retry_on": _classes(given.get("autoretry_for")),
        "backoff": _backoff(given),
    }
    never = _classes(given.get("dont_autoretry_for"))
    return own | ({"give_up_on": never} if never else {})


def _classes(value: Any) -> tuple[type[BaseException], ...]:
    return (value,) if isinstance(value, type) else tuple(value or ())


def _backoff(given: Mapping[str, Any]) -> Backoff:
    factor = given.get("retry_backoff")
    countdown = (given.get("retry_kwargs") or {}).get("countdown")
    if not factor:
        return Fixed(seconds=float(retry_delay_of(given) if countdown is None else countdown))
    base, cap = float(factor), float(given.get("retry_backoff_max", 600))
    if given.get("retry_jitter", True):
        return Exponential(base=base, cap=cap, floor=0.0)
    return _without_jitter(base, cap)


def _without_jitter(base: float, cap: float) -> Callable[[BaseException, Any], float]:
    def backoff(_error: BaseException, result: Any) -> float:
        return float(min(cap, base * 2.0 ** min(len(result.errors), 100)))

    return backoff
