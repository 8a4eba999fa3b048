"""The lists of jobs, and the page of one job."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.views.decorators.http import require_POST

from .. import models
from ..jobs.errors import QueueError
from ..jobs.model import JobRecord, JobState
from ..jobs.texts import visible
from ..operating.aliases import Alias, aliases
from ..operating.explain import explain
from ..operating.facts import facts_about
from ..stores.base import QueueCounts
from . import acting, links, rows
from .base import Crumb, StorePage, View, chosen_alias
from .editing import edit
from .permissions import Permission, granted, may, require
from .queries import LISTED, PER_PAGE, Query

COUNTED = {JobState.READY: "ready", JobState.SCHEDULED: "scheduled", JobState.LEASED: "leased", JobState.DEAD: "dead"}


@admin.register(models.Job)
class JobPage(StorePage):
    """Jobs by state, and each job with its history."""

    def routes(self) -> list[tuple[str, str, View]]:
        """List, actions, one job, its live part, and retrying it with edited arguments."""
        return [
            ("", "changelist", self.jobs),
            ("act/", "act", require_POST(self.act)),
            ("<path:job_id>/change/", "change", self.job),
            ("<path:job_id>/live/", "live", self.live),
            ("<path:job_id>/edit/", "edit", self.edit),
        ]

    def jobs(self, request: HttpRequest) -> HttpResponse:
        """Jobs of one state."""
        alias = chosen_alias(request)
        query = Query.of(request, alias.name if alias else "")
        if alias is not None and query.state is JobState.DEAD:
            return HttpResponseRedirect(query.url())
        return self.show(request, "jobs", "Jobs", **listing(request, alias, query))

    def act(self, request: HttpRequest) -> HttpResponse:
        """Ask for confirmation of an action on jobs, or do it."""
        return acting.act(self, request)

    def job(self, request: HttpRequest, job_id: str) -> HttpResponse:
        """One job."""
        job_id = unquote(job_id)
        try:
            alias, context = self._found(request, job_id)
        except QueueError as error:
            return self.show(request, "job", "Job", trail=_trail(job_id), job_id=job_id, problem=str(error))
        if alias is None:
            return self._not_found(request, job_id)
        found: JobRecord = context["record"]
        live_url = links.page("job_live", job_id, query={"alias": alias.name})
        return self.show(
            request,
            "job",
            found.job.func or "Undecodable job",
            trail=_trail(job_id),
            job_id=job_id,
            live_url=None if found.finished_at else live_url,
            log=LogEntry.objects.filter(content_type__app_label="django_vtasks", object_id=job_id)
            .select_related("user")
            .order_by("-action_time")[:20],
            **context,
        )

    def live(self, request: HttpRequest, job_id: str) -> HttpResponse:
        """The part of a job's page that changes, for the script that refreshes it."""
        try:
            alias, context = self._found(request, unquote(job_id))
        except QueueError as error:
            return JsonResponse({"problem": str(error)}, status=503)
        if alias is None:
            return JsonResponse({"problem": "the job is not known any more"}, status=404)
        context["may"] = granted(request)
        html = visible(render_to_string("admin/django_vtasks/includes/job.html", context, request=request))
        done = context["record"].finished_at is not None
        return JsonResponse({"html": html, "done": done})

    def edit(self, request: HttpRequest, job_id: str) -> HttpResponse:
        """Retry a dead letter with other arguments."""
        require(request, Permission.OPERATE, Permission.EDIT)
        return edit(self, request, unquote(job_id))

    def _not_found(self, request: HttpRequest, job_id: str) -> HttpResponse:
        messages.error(
            request,
            f"Nothing is known of the job {job_id!r}: it never was, or its result was kept its time and is gone.",
        )
        return HttpResponseRedirect(links.page("job_changelist"))

    def _found(self, request: HttpRequest, job_id: str) -> tuple[Alias | None, dict[str, Any]]:
        """The alias that knows the job (None: none does) and what its page shows."""
        named = chosen_alias(request)
        candidates = aliases() if "alias" not in request.GET else [named] if named else []
        for alias in candidates:
            facts = facts_about(alias, job_id)
            if facts is not None:
                context = _job_context(alias, facts.standing.record, explain(facts))
                if may(request, Permission.EDIT):
                    context["raw"] = rows.raw_of(facts.standing.record)
                return alias, context
        return None, {}


