"""Who may do what: looking, operating, discarding and editing are permissions of their own."""

from enum import StrEnum

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest


class Permission(StrEnum):
    """The four permissions, as `user.has_perm` takes them."""

    VIEW = "django_vtasks.view_tasks"
    OPERATE = "django_vtasks.operate_tasks"
    DISCARD = "django_vtasks.discard_tasks"
    EDIT = "django_vtasks.edit_tasks"


def may(request: HttpRequest, permission: Permission) -> bool:
    """Whether the user has the permission; inactive users and others than staff have none."""
    user = request.user
    return bool(user.is_active and user.is_staff and user.has_perm(permission))


def require(request: HttpRequest, *permissions: Permission) -> None:
    """Raise PermissionDenied unless the user has every one of them."""
    if not all(may(request, permission) for permission in permissions):
        raise PermissionDenied


def granted(request: HttpRequest) -> dict[str, bool]:
    """The permissions by their short names, for templates: view, operate, discard, edit."""
    return {permission.name.lower(): may(request, permission) for permission in Permission}
