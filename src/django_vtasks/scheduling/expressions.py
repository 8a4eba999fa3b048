"""Cron expressions: what is accepted, spelled as cronsim reads it. The only module that imports cronsim."""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_DAY_OF_MONTH, _MONTH, _DAY_OF_WEEK = 2, 3, 4
_RANGE = re.compile(r"(\w+)-(\w+)(?:/(\d+))?")


@lru_cache(maxsize=512)
def normalised(expression: str) -> str:
    """The five fields of a cron expression as cronsim reads them.

    Beyond cronsim's own syntax it takes nicknames (`@daily`), `?` for a day, ranges that wrap (`22-4`, `fri-mon`) and
    `L5` for the last Friday. Raises ValueError that says what is wrong.
    """
    fields = NICKNAMES.get(expression.strip().lower(), expression).upper().split()
    if len(fields) != len(_BOUNDS):
        raise ValueError(f"Invalid cron format: {expression!r} has {len(fields)} fields instead of 5")
    text = " ".join(_field(position, field) for position, field in enumerate(fields))
    _validate(expression, text)
    return text


def readings_after(text: str, reading: datetime) -> Iterator[datetime]:
    """The calendar readings later than `reading` that match a normalised expression, whatever the zone."""
    return _readings(text, reading, reverse=False)


def readings_before(text: str, reading: datetime) -> Iterator[datetime]:
    """The matching calendar readings earlier than `reading`, the latest first."""
    return _readings(text, reading, reverse=True)


def _readings(text: str, reading: datetime, *, reverse: bool) -> Iterator[datetime]:
    from cronsim import CronSim, CronSimError

    try:
        return iter(CronSim(text, reading, reverse=reverse))
    except CronSimError:
        return iter(())


def _validate(expression: str, text: str) -> None:
    from cronsim import CronSim, CronSimError

    # cronsim refuses a day that none of the months has; such an entry is well-formed, it just never fires.
    minute, hour, day, month, weekday = text.split()
    try:
        CronSim(" ".join((minute, hour, "*", month, weekday)), datetime(2000, 1, 1))
        CronSim(" ".join((minute, hour, day, "*", weekday)), datetime(2000, 1, 1))
    except (CronSimError, ValueError, AssertionError) as error:
        raise ValueError(f"Invalid cron format: {expression!r}: {str(error) or 'cannot be read'}") from None


def _field(position: int, field: str) -> str:
    if field == "?" and position in {_DAY_OF_MONTH, _DAY_OF_WEEK}:
        return "*"
    return ",".join(_term(position, term) for term in field.split(","))


def _term(position: int, term: str) -> str:
    if position == _DAY_OF_WEEK and re.fullmatch(r"L[0-7]", term):
        return f"{term[1]}L"
    found = _RANGE.fullmatch(term)
    if not found:
        return term
    first, last = (_number(position, found[group]) for group in (1, 2))
    step = int(found[3] or 1)
    if first is None or last is None or first <= last or step == 0:
        return term
    lowest, highest = _BOUNDS[position]
    values = [*range(first, highest + 1), *range(lowest, last + 1)]
    return ",".join(str(value) for value in values[::step])


def _number(position: int, text: str) -> int | None:
    if position == _MONTH and text in _MONTHS:
        return _MONTHS.index(text) + 1
    if position == _DAY_OF_WEEK and text in _WEEKDAYS:
        return _WEEKDAYS.index(text)
    return int(text) if text.isascii() and text.isdigit() else None
