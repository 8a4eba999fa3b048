"""The schedule: what is due when, what was fired, and running an entry now."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_POST

from .. import models
from ..framework import InvalidTask
from ..jobs.errors import QueueError
from ..operating.agenda import agenda_of, run_now
from ..operating.aliases import Alias, aliases
from ..scheduling.overview import EntryView, Standing
from ..stores.base import AddStatus
from . import links
from .base import StorePage, View, chosen_alias, record, tell_problem
from .permissions import Permission, require


@admin.register(models.ScheduleEntry)
class SchedulePage(StorePage):
    """Entries of the setting and of declared tasks."""

    def routes(self) -> list[tuple[str, str, View]]:
        """The page and its action."""
        return [("", "changelist", self.schedule), ("run/", "run", require_POST(self.run))]

    def schedule(self, request: HttpRequest) -> HttpResponse:
        """Every entry with its last and next slots."""
        alias = chosen_alias(request)
        context: dict[str, Any] = {
            "alias": alias.name if alias else "",
            "aliases": [known.name for known in aliases()],
            "edit_url": _entries_url(request, "view", "changelist"),
            "add_url": _entries_url(request, "add", "add"),
        }
        if alias is None:
            context["problem"] = "TASKS has no such alias that keeps its jobs in a store."
            return self.show(request, "schedule", "Schedule", **context)
        try:
            rows = [_row(alias, view) for view in agenda_of(alias)]
        except QueueError as error:
            return self.show(request, "schedule", "Schedule", problem=str(error), **context)
        return self.show(request, "schedule", "Schedule", rows=rows, **context)

    def run(self, request: HttpRequest) -> HttpResponse:
        """Enqueue the job of an entry now."""
        require(request, Permission.OPERATE)
        alias, name = chosen_alias(request), request.POST.get("entry", "")
        back = HttpResponseRedirect(links.page("scheduleentry_changelist", query={"alias": alias and alias.name}))
        if alias is None:
            messages.error(request, "Choose a known alias.")
            return back
        try:
            added = run_now(alias, name)
        except QueueError as error:
            tell_problem(request, alias, error)
        except (InvalidTask, TypeError, ValueError) as error:
            messages.error(request, f"The entry {name!r} cannot be enqueued: {error}")
        else:
            if added is None:
                messages.error(request, f"There is no schedule entry {name!r}.")
            elif added.status is AddStatus.DUPLICATE:
                messages.warning(request, f"Not enqueued: a job of {name!r} is not done yet ({added.job_id or '?'}).")
            else:
                record(request, of="", about=f"schedule entry {name}", message=f"Ran it now as job {added.job_id}.")
                messages.success(request, f"Enqueued {name!r} as the job {added.job_id}.")
        return back


def _entries_url(request: HttpRequest, permission: str, page: str) -> str | None:
    """The address of a page of the entries that can be edited, for who may do so."""
    if not request.user.has_perm(f"db.{permission}_scheduleentry"):
        return None
    try:
        return reverse(f"admin:db_scheduleentry_{page}")
    except NoReverseMatch:
        return None


_LEVELS = {Standing.WAITING: "success", Standing.NEW: "info", Standing.OVERDUE: "warning", Standing.NEVER: "error"}


def _row(alias: Alias, view: EntryView) -> dict[str, Any]:
    module, _, name = view.task.rpartition(".")
    return {
        "view": view,
        "name": name,
        "module": module,
        "level": _LEVELS.get(view.standing, ""),
        "runs": view.standing is not Standing.NEVER,
        "jobs_url": links.jobs(alias.name, state="succeeded", func=view.task),
    }
