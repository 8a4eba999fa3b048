"""From the setting `VTASKS_SCHEDULE` to schedule entries; every problem is reported, none hides the other entries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import options as read
from .options import Overlap, Unusable
from .schedules import Cron, Schedule

MAX_NAME_LENGTH = 200
"""Characters the name of an entry may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEntry:
    """A task due repeatedly. None leaves a choice to the task or to the kind of schedule.

    `jitter` is in seconds. `catch_up` is how many late slots are fired at most. Slots up to `since` (epoch seconds)
    are not due: it is when an entry that can be edited was last changed.
    """

    name: str
    task: str
    schedule: Schedule
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    queue: str | None = None
    priority: int | None = None
    jitter: float = 0.0
    catch_up: int = 1
    overlap: Overlap = Overlap.ALLOW
    run_on_start: bool | None = None
    enabled: bool = True
    description: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong with an entry, or with the whole setting when `entry` is None.

    `code` is the number of the check, `key` the part of the entry that is wrong. An entry with a `fatal` problem is
    never fired.
    """

    code: str
    entry: str | None
    message: str
    hint: str
    fatal: bool = True
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """The entries that can be used, by name and in order, and what is wrong with others."""

    usable: tuple[ScheduleEntry, ...] = ()
    problems: tuple[Problem, ...] = ()

    def __add__(self, other: "Entries") -> "Entries":
        """Both together; of two entries with one name the first counts and the second is a problem."""
        names = {entry.name for entry in self.usable} | {problem.entry for problem in self.problems}
        twice = tuple(_twice(entry.name) for entry in other.usable if entry.name in names)
        return Entries(
            usable=self.usable + tuple(entry for entry in other.usable if entry.name not in names),
            problems=self.problems + other.problems + twice,
        )


def parse(setting: object, *, timezone: str = "UTC") -> Entries:
    """The entries of a setting; `timezone` rules cron expressions that name none."""
    if setting is None:
        return Entries()
    if not isinstance(setting, Mapping):
        text = f"VTASKS_SCHEDULE is a {type(setting).__name__}, not a dict"
        hint = f"Use a dict from names to entries. {read.EXAMPLE}"
        return Entries(problems=(Problem(code="W001", entry=None, message=text, hint=hint),))
    usable: list[ScheduleEntry] = []
    problems: list[Problem] = []
    for name, options in setting.items():
        parsed = parse_entry(name, options, timezone=timezone)
        usable += parsed.usable
        problems += parsed.problems
    return Entries(usable=tuple(usable), problems=tuple(problems))


def parse_entry(name: object, options: object, *, timezone: str = "UTC") -> Entries:
    """At most one entry, and what is wrong with it."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
        wrong_name = _no_entry(f"its name is no text of 1 to {MAX_NAME_LENGTH} characters")
        return Entries(problems=(_problem(str(name)[:MAX_NAME_LENGTH], wrong_name),))
    if not isinstance(options, Mapping):
        return Entries(problems=(_problem(name, _no_entry(f"it is a {type(options).__name__}, not a dict")),))
    values, wrong = _values(options, timezone)
    problems = tuple(_problem(name, problem, key) for key, problem in wrong)
    usable = () if problems else (ScheduleEntry(name=name, **values),)
    unknown = sorted(repr(key) for key in options if key not in read.KEYS)
    return Entries(usable=usable, problems=problems + ((_unknown_keys(name, unknown),) if unknown else ()))


def schedule_problems(setting: object, *, timezone: str = "UTC") -> list[tuple[str, str, str]]:
    """What is wrong with a `VTASKS_SCHEDULE` by itself: number ("W005"), message and hint of each problem."""
    problems = (*zone_problems(timezone), *parse(setting, timezone=usable_zone(timezone)).problems)
    return [(one.code, one.message, one.hint) for one in problems]


def usable_zone(timezone: object) -> str:
    """The default zone, or UTC in place of one that is wrong, so that this is not reported for each entry."""
    return "UTC" if zone_problems(timezone) else str(timezone)


def zone_problems(timezone: object) -> tuple[Problem, ...]:
    """What is wrong with the default zone."""
    try:
        read.timezone(timezone)
    except Unusable as wrong:
        message = f"VTASKS_SCHEDULE_TIMEZONE: {wrong.message}"
        return (Problem(code=wrong.code, entry=None, message=message, hint=wrong.hint),)
    return ()


def crontab(
    minute: str | int = "*",
    hour: str | int = "*",
    day_of_week: str | int = "*",
    day_of_month: str | int = "*",
    month_of_year: str | int = "*",
) -> str:
    """A cron expression from its fields: `crontab(hour=5, minute=0)` is `"0 5 * * *"`.

    Raises ValueError ("Invalid cron format") when it cannot be read.
    """
    expression = f"{minute} {hour} {day_of_month} {month_of_year} {day_of_week}"
    Cron(expression)
    return expression


def _values(options: Mapping[Any, Any], timezone: str) -> tuple[dict[str, Any], list[tuple[str, Unusable]]]:
    values: dict[str, Any] = {}
    wrong: list[tuple[str, Unusable]] = []
    given = {key: options[key] for key in read.OPTIONS if options.get(key) is not None}
    readers = {"task": read.task} | {key: read.OPTIONS[key] for key in given}
    for key, reader in readers.items():
        try:
            values[key] = reader(options.get(key))
        except Unusable as problem:
            wrong.append((key, problem))
    zone = values.pop("timezone", timezone)
    try:
        values["schedule"] = read.schedule(options.get("schedule"), zone)
    except Unusable as problem:
        wrong.append(("schedule", problem))
    return values, wrong


def _no_entry(message: str) -> Unusable:
    return Unusable("W002", message, read.EXAMPLE)


def _problem(name: str, wrong: Unusable, key: str | None = None) -> Problem:
    message = f"Schedule entry {name!r}: {wrong.message}"
    return Problem(code=wrong.code, entry=name, message=message, hint=wrong.hint, key=key)


def _unknown_keys(name: str, unknown: Sequence[str]) -> Problem:
    message = f"Schedule entry {name!r}: unknown keys {', '.join(unknown)} have no effect"
    return Problem(code="W009", entry=name, message=message, hint=f"Known are {', '.join(read.KEYS)}.", fatal=False)


def _twice(name: str) -> Problem:
    message = f"Schedule entry {name!r} is defined twice; the first definition counts"
    return Problem(code="W002", entry=name, message=message, hint="Names are unique over all sources.", fatal=False)
