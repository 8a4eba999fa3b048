"""One place for everything about tasks: pages of tables are reached from the tabs of the section, not beside it."""

from typing import TYPE_CHECKING, Any

from django import VERSION
from django.apps import apps
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse

from .permissions import Permission, may

TABS = (
    ("django_vtasks_overview_changelist", "Overview", None),
    ("django_vtasks_job_changelist", "Jobs", None),
    ("django_vtasks_deadletter_changelist", "Dead letters", None),
    ("django_vtasks_scheduleentry_changelist", "Schedule", None),
    ("db_queuedtask_changelist", "Rows", "db.view_queuedtask"),
    ("db_vtaskmetadata_changelist", "Metadata", "db.view_vtaskmetadata"),
)
"""Address, label, and the permission that is needed beside that for the section."""


_LABELS = {name.removesuffix("_changelist"): label for name, label, _ in TABS}


def tabs(request: HttpRequest, current: str) -> list[tuple[str, str, bool]]:
    """Address and label of each tab the user may open, and whether it is the current one."""
    found = []
    for name, label, permission in TABS:
        if permission is not None and not request.user.has_perm(permission):
            continue
        try:
            found.append((reverse(f"admin:{name}"), label, name == f"{current}_changelist"))
        except NoReverseMatch:
            continue  # of an app that the project has not
    return found


def crumbs(*trail: tuple[str, str | None]) -> dict[str, Any]:
    """The context of breadcrumbs: what they say after the section's name."""
    start = (("Home", reverse("admin:index")), ("Tasks", reverse("admin:app_list", args=["django_vtasks"])))
    return {"crumbs": (*start, *trail), "crumbs_are_a_list": VERSION >= (6, 1)}


if TYPE_CHECKING:
    from django.contrib import admin

    Base = admin.ModelAdmin[Any]
else:
    Base = object


class InSection(Base):
    """A page of a table in the section. Who may not see the section finds it in the admin's list, as before."""

    tab = ""
    tab_label = ""
    change_list_template = "admin/django_vtasks/rows/change_list.html"
    change_form_template = "admin/django_vtasks/rows/change_form.html"
    delete_confirmation_template = "admin/django_vtasks/rows/delete_confirmation.html"
    delete_selected_confirmation_template = "admin/django_vtasks/rows/delete_selected_confirmation.html"
    object_history_template = "admin/django_vtasks/rows/object_history.html"

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Whether the admin lists the page."""
        return bool(super().has_module_permission(request)) and not _sees_section(request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list, with the tabs of the section."""
        context = {"title": self.tab_label} | self._frame(request, (self.tab_label, None)) | (extra_context or {})
        return super().changelist_view(request, context)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """One row, with the tabs of the section."""
        opts = self.opts
        up = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
        what = object_id or f"Add {opts.verbose_name}"
        context = self._frame(request, (self.tab_label, up), (what, None)) | (extra_context or {})
        return super().changeform_view(request, object_id, form_url, context)

    def _frame(self, request: HttpRequest, *trail: tuple[str, str | None]) -> dict[str, Any]:
        if not _sees_section(request):
            return {}
        if self.tab != f"{self.opts.app_label}_{self.opts.model_name}":
            trail = ((_LABELS[self.tab], reverse(f"admin:{self.tab}_changelist")), *trail)
        return {"vt_tabs": tabs(request, self.tab), **crumbs(*trail)}


def _sees_section(request: HttpRequest) -> bool:
    return apps.is_installed("django_vtasks") and may(request, Permission.VIEW)
