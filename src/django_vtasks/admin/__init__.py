"""The pages of django-vtasks in the project's own admin. Importing this registers them."""

from django.conf import settings
from django.contrib import admin

from ..models import ValkeyTask
from . import jobs, letters, overview, schedule
from .valkey import VALKEY_BACKEND, ValkeyTaskPage

if any(entry.get("BACKEND") == VALKEY_BACKEND for entry in getattr(settings, "TASKS", {}).values()):
    admin.site.register(ValkeyTask, ValkeyTaskPage)

__all__ = ["jobs", "letters", "overview", "schedule"]
