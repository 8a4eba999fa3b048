"""`manage.py vtasks_schedule`: when schedule entries ran, when they will, and why one never will."""

import json
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...conf import settings
from ...jobs.errors import QueueError
from ...operating.agenda import agenda_of
from ...operating.aliases import UnknownAlias, alias_named
from ...operating.tables import table
from ...operating.wording import duration, iso, moment
from ...scheduling.overview import EntryView, Standing

HEADINGS = ("entry", "schedule", "task", "last", "next", "")


class Command(BaseCommand):
    """Lists schedule entries. Exits with 1 when an entry will never run because something in it is wrong."""

    help = "List schedule entries with their last and next runs, and explain those that will never run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See Django."""
        parser.add_argument("entry", nargs="*", help="only these entries, with the next five runs of each")
        parser.add_argument("--backend", default=None, help="alias in TASKS whose scheduler is meant")
        parser.add_argument("--json", action="store_true", help="print JSON, for programs")

    def handle(self, *_args: Any, **options: Any) -> None:
        """See Django."""
        now = time.time()
        views = _views(options["backend"] or settings.VTASKS_BACKEND, options["entry"], now)
        if options["json"]:
            self.stdout.write(json.dumps([_as_json(view) for view in views], indent=2))
        elif options["entry"]:
            self.stdout.write("\n\n".join(_in_full(view, now) for view in views))
        else:
            self.stdout.write(_listing(views, now))
        wrong = [view.name for view in views if view.standing is Standing.NEVER]
        if wrong:
            raise CommandError(f"never run: {', '.join(wrong)}", returncode=1)


def _views(alias: str, names: Sequence[str], now: float) -> list[EntryView]:
    try:
        views = agenda_of(alias_named(alias), now=now)
    except (UnknownAlias, QueueError) as error:
        raise CommandError(str(error), returncode=2) from None
    unknown = set(names) - {view.name for view in views}
    if unknown:
        known = ", ".join(view.name for view in views) or "none"
        raise CommandError(f"no schedule entry {', '.join(sorted(unknown))}; there is: {known}", returncode=2)
    return [view for view in views if not names or view.name in names]


def _listing(views: Sequence[EntryView], now: float) -> str:
    if not views:
        return "There are no schedule entries: VTASKS_SCHEDULE is empty, no task says schedule=, no row."
    rows = [_row(view, now) for view in views]
    explained = [f"{view.name}: {view.why}" for view in views if view.why]
    return "\n".join((table(HEADINGS, rows), *(("", *explained) if explained else ())))


def _row(view: EntryView, now: float) -> tuple[str, ...]:
    remark = "" if view.standing is Standing.WAITING else view.standing.value
    return (view.name, view.when, view.task, _ago(view.last, now), _ahead(view.next, now), remark)


def _in_full(view: EntryView, now: float) -> str:
    facts = {
        "task": view.task,
        "schedule": view.when,
        "description": view.description,
        "standing": view.standing.value,
        "why": view.why,
        "last": f"{moment(view.last)} ({_ago(view.last, now)})" if view.last else "never",
    }
    lines = [f"{view.name}", *(f"  {name:<12} {value}" for name, value in facts.items() if value)]
    following = [f"  {'next':<12} {moment(slot)} ({_ahead(slot, now)})" for slot in view.upcoming]
    return "\n".join(lines + following)


def _ago(slot: float | None, now: float) -> str:
    return "never" if slot is None else f"{duration(now - slot)} ago"


def _ahead(slot: float | None, now: float) -> str:
    if slot is None:
        return "never"
    return f"in {duration(slot - now)}" if slot > now else "now"


def _as_json(view: EntryView) -> dict[str, Any]:
    return {
        "name": view.name,
        "task": view.task,
        "schedule": view.when,
        "description": view.description,
        "standing": view.standing.value,
        "why": view.why,
        "last": iso(view.last),
        "next": [iso(slot) for slot in view.upcoming],
    }
