"""The rows of the database store as they are. What operators do to jobs is done on the pages of `django_vtasks`."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html

from ..admin.section import InSection
from ..backends.db import DatabaseTaskBackend
from ..jobs.errors import CodecError, QueueError
from ..jobs.model import JobState
from ..jobs.payload import from_payload, unpack
from ..operating import bulk
from ..operating.aliases import Alias, aliases
from ..operating.wording import counted
from ..tasks.redaction import Hide, Redaction, hiding_of, redaction_of
from .models import QueuedTask, TaskStatus, VTaskMetadata

if TYPE_CHECKING:
    TaskAdmin = admin.ModelAdmin[QueuedTask]
    MetadataAdmin = admin.ModelAdmin[VTaskMetadata]
else:
    TaskAdmin = MetadataAdmin = admin.ModelAdmin


class QueueFilter(admin.SimpleListFilter):
    """Queues by name, as the store counts them; asking the table for its distinct queues would read all of it."""

    title = "queue"
    parameter_name = "queue"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        """The queues that have jobs."""
        try:
            names = {count.queue for alias in _database_aliases() for count in alias.admin.counts()}
        except QueueError:
            return []
        return [(name, name) for name in sorted(names)]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The rows of the chosen queue."""
        return queryset if self.value() is None else queryset.filter(queue=self.value())


@admin.register(QueuedTask)
class QueuedTaskAdmin(InSection, TaskAdmin):
    """Jobs that wait or run, and dead letters. Read-only; deleting goes through the store and frees unique keys."""

    tab = "db_queuedtask"
    tab_label = "Rows"
    list_display = ("id", "queue", "status", "created_at")
    list_filter = ("status", QueueFilter)
    search_fields = ("id", "queue")
    ordering = ("-created_at",)
    show_full_result_count = False
    fields = (
        *("id", "job", "queue", "status", "priority", "created_at", "run_after", "key"),
        *("worker_id", "claimed_at", "func", "reason", "payload"),
    )
    readonly_fields = fields

    def has_add_permission(self, _request: HttpRequest) -> bool:
        """Never: jobs are enqueued."""
        return False

    def has_change_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        """Never: a row that is edited by hand no longer agrees with its payload."""
        return False

    def delete_model(self, request: HttpRequest, obj: QueuedTask) -> None:
        """Discard one job."""
        self._discard(request, [obj])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[QueuedTask]) -> None:
        """Discard jobs; those that are running stay."""
        self._discard(request, queryset.only("id", "status", "run_after"))

    def _discard(self, request: HttpRequest, rows: Iterable[QueuedTask]) -> None:
        by_state: defaultdict[JobState, list[str]] = defaultdict(list)
        for row in rows:
            for state in _STATES.get(row.status, ()):
                by_state[state].append(str(row.pk))
        for state, ids in by_state.items():
            for alias in _database_aliases():
                bulk.discard(alias.admin, state, ids)
        chosen = [row.pk for row in rows]
        left = QueuedTask.objects.filter(pk__in=chosen).count()
        if left:
            text = f"{counted(left, 'job is', 'jobs are')} running and cannot be deleted: cancel instead."
            messages.warning(request, text)

    @admin.display(description="Job")
    def job(self, obj: QueuedTask) -> str:
        """A link to the job's page."""
        try:
            return format_html('<a href="{}">{}</a>', reverse("admin:django_vtasks_job_change", args=[obj.pk]), obj.pk)
        except NoReverseMatch:
            return str(obj.pk)

    @admin.display(description="Unique key")
    def key(self, obj: QueuedTask) -> str | None:
        """The key without what is hidden of the arguments that it is made from."""
        try:
            return obj.unique_key and hiding_of(from_payload(unpack(bytes(obj.data))))(obj.unique_key)
        except CodecError:
            return obj.unique_key

    @admin.display(description="Payload")
    def payload(self, obj: QueuedTask) -> str:
        """The payload without what its task hides, and without what is named like a secret."""
        try:
            return str(_shown(unpack(bytes(obj.data))))
        except CodecError as error:
            return f"{len(obj.data)} bytes that are no job: {error}"


def _shown(payload: dict[str, Any]) -> dict[str, Any]:
    try:
        job = from_payload(payload)
    except CodecError:
        return dict(Redaction().value(payload))
    args, kwargs = redaction_of(job).arguments(job.args, job.kwargs)
    hide = hiding_of(job)
    rest = {key: part for key, part in payload.items() if key not in ("args", "kwargs")}
    return {"args": args, "kwargs": kwargs, **_veiled(Redaction().value(rest), hide)}


def _veiled(value: Any, hide: Hide) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {key: _veiled(part, hide) for key, part in value.items()}
    return [_veiled(part, hide) for part in value] if isinstance(value, list) else value


_STATES: Mapping[str, tuple[JobState, ...]] = {
    TaskStatus.QUEUED: (JobState.READY, JobState.SCHEDULED),
    TaskStatus.FAILED: (JobState.DEAD,),
}


def _database_aliases() -> list[Alias]:
    return [alias for alias in aliases() if isinstance(alias.backend, DatabaseTaskBackend)]


@admin.register(VTaskMetadata)
class VTaskMetadataAdmin(InSection, MetadataAdmin):
    """Named texts of the store. Read-only: leases, roles and pauses are kept here."""

    tab = "db_vtaskmetadata"
    tab_label = "Metadata"
    list_display = ("key", "value", "expires_at")
    search_fields = ("key",)
    ordering = ("key",)
    show_full_result_count = False

    def has_add_permission(self, _request: HttpRequest) -> bool:
        """Never."""
        return False

    def has_change_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        """Never: a lease that is deleted here makes its jobs anybody's."""
        return False