def _trail(job_id: str) -> tuple[Crumb, Crumb]:
    return (("Jobs", links.page("job_changelist")), (job_id, None))


def _job_context(alias: Alias, record: JobRecord, reasons: Any) -> dict[str, Any]:
    args, kwargs = rows.arguments(record)
    return {
        "alias": alias.name,
        "record": record,
        "row": rows.job_row(alias.name, record),
        "state_label": rows.STATE_LABELS[record.state],
        "state_level": _LEVELS.get(record.state, ""),
        "reasons": reasons,
        "percent": rows.percent(record),
        "args": args,
        "kwargs": kwargs,
        "value": rows.value_of(record),
        "metadata": rows.metadata_of(record),
        "attempts": rows.attempt_rows(record),
        "actions": acting.actions_for(record.state),
        "retry_of_url": links.job(alias.name, record.job.retry_of) if record.job.retry_of else None,
        "reason_level": _REASON_LEVELS.get(reasons[0].code, "info"),
        "reason_links": [(other, links.job(alias.name, other)) for reason in reasons for other in reason.jobs],
        "letter_traceback": rows.letter_traceback(record),
        "edit_url": links.page("job_edit", record.job.id, query={"alias": alias.name}),
        "list_url": links.jobs(alias.name, state=record.state.value, queue=record.job.queue),
    }


_LEVELS = {
    JobState.LEASED: "info",
    JobState.SUCCEEDED: "success",
    JobState.DEAD: "error",
    JobState.DISCARDED: "warning",
}


_REASON_LEVELS = {
    **dict.fromkeys(("dead", "unknown_task", "expired", "no_worker", "lease_expired"), "error"),
    **dict.fromkeys(("paused", "busy", "overdue", "discarded"), "warning"),
    "succeeded": "success",
}


def listing(request: HttpRequest, alias: Alias | None, query: Query) -> dict[str, Any]:
    """What a list of jobs shows: one page, the counts of the states, and the actions."""
    context: dict[str, Any] = {
        "query": query,
        "aliases": [known.name for known in aliases()],
        "time_label": rows.TIME_LABELS[query.state],
        "actions": [action for action in acting.actions_for(query.state) if action.allowed(request)],
        "act_url": links.page("job_act"),
        "first_url": query.url(after="") if query.after else None,
    }
    if alias is None:
        return {**context, "problem": "TASKS has no such alias that keeps its jobs in a store."}
    try:
        counts = alias.admin.counts()
        page = alias.admin.page(query.which, after=query.after or None, limit=PER_PAGE)
    except QueueError as error:
        return {**context, "problem": str(error)}
    return {
        **context,
        "jobs": [rows.job_row(alias.name, record) for record in page.records],
        "states": _states(query, counts),
        "queues": sorted({count.queue for count in counts} | alias.configured_queues()),
        "next_url": query.url(after=page.next_cursor) if page.next_cursor else None,
        "total": None if query.restricts else _total(query.state, counts),
    }


def _states(query: Query, counts: list[QueueCounts]) -> list[tuple[str, str, int | None, bool]]:
    first = query.without_place()
    return [
        (
            rows.STATE_LABELS[state],
            first.url(state=state.value, fingerprint="", reason=""),
            _total(state, [count for count in counts if query.queue in ("", count.queue)]),
            state is query.state,
        )
        for state in LISTED
    ]


def _total(state: JobState, counts: list[QueueCounts]) -> int | None:
    field = COUNTED.get(state)
    return sum(int(getattr(count, field)) for count in counts) if field else None
