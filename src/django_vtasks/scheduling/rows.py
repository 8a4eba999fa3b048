"""Entries from the database: rows of the model `db.ScheduleEntry`, read again every few seconds."""

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from django.apps import apps
from django.db import DatabaseError, close_old_connections, connections

from ..conf import settings
from ..tasks import to_epoch
from .entries import Entries, Problem, parse_entry

UNREADABLE = "W014"
"""The number of the problem that the rows cannot be read."""

APP, MODEL = "django_vtasks.db", "ScheduleEntry"

PLAIN = ("args", "kwargs", "priority", "jitter", "overlap", "run_on_start", "enabled", "description")
"""Columns that are options as they are."""

REREAD_AFTER = 3.0
"""Seconds after which the rows are read again."""

PATIENCE = 5.0
"""Seconds that the first reading may keep the entries of the setting waiting."""


def has_rows() -> bool:
    """Whether the project has the table: whether `django_vtasks.db` is among its apps."""
    return apps.is_installed(APP)


def from_rows() -> Entries:
    """The entries that the database has now. Raises DatabaseError when it cannot be read."""
    found = Entries()
    for row in apps.get_model("db", MODEL)._default_manager.all():
        found += entry_of(row)
    return found


def from_rows_or_problem() -> Entries:
    """As `from_rows`; a table that cannot be read is a problem among others."""
    try:
        return from_rows()
    except DatabaseError as error:
        return Entries(problems=(_unreadable(error),))


def entry_of(row: Any) -> Entries:
    """The entry that a row (saved or not) means, and what is wrong with it."""
    found = parse_entry(row.name, options_of(row), timezone=row.timezone or settings.VTASKS_SCHEDULE_TIMEZONE)
    since = to_epoch(row.changed_at)
    return replace(found, usable=tuple(replace(entry, since=since) for entry in found.usable))


def options_of(row: Any) -> Mapping[str, Any]:
    """A row in the form of the setting; what is left empty is left out."""
    options = {name: getattr(row, name) for name in PLAIN}
    numbers = {"schedule": _number(row.schedule), "catch_up": _number(row.catch_up)}
    return options | numbers | {"task": row.task, "queue": row.queue or None}


def _number(text: str) -> str | int | float:
    """The number that the text is, or the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


class RowSource:
    """The entries of the database. They are read aside, so that a database that hangs stops no other entry.

    Owns a thread, and the connection it uses there. What was read last is kept while reading fails.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._reading: asyncio.Future[Entries] | None = None
        self._known: Entries | None = None
        self._asked_at = 0.0

    async def entries(self) -> Entries:
        """The entries as of a few seconds ago."""
        now = time.monotonic()
        if self._reading is None and (self._known is None or now - self._asked_at >= REREAD_AFTER):
            self._reading, self._asked_at = self._start(), now
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=PATIENCE if self._known is None else 0)
            self._known = self._taken() or Entries()
        return self._known or Entries()

    def close(self) -> None:
        """End the thread and its connection."""
        if self._thread is not None:
            self._thread.submit(connections.close_all)
            self._thread.shutdown(wait=False)
        self._thread = self._reading = None

    def _start(self) -> "asyncio.Future[Entries]":
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="vtasks-schedule")
        return asyncio.get_running_loop().run_in_executor(self._thread, _read)

    def _taken(self) -> Entries | None:
        if self._reading is None or not self._reading.done():
            return self._known
        reading, self._reading = self._reading, None
        try:
            return reading.result()
        except DatabaseError as error:
            known = self._known or Entries()
            told = tuple(problem for problem in known.problems if problem.code != UNREADABLE)
            return replace(known, problems=(*told, _unreadable(error)))


def _read() -> Entries:
    close_old_connections()
    try:
        return from_rows()
    finally:
        close_old_connections()


def _unreadable(error: DatabaseError) -> Problem:
    message = f"Schedule entries cannot be read from the database: {str(error).strip()}"
    return Problem(code=UNREADABLE, entry="(database)", message=message, hint="Was `manage.py migrate` run?")
