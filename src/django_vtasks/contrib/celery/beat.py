"""From `CELERY_BEAT_SCHEDULE` to `VTASKS_SCHEDULE`. Works inside a settings module."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from .options import NotSupported, priority_of

KEYS = frozenset(("task", "schedule", "args", "kwargs", "options", "relative"))
FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day_of_month", 1, 31),
    ("month_of_year", 1, 12),
    ("day_of_week", 0, 6),
)


def import_beat_schedule(
    entries: Mapping[str, Mapping[str, Any]],
    *,
    tasks: Mapping[str, str] | None = None,
    timezone: str | None = None,
) -> dict[str, dict[str, Any]]:
    """A beat schedule as the setting `VTASKS_SCHEDULE`.

    Schedules are crontabs (Celery's objects), timedeltas or seconds. `tasks` gives the dotted path for each task that
    was declared with a `name` of its own; `timezone` is CELERY_TIMEZONE, an IANA name.

    Raises ImproperlyConfigured that lists every entry that cannot be moved, with what to do.
    """
    moved: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for name, entry in entries.items():
        try:
            moved[name] = _entry(entry, tasks or {}, timezone)
        except NotSupported as problem:
            problems.append(f"- {name!r}: {problem}")
    if problems:
        raise ImproperlyConfigured("\n".join(["These entries of the beat schedule cannot be moved:", *problems]))
    return moved


def _entry(entry: Mapping[str, Any], tasks: Mapping[str, str], timezone: str | None) -> dict[str, Any]:
    unknown = sorted(set(entry) - KEYS)
    if unknown:
        raise NotSupported(f"the keys {', '.join(unknown)} are not known")
    if "task" not in entry or "schedule" not in entry:
        raise NotSupported("it needs a task and a schedule")
    if entry.get("relative"):
        raise NotSupported("relative=True: write a cron expression such as '*/10 * * * *'")
    path = tasks.get(entry["task"], entry["task"])
    if "." not in path:
        raise NotSupported(f"the task {path!r} is no dotted path: give it in tasks={{{path!r}: 'app.tasks.function'}}")
    moved: dict[str, Any] = {"task": path, "schedule": _schedule(entry["schedule"])}
    if isinstance(moved["schedule"], str):
        moved |= {"timezone": timezone} if timezone else {}
    else:
        # An interval of beat's begins when beat first sees it.
        moved["run_on_start"] = False
    moved |= {key: kind(entry[key]) for key, kind in (("args", list), ("kwargs", dict)) if entry.get(key)}
    return moved | _options(entry.get("options") or {})


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    moved: dict[str, Any] = {}
    for name, value in options.items():
        if name == "queue":
            moved["queue"] = value
        elif name == "priority":
            moved["priority"] = priority_of(value)
        elif name == "expires":
            raise NotSupported(
                "options expires: declare it with the task instead, shared_task(expires=...); it then holds for every "
                "call, so where others call the task too, give the entry a task of its own that calls it"
            )
        else:
            raise NotSupported(f"option {name}: only queue and priority can be moved")
    return moved


def _schedule(value: Any) -> str | float | timedelta:
    if isinstance(value, str | timedelta) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if all(isinstance(getattr(value, field, None), set | frozenset) for field, _, _ in FIELDS):
        return _cron(value)
    if isinstance(getattr(value, "run_every", None), timedelta):
        return value.run_every  # type: ignore[no-any-return]
    kind = type(value).__name__
    if kind == "solar":
        raise NotSupported("solar: write a cron expression, and have the task check the sun")
    raise NotSupported(f"a schedule of the type {kind}: use a crontab, a timedelta or seconds")


def _cron(crontab: Any) -> str:
    texts = {field: _field(getattr(crontab, field), low, high) for field, low, high in FIELDS}
    if texts["day_of_month"] != "*" and texts["day_of_week"] != "*":
        raise NotSupported(
            "day_of_month and day_of_week: Celery fires when both fit, cron when either does; give one of them, and "
            "have the task check the other"
        )
    return " ".join(texts[field] for field, _, _ in FIELDS)


def _field(values: frozenset[int], low: int, high: int) -> str:
    """A field of a cron expression, written as a step where it is one."""
    wanted = sorted(values)
    if wanted == list(range(low, high + 1)):
        return "*"
    for step in range(2, (high - low) // 2 + 1):
        if wanted == list(range(low, high + 1, step)):
            return f"*/{step}"
    return ",".join(map(str, wanted))
