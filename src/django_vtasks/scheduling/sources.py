"""Where entries come from: the setting, tasks declared with `schedule=`, and rows that can be edited at run time."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from django.apps import apps

from ..conf import settings
from ..framework import AnyTask, Task
from ..jobs.errors import TaskNotFound
from ..tasks import load_task
from .entries import Entries, Problem, ScheduleEntry, parse, parse_entry, usable_zone, zone_problems
from .rows import from_rows_or_problem, has_rows


def from_setting() -> Entries:
    """The entries of `VTASKS_SCHEDULE`."""
    return parse(settings.VTASKS_SCHEDULE, timezone=settings.VTASKS_SCHEDULE_TIMEZONE)


def from_tasks() -> Entries:
    """An entry for each task that was declared with `schedule=` in a module `tasks` of an installed app.

    Its name is the task's path, unless the option is a dict with a `name`. Imports those modules.
    """
    found = Entries()
    for task in _declared_tasks():
        found += _declared(task)
    return found


def static_entries() -> Entries:
    """The entries that do not change while a process runs."""
    return from_setting() + from_tasks()


def all_entries() -> Entries:
    """The entries as they are now, from every source."""
    return static_entries() + from_rows_or_problem() if has_rows() else static_entries()


def may_have_entries() -> bool:
    """Whether a scheduler has or may get something to do: there are entries, or a table that may get some."""
    return has_rows() or bool(static_entries().usable)


def lost_tasks(entries: Iterable[ScheduleEntry]) -> tuple[Problem, ...]:
    """A problem for each entry whose path leads to no task, because its module or the name in it does not exist."""
    return tuple(problem for entry in entries if (problem := _lost(entry)))


def check_problems() -> list[tuple[str, str, str]]:
    """What the system checks report: number ("W005"), message and hint of each problem of the static entries.

    Paths into packages that are not installed here are left to the run time: checks may run without them.
    """
    zone = settings.VTASKS_SCHEDULE_TIMEZONE
    entries = parse(settings.VTASKS_SCHEDULE, timezone=usable_zone(zone)) + from_tasks()
    here = [entry for entry in entries.usable if _is_installed(entry.task)]
    problems = (*zone_problems(zone), *entries.problems, *lost_tasks(here))
    return [(one.code, one.message, one.hint) for one in problems]


def _declared_tasks() -> list[AnyTask]:
    tasks: dict[str, AnyTask] = {}
    for config in apps.get_app_configs():
        module = _tasks_module(config.module)
        for value in vars(module).values() if module else ():
            if isinstance(value, Task) and getattr(value, "schedule", None) is not None:
                tasks[value.module_path] = value
    return list(tasks.values())


def _tasks_module(app: ModuleType | None) -> ModuleType | None:
    name = f"{app.__name__}.tasks" if app else ""
    if app is None or not hasattr(app, "__path__") or name == "django_vtasks.tasks" or find_spec(name) is None:
        return None
    return import_module(name)


def _declared(task: AnyTask) -> Entries:
    said = task.schedule  # type: ignore[attr-defined]
    options = dict(said) if isinstance(said, Mapping) else {"schedule": said}
    name = options.pop("name", task.module_path)
    return parse_entry(name, {**options, "task": task.module_path}, timezone=settings.VTASKS_SCHEDULE_TIMEZONE)


def _lost(entry: ScheduleEntry) -> Problem | None:
    try:
        load_task(entry.task)
    except TaskNotFound as error:
        message = f"Schedule entry {entry.name!r}: {error}"
        return Problem(code="W003", entry=entry.name, message=message, hint="Correct its task, or remove the entry.")
    return None


def _is_installed(path: str) -> bool:
    try:
        return find_spec(path.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False
