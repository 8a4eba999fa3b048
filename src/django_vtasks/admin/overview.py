"""The overview: queues, workers, what needs attention; pause and resume."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.views.decorators.http import require_POST

from .. import models
from ..jobs.errors import QueueError
from ..jobs.texts import visible
from ..operating.aliases import Alias, aliases
from ..operating.overview import Finding, Overview, overview_of
from . import charts, links
from .base import StorePage, View, chosen_alias, record, tell_problem
from .permissions import Permission, granted, require
from .rows import job_row


@admin.register(models.Overview)
class OverviewPage(StorePage):
    """Where an operator begins."""

    def routes(self) -> list[tuple[str, str, View]]:
        """The page, its live part, and the one action it has."""
        return [
            ("", "changelist", self.overview),
            ("live/", "live", self.live),
            ("queue/", "queue", require_POST(self.change_queue)),
        ]

    def overview(self, request: HttpRequest) -> HttpResponse:
        """Every alias at a glance."""
        return self.show(request, "overview", "Tasks", sections=_sections(), live_url=links.page("overview_live"))

    def live(self, request: HttpRequest) -> HttpResponse:
        """The part of the page that changes, for the script that refreshes it."""
        context = {"sections": _sections(), "may": granted(request)}
        html = visible(render_to_string("admin/django_vtasks/includes/sections.html", context, request=request))
        return JsonResponse({"html": html})

    def change_queue(self, request: HttpRequest) -> HttpResponse:
        """Pause or resume a queue."""
        require(request, Permission.OPERATE)
        alias, queue = chosen_alias(request), request.POST.get("queue", "")
        do = request.POST.get("do")
        if alias is None or not queue or do not in ("pause", "resume"):
            messages.error(request, "Choose to pause or resume a queue of a known alias.")
        else:
            self._pause_or_resume(request, alias, queue, pause=do == "pause")
        return HttpResponseRedirect(links.page("overview_changelist"))

    def _pause_or_resume(self, request: HttpRequest, alias: Alias, queue: str, *, pause: bool) -> None:
        try:
            (alias.admin.pause if pause else alias.admin.resume)(queue)
        except QueueError as error:
            tell_problem(request, alias, error)
            return
        done = "Paused" if pause else "Resumed"
        record(request, of="", about=f"queue {queue} of {alias.name}", message=f"{done} the queue.")
        text = "no worker claims from it until it is resumed" if pause else "workers claim from it again"
        messages.success(request, f"{done} the queue {queue!r} of {alias.name!r}: {text}.")


def _sections() -> list[dict[str, Any]]:
    return [_section(alias, overview_of(alias)) for alias in aliases()]


def _section(alias: Alias, seen: Overview) -> dict[str, Any]:
    name = alias.name
    totals = [
        ("Ready", seen.total("ready"), links.jobs(name, state="ready")),
        ("Delayed", seen.total("scheduled"), links.jobs(name, state="scheduled")),
        ("Running", seen.total("leased"), links.jobs(name, state="leased")),
        ("Dead letters", seen.total("dead"), links.jobs(name, state="dead")),
    ]
    return {
        "alias": name,
        "backend": type(alias.backend).__name__,
        "seen": seen,
        "totals": totals,
        "findings": [(finding, _finding_url(name, finding)) for finding in seen.findings],
        "queues": [
            {
                "view": queue,
                "wait": queue.oldest_wait(seen.at),
                "urls": _queue_urls(name, queue.counts.queue),
                "done_chart": charts.done_chart(queue.history),
                "depth_chart": charts.depth_chart(queue.history),
            }
            for queue in seen.queues
        ],
        "workers": [
            {"info": worker.info, "running": [job_row(name, run) for run in worker.running]} for worker in seen.workers
        ],
    }


def _queue_urls(alias: str, queue: str) -> dict[str, str]:
    states = ("ready", "scheduled", "leased", "dead")
    return {state: links.jobs(alias, state=state, queue=queue) for state in states}


def _finding_url(alias: str, finding: Finding) -> str | None:
    if finding.state is None:
        return None
    return links.jobs(alias, state=finding.state.value, queue=finding.queue, fingerprint=finding.fingerprint)
