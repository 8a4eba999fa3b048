"""`VTASKS_QUEUES`: names, or names with options, into values."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from ..jobs.limits import Concurrency, Rate
from .environment import settings
from .problems import COUNT, SECONDS, SECONDS_OR_ZERO, Problems

QUEUE_OPTION_KEYS = frozenset(
    ("worker_concurrency", "batch", "weight", "result_ttl", "max_attempts", "timeout", "limit", "rate")
)
"""What may stand beside a queue's name."""

BATCH_OPTION_KEYS = frozenset(("count", "timeout", "max_bytes", "group_by", "on_failure"))
"""What may stand in a queue's `batch`."""

_HINTS = {"concurrency": "this option is called 'worker_concurrency'."}
_ON_FAILURE = ("group", "one_by_one")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchConfig:
    """How a batch queue collects: up to `count` jobs or `max_bytes` of arguments, for at most `timeout` seconds.

    `group_by` names the keyword argument whose value separates groups beside the function. `on_failure` says what a
    raising group does: `group` fails its members together, `one_by_one` runs each alone.
    """

    count: int
    timeout: float
    max_bytes: int | None = None
    group_by: str | None = None
    on_failure: str = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    """One queue. None means that the worker's or the task's own value counts; durations are seconds."""

    name: str
    concurrency: int | None = None
    batch: BatchConfig | None = None
    weight: int = 1
    result_ttl: float | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    limit: Concurrency | None = None
    rate: Rate | None = None


def resolve_queue_config(queues: Any = None) -> dict[str, dict[str, Any]]:
    """Queue name to its options, from `VTASKS_QUEUES` or the given value. Raises ImproperlyConfigured when wrong."""
    problems = Problems()
    resolved = _options_by_name(settings.VTASKS_QUEUES if queues is None else queues, problems)
    parse_queues(resolved, problems)
    problems.raise_if_any()
    return resolved


def get_batch_queues(queues: Any = None) -> dict[str, dict[str, Any]]:
    """Name to `{"count", "timeout"}` of every batch queue. Raises ImproperlyConfigured when a setting is wrong."""
    return {
        name: dict(options["batch"]) for name, options in resolve_queue_config(queues).items() if "batch" in options
    }


def parse_queues(value: Any, problems: Problems) -> dict[str, QueueConfig]:
    """Every queue by name, in the order of the setting; what is wrong goes into `problems`."""
    return {name: _queue(name, options, problems) for name, options in _options_by_name(value, problems).items()}


def queue_configs() -> Mapping[str, QueueConfig]:
    """The queues of `VTASKS_QUEUES`, kept until a setting changes. Raises ImproperlyConfigured when it is wrong."""
    kept = _kept.get(settings.generation)
    if kept is None:
        problems = Problems()
        kept = parse_queues(settings.VTASKS_QUEUES, problems)
        problems.raise_if_any()
        _kept.clear()
        _kept[settings.generation] = kept
    return kept


def queue_names() -> set[str]:
    """The names in `VTASKS_QUEUES`; what else is wrong with it is for the checks and the worker to say."""
    return set(_options_by_name(settings.VTASKS_QUEUES, Problems()))


_kept: dict[int, Mapping[str, QueueConfig]] = {}


def _options_by_name(value: Any, problems: Problems) -> dict[str, dict[str, Any]]:
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        pairs = [(name, None) for name in value]
    else:
        problems.add(f"VTASKS_QUEUES must be a list of names or a dict of names with options, not {value!r}.")
        return {}
    resolved = {}
    for name, options in pairs:
        if not isinstance(name, str) or not name:
            problems.add(f"VTASKS_QUEUES: a queue's name must be text, not {name!r}.")
        elif not isinstance(options, Mapping | None):
            problems.add(f"VTASKS_QUEUES[{name!r}] must be a dict of options, not {options!r}.")
        else:
            resolved[name] = dict(options or {})
    return resolved


def _queue(name: str, options: Mapping[str, Any], problems: Problems) -> QueueConfig:
    where = f"VTASKS_QUEUES[{name!r}]"
    problems.keys(where, options, QUEUE_OPTION_KEYS, _HINTS)

    def whole(key: str) -> int | None:
        number = problems.number(f"{where}[{key!r}]", options.get(key), COUNT)
        return None if number is None else int(number)

    def seconds(key: str, bounds: Any) -> float | None:
        return problems.number(f"{where}[{key!r}]", options.get(key), bounds)

    batch = _batch(where, options["batch"], problems) if options.get("batch") is not None else None
    result_ttl = seconds("result_ttl", SECONDS_OR_ZERO)
    return QueueConfig(
        name=name,
        concurrency=whole("worker_concurrency"),
        batch=batch,
        weight=whole("weight") or 1,
        result_ttl=0.0 if batch and result_ttl is None else result_ttl,
        max_attempts=whole("max_attempts"),
        timeout=seconds("timeout", SECONDS),
        limit=_limit(name, options, "limit", Concurrency, problems),
        rate=_limit(name, options, "rate", Rate, problems),
    )


def _batch(where: str, options: Any, problems: Problems) -> BatchConfig | None:
    where = f"{where}['batch']"
    if not isinstance(options, Mapping):
        problems.add(f"{where} must be a dict with 'count' and 'timeout', not {options!r}.")
        return None
    problems.keys(where, options, BATCH_OPTION_KEYS)
    for key in ("count", "timeout"):
        if options.get(key) is None:
            problems.add(f"{where} needs {key!r}.")
    on_failure = options.get("on_failure", "group")
    if on_failure not in _ON_FAILURE:
        problems.add(f"{where}['on_failure'] must be one of {list(_ON_FAILURE)}, not {on_failure!r}.")
    number = partial(_part, where, options, problems)
    max_bytes = number("max_bytes", COUNT)
    return BatchConfig(
        count=int(number("count", COUNT) or 1),
        timeout=number("timeout", SECONDS_OR_ZERO) or 0.0,
        max_bytes=None if max_bytes is None else int(max_bytes),
        group_by=problems.text(f"{where}['group_by']", options.get("group_by")),
        on_failure=str(on_failure),
    )


def _limit[L: (Concurrency, Rate)](
    queue: str, options: Mapping[str, Any], name: str, kind: type[L], problems: Problems
) -> L | None:
    value, where = options.get(name), f"VTASKS_QUEUES[{queue!r}][{name!r}]"
    if value is None:
        return None
    limit = value if isinstance(value, kind) else _read_limit(where, value, kind, problems)
    # Without a key of its own the limit is shared by all tasks of the queue.
    return replace(limit, key=f"queue:{queue}") if limit is not None and limit.key is None else limit


def _read_limit[L: (Concurrency, Rate)](where: str, value: Any, kind: type[L], problems: Problems) -> L | None:
    example = _EXAMPLES[kind]
    if not isinstance(value, Mapping):
        problems.add(f"{where} must be a dict like {example} or a {kind.__name__}, not {value!r}.")
        return None
    known = {field.name for field in fields(kind)}
    problems.keys(where, value, known)
    if "count" not in value:
        problems.add(f"{where} needs 'count': write it like {example}.")
    elif known.issuperset(value):
        try:
            return kind(**value)
        except (TypeError, ValueError) as error:
            problems.add(f"{where}: {error}; write it like {example}.")
    return None


_EXAMPLES: Mapping[type, str] = {Concurrency: "{'count': 5}", Rate: "{'count': 100, 'per': 60}"}


def _part(where: str, options: Mapping[str, Any], problems: Problems, key: str, bounds: Any) -> float | None:
    return problems.number(f"{where}[{key!r}]", options.get(key), bounds)
