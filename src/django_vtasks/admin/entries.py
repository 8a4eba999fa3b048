"""Schedule entries of the database in the admin: edited with validation, enabled, disabled and run now."""

import time
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from django import forms
from django.apps import apps
from django.contrib import admin, messages
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join

from ..conf import settings
from ..framework import InvalidTask
from ..jobs.errors import QueueError
from ..jobs.model import JobRecord
from ..operating.agenda import run_now
from ..operating.aliases import Alias, UnknownAlias, alias_named
from ..operating.wording import moment
from ..scheduling.entries import Problem, ScheduleEntry
from ..scheduling.firing import JobMaker, job_id
from ..scheduling.options import Overlap
from ..scheduling.overview import UPCOMING, past_slots, upcoming, wording
from ..scheduling.rows import entry_of
from ..scheduling.sources import lost_tasks, static_entries
from ..stores.base import AddStatus
from . import links
from .section import InSection

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from ..db.schedule import ScheduleEntry as Row

    EntryModelAdmin = admin.ModelAdmin[Row]
    EntryModelForm = forms.ModelForm[Row]
else:
    EntryModelAdmin, EntryModelForm = admin.ModelAdmin, forms.ModelForm

SHOWN_RUNS = 10

OVERLAPS = [
    (Overlap.ALLOW.value, "run beside it"),
    (Overlap.SKIP.value, "skip the slot"),
    (Overlap.QUEUE.value, "wait, one at most"),
]


def register(site: admin.AdminSite) -> None:
    """Register the page, if the project has the table."""
    if apps.is_installed("django_vtasks.db"):
        site.register(apps.get_model("db", "ScheduleEntry"), EntryAdmin)


class EntryForm(EntryModelForm):
    """A row, held to what the setting is held to."""

    overlap = forms.ChoiceField(
        choices=OVERLAPS, initial=Overlap.ALLOW.value, label="While the job before is not done"
    )

    class Meta:
        labels = {"run_on_start": "Fires at once when new", "args": "Arguments", "kwargs": "Keyword arguments"}
        help_texts = {
            "task": "Dotted path, such as app.tasks.report.",
            "schedule": "A cron expression (minute hour day month weekday), or a number of seconds.",
            "timezone": "IANA zone of a cron expression; empty for VTASKS_SCHEDULE_TIMEZONE.",
            "queue": "Empty for that of the task.",
            "priority": "Empty for that of the task.",
            "jitter": "Seconds over which starts are spread.",
            "catch_up": "What of late slots is fired: none, latest, all, or a number.",
            "run_on_start": "Unknown: an interval does, a cron expression does not.",
        }

    def clean_name(self) -> str:
        """A name that neither the setting nor a declared task has."""
        name: str = self.cleaned_data["name"]
        if name in {entry.name for entry in static_entries().usable}:
            raise forms.ValidationError("The setting or a declared task has an entry of this name.")
        return name

    def clean_args(self) -> Any:
        """An empty field means no arguments."""
        return self.cleaned_data["args"] or []

    def clean_kwargs(self) -> Any:
        """An empty field means no arguments."""
        return self.cleaned_data["kwargs"] or {}

    def _post_clean(self) -> None:
        # Only after this is the instance complete, and what it means can be asked.
        super()._post_clean()  # type: ignore[misc]
        if not self.errors:
            found = entry_of(self.instance)
            for problem in (*found.problems, *lost_tasks(found.usable)):
                self.add_error(_field(problem), f"{problem.message}. {problem.hint}")
            for entry in () if self.errors else found.usable:
                self._try_to_make(entry)

    def _try_to_make(self, entry: ScheduleEntry) -> None:
        try:
            alias = _alias()
            JobMaker(alias=alias.name, sample_id=alias.client.new_id())(entry, time.time(), time.time())
        except UnknownAlias:
            pass  # the project runs its schedule elsewhere
        except (InvalidTask, QueueError, TypeError, ValueError) as error:
            self.add_error(None, f"Its job cannot be made: {error}")


