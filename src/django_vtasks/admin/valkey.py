"""The list of the 3.2 line for Valkey: running jobs and dead letters, newest first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse

from .. import models
from ..jobs.errors import QueueError
from ..jobs.model import JobRecord, JobState
from ..operating.aliases import Alias, aliases
from ..stores.base import JobFilter
from . import links
from .base import StorePage, View

VALKEY_BACKEND = "django_vtasks.backends.valkey.ValkeyTaskBackend"

LISTED = 1000
"""How many records of each state are looked at; the pages of jobs and dead letters show them all."""

PER_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the list, with the names its columns had."""

    id: str
    status: str
    queue: str
    enqueued_at: float
    func_str: str
    url: str


_ORDERS: Mapping[str, Callable[[Line], Any]] = {
    "1": lambda line: line.id,
    "2": lambda line: line.status,
    "3": lambda line: line.queue,
    "4": lambda line: line.enqueued_at,
    "5": lambda line: line.func_str,
}


def register(site: admin.AdminSite) -> None:
    """Register the list, if TASKS names the Valkey backend."""
    if any(entry.get("BACKEND") == VALKEY_BACKEND for entry in getattr(settings, "TASKS", {}).values()):
        site.register(models.ValkeyTask, ValkeyTaskPage)


class ValkeyTaskPage(StorePage):
    """A read-only list with the addresses of the 3.2 line: `?p` is the page, `?o` the column to order by."""

    def routes(self) -> list[tuple[str, str, View]]:
        """One page."""
        return [("", "changelist", self.tasks)]

    def tasks(self, request: HttpRequest) -> HttpResponse:
        """Running jobs and dead letters of every Valkey alias."""
        found, problems = _lines()
        order = request.GET.get("o", "-4")
        by = _ORDERS.get(order.lstrip("-"), _ORDERS["4"])
        page = Paginator(sorted(found, key=by, reverse=order.startswith("-")), PER_PAGE).get_page(request.GET.get("p"))
        columns = [
            (label, f"{'' if order == f'-{number}' else '-'}{number}")
            for number, label in enumerate(("ID", "Status", "Queue", "Enqueued at", "Function"), start=1)
        ]
        return self.show(
            request,
            "valkeytask/valkey_change_list",
            "Valkey tasks",
            page=page,
            order=order,
            columns=columns,
            problems=problems,
        )


def _lines() -> tuple[list[Line], list[str]]:
    found: list[Line] = []
    problems: list[str] = []
    for alias in aliases():
        if f"{type(alias.backend).__module__}.{type(alias.backend).__qualname__}" != VALKEY_BACKEND:
            continue
        try:
            found += _of_alias(alias)
        except QueueError as error:
            problems.append(f"{alias.name}: {error}")
    return found, problems


def _of_alias(alias: Alias) -> list[Line]:
    return [
        _line(alias.name, record)
        for state in (JobState.LEASED, JobState.DEAD)
        for record in alias.admin.page(JobFilter(state=state), limit=LISTED).records
    ]


def _line(alias: str, record: JobRecord) -> Line:
    return Line(
        id=record.job.id,
        status="FAILED" if record.state is JobState.DEAD else "PROCESSING",
        queue=record.job.queue,
        enqueued_at=record.job.enqueued_at,
        func_str=record.job.func,
        url=links.job(alias, record.job.id),
    )
