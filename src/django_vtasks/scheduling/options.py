"""Reading the values of one schedule entry: each reader returns the value or raises `Unusable` saying what to do."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta, tzinfo
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from .due import ALL
from .schedules import Cron, Every, Schedule

EXAMPLE = 'Write {"task": "app.tasks.function", "schedule": "0 5 * * *"}.'

CATCH_UP = {"none": 0, "latest": 1, "all": ALL}

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_SCHEDULES = "Use a cron expression, a positive number of seconds or a timedelta."


class Overlap(StrEnum):
    """What happens to a slot while the job of an earlier one is not done."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"


class Unusable(Exception):
    """Raised about one value: the number of the check, what is wrong, and what to do."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


def task(value: object) -> str:
    """The dotted path of a task; whether it leads anywhere is found out later."""
    if not isinstance(value, str) or not _DOTTED.fullmatch(value):
        raise Unusable("W003", f"task {value!r} is no dotted path", 'Use "package.module.function".')
    return value


def schedule(value: object, timezone: str) -> Schedule:
    """A cron expression in `timezone`, or an interval."""
    if value is None:
        raise Unusable("W004", "it has no schedule", _SCHEDULES)
    if isinstance(value, bool):
        raise Unusable("W007", f"schedule {value} is a truth value", _SCHEDULES)
    if isinstance(value, str):
        return _cron(value, timezone)
    if not isinstance(value, int | float | timedelta):
        raise Unusable("W006", f"schedule {value!r} is a {type(value).__name__}", _SCHEDULES)
    return Every(_interval(value))


def timezone(value: object) -> str:
    """The IANA name of a zone."""
    name = getattr(value, "key", value) if isinstance(value, tzinfo) else value
    try:
        if isinstance(name, str) and name:
            ZoneInfo(name)
            return name
    except (OSError, ValueError, LookupError):
        pass
    raise _option("timezone", value, "an IANA name such as 'Europe/Berlin'")


def arguments(value: object) -> tuple[Any, ...]:
    """Positional arguments."""
    if isinstance(value, list | tuple):
        return tuple(value)
    raise _option("args", value, "a list")


def keywords(value: object) -> Mapping[str, Any]:
    """Keyword arguments."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise _option("kwargs", value, "a dict whose keys are text")


def queue(value: object) -> str:
    """The name of a queue."""
    if isinstance(value, str) and value:
        return value
    raise _option("queue", value, "the name of a queue")


def priority(value: object) -> int:
    """A priority of Django's range."""
    if isinstance(value, int) and not isinstance(value, bool) and -100 <= value <= 100:
        return value
    raise _option("priority", value, "a whole number from -100 to 100")


def jitter(value: object) -> float:
    """Seconds, 0 or more."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < math.inf:
        return float(seconds)
    raise _option("jitter", value, "seconds, 0 or more")


def catch_up(value: object) -> int:
    """How many late slots are fired at most."""
    if isinstance(value, str) and value in CATCH_UP:
        return CATCH_UP[value]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= ALL:
        return value
    raise _option("catch_up", value, f"'none', 'latest', 'all' or a number up to {ALL}")


def overlap(value: object) -> Overlap:
    """One of the three rules."""
    if isinstance(value, str) and value in Overlap:
        return Overlap(value)
    raise _option("overlap", value, f"one of {', '.join(repr(rule.value) for rule in Overlap)}")


def truth(key: str) -> Callable[[object], bool]:
    """A reader of True or False."""

    def read(value: object) -> bool:
        if isinstance(value, bool):
            return value
        raise _option(key, value, "True or False")

    return read


def description(value: object) -> str:
    """Any text."""
    if isinstance(value, str):
        return value
    raise _option("description", value, "text")


OPTIONS: Mapping[str, Callable[[object], Any]] = {
    "args": arguments,
    "kwargs": keywords,
    "queue": queue,
    "priority": priority,
    "timezone": timezone,
    "jitter": jitter,
    "catch_up": catch_up,
    "overlap": overlap,
    "run_on_start": truth("run_on_start"),
    "enabled": truth("enabled"),
    "description": description,
}
"""The readers of the optional keys; a key that is None counts as left out."""

KEYS: Sequence[str] = ("task", "schedule", *OPTIONS)


def _cron(expression: str, zone: str) -> Cron:
    try:
        cron = Cron(expression, zone)
    except ValueError as error:
        raise Unusable("W005", str(error), 'Use five fields: "minute hour day month weekday".') from None
    if cron.next_after(0.0) is None:
        raise Unusable("W005", f"the cron expression {expression!r} never fires", "No month has such a day.")
    return cron


def _interval(value: float | timedelta) -> float:
    try:
        seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        raise Unusable("W006", f"schedule {value!r} is not a finite number", _SCHEDULES)
    if seconds <= 0:
        raise Unusable("W008", f"schedule {value!r} is not positive", _SCHEDULES)
    return seconds


def _option(key: str, value: object, wanted: str) -> Unusable:
    return Unusable("W013", f"{key} {value!r} cannot be used", f"Use {wanted}.")