class EntryAdmin(InSection, EntryModelAdmin):
    """The rows. Changes are picked up by running schedulers within seconds."""

    tab = "django_vtasks_scheduleentry"
    tab_label = "Edit entries"
    form = EntryForm
    list_display = ("name", "enabled", "when", "task", "last_slot", "next_slot", "description")
    list_filter = ("enabled",)
    search_fields = ("name", "task", "description")
    readonly_fields = ("next_slots", "last_runs")
    actions = ("enable", "disable", "run")
    fieldsets = (
        (None, {"fields": ("name", "description", "enabled", "task", "args", "kwargs")}),
        ("When", {"fields": ("schedule", "timezone", "next_slots", "last_runs")}),
        ("How", {"fields": ("queue", "priority", "jitter", "catch_up", "overlap", "run_on_start")}),
    )

    @admin.display(description="Schedule")
    def when(self, row: "Row") -> str:
        """The schedule in words, or what is wrong with it."""
        entry, problems = _meaning(row)
        return wording(entry.schedule) if entry else "; ".join(problem.message for problem in problems)

    @admin.display(description="Last slot")
    def last_slot(self, row: "Row") -> str:
        """When it was due last."""
        return moment(_last(row))

    @admin.display(description="Next slot")
    def next_slot(self, row: "Row") -> str:
        """When it will be due."""
        return next(iter(_next(row)), "-")

    @admin.display(description="Next five")
    def next_slots(self, row: "Row") -> str:
        """When it will be due the next times."""
        return format_html_join("", "<div>{}</div>", ((text,) for text in _next(row))) or "-"

    @admin.display(description="Last runs")
    def last_runs(self, row: "Row") -> str:
        """The jobs of the last slots, as far as they are known still."""
        return format_html_join("", "<div>{}</div>", ((line,) for line in _runs(row))) or "-"

    @admin.action(description="Enable", permissions=["change"])
    def enable(self, request: HttpRequest, queryset: "QuerySet[Row]") -> None:
        """Have them fired from their next slot on."""
        self._switch(request, queryset, enabled=True)

    @admin.action(description="Disable", permissions=["change"])
    def disable(self, request: HttpRequest, queryset: "QuerySet[Row]") -> None:
        """Have them fired no more."""
        self._switch(request, queryset, enabled=False)

    @admin.action(description="Run now", permissions=["change"])
    def run(self, request: HttpRequest, queryset: "QuerySet[Row]") -> None:
        """Enqueue their jobs once more; their slots stay as they are."""
        for row in queryset:
            try:
                added = run_now(_alias(), row.name)
            except (QueueError, InvalidTask, UnknownAlias, TypeError, ValueError) as error:
                messages.error(request, f"{row.name} cannot be enqueued: {error}")
                continue
            if added is None:
                messages.error(request, f"{row.name} cannot be used; open it to see why.")
            elif added.status is AddStatus.DUPLICATE:
                messages.warning(request, f"{row.name} was not enqueued: a job of it is not done yet.")
            else:
                self.log_change(request, row, f"Ran it now as job {added.job_id}.")
                messages.success(request, f"{row.name} was enqueued as the job {added.job_id}.")

    def _switch(self, request: HttpRequest, rows: "Iterable[Row]", *, enabled: bool) -> None:
        for row in rows:
            if row.enabled is not enabled:
                row.enabled = enabled
                row.save(update_fields=["enabled"])
                self.log_change(request, row, "Enabled." if enabled else "Disabled.")


def _alias() -> Alias:
    return alias_named(settings.VTASKS_BACKEND)


def _field(problem: Problem) -> str | None:
    return problem.key if problem.key else {"W003": "task", "W002": "name"}.get(problem.code)


def _meaning(row: "Row") -> tuple[ScheduleEntry | None, tuple[Problem, ...]]:
    found = entry_of(row)
    return next(iter(found.usable), None), found.problems


def _last(row: "Row") -> float | None:
    try:
        return _alias().admin.recorded_slots([row.name]).get(row.name)
    except (QueueError, UnknownAlias):
        return None


def _next(row: "Row") -> list[str]:
    entry, _ = _meaning(row)
    if entry is None or not entry.enabled or row.pk is None:
        return []
    return [moment(slot) for slot in islice(upcoming(entry, _last(row), time.time()), UPCOMING)]


def _runs(row: "Row") -> list[str]:
    entry, _ = _meaning(row)
    last = _last(row) if entry and row.pk is not None else None
    if entry is None or last is None:
        return []
    alias = _alias()
    like = alias.client.new_id()
    ids = {job_id(row.name, slot, like=like): slot for slot in islice(past_slots(entry, last), SHOWN_RUNS)}
    try:
        records = [(slot, alias.client.get(job)) for job, slot in ids.items()]
    except QueueError as error:
        return [str(error)]
    return [_run(alias, slot, record) for slot, record in records if record is not None]


def _run(alias: Alias, slot: float, record: JobRecord) -> str:
    url = links.job(alias.name, record.job.id)
    ended = f", ended {moment(record.finished_at)}" if record.finished_at else ""
    return format_html('<a href="{}">{}</a> {}{}', url, moment(slot), record.state.value, ended)
