"""What all pages share: who may see them, their addresses, their frame, and what is said when a store is away."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from .. import models
from ..jobs.errors import QueueError
from ..jobs.texts import visible
from ..operating.aliases import Alias, aliases
from .permissions import Permission, granted, may, require
from .section import crumbs, tabs

type Crumb = tuple[str, str | None]
type View = Callable[..., HttpResponse]

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


class StorePage(ModelAdmin):
    """A page about a store instead of a table: nothing is added, changed or deleted through forms of a model."""

    def routes(self) -> list[tuple[str, str, View]]:
        """Address, short name and view of every page; the first one is the list."""
        raise NotImplementedError

    def get_urls(self) -> list[URLPattern]:
        """The pages, closed to everybody without the permission to view."""
        return [
            path(route, self._guarded(view), name=f"django_vtasks_{self.opts.model_name}_{name}")
            for route, name, view in self.routes()
        ]

    def _guarded(self, view: View) -> Any:
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            require(request, Permission.VIEW)
            response = view(request, *args, **kwargs)
            if isinstance(response, TemplateResponse):
                response.add_post_render_callback(_show_everything)
            return response

        return self.admin_site.admin_view(guarded)

    def has_add_permission(self, _request: HttpRequest, *_args: Any) -> bool:
        """Never."""
        return False

    def has_change_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        """Never: what can be done to a job is an action with a permission of its own."""
        return False

    def has_delete_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        """Never, as for changes."""
        return False

    def has_view_permission(self, request: HttpRequest, _obj: Any = None) -> bool:
        """Whether the user may see the pages."""
        return may(request, Permission.VIEW)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """As `has_view_permission`."""
        return may(request, Permission.VIEW)

    def frame(self, request: HttpRequest, title: str, trail: Sequence[Crumb] = (), **context: Any) -> dict[str, Any]:
        """The context of a page; `trail` is what its breadcrumbs say after the app's name."""
        name = str(self.opts.verbose_name_plural).capitalize()
        return {
            **crumbs(*(trail or ((name, None),))),
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title,
            "vt_tabs": tabs(request, f"{self.opts.app_label}_{self.opts.model_name}"),
            "may": granted(request),
            **context,
        }

    def show(self, request: HttpRequest, template: str, title: str, **context: Any) -> HttpResponse:
        """A page in its frame."""
        request.current_app = self.admin_site.name
        return TemplateResponse(request, f"admin/django_vtasks/{template}.html", self.frame(request, title, **context))


def _show_everything(response: Any) -> None:
    """No name, error or argument that a producer made up may turn the direction of the page's writing."""
    response.content = visible(response.content.decode(response.charset))


def chosen_alias(request: HttpRequest) -> Alias | None:
    """The alias that the request names, else the first; None when there is none or it is unknown."""
    known = {alias.name: alias for alias in aliases()}
    named = request.POST.get("alias") or request.GET.get("alias")
    if named:
        return known.get(named)
    return next(iter(known.values()), None)


def tell_problem(request: HttpRequest, alias: Alias, error: QueueError) -> None:
    """Say that an action was not done because the store did not do it."""
    messages.error(request, f"The store of {alias.name!r} did not do it, or not all of it: {error}.")


def record(request: HttpRequest, *, of: str, about: str, message: str, flag: int = CHANGE) -> None:
    """Write an action into the admin log; `of` is the id of the job or empty, `about` what people read."""
    LogEntry.objects.create(
        user_id=cast("int", request.user.pk),
        content_type_id=ContentType.objects.get_for_model(models.Job, for_concrete_model=False).pk,
        object_id=of or None,
        object_repr=about[:200],
        action_flag=flag,
        change_message=message,
    )
