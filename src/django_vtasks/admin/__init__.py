"""The pages of django-vtasks in the project's own admin. Importing this registers them."""

from django.contrib import admin

from . import entries, jobs, letters, overview, schedule, valkey

entries.register(admin.site)
valkey.register(admin.site)

__all__ = ["entries", "jobs", "letters", "overview", "schedule", "valkey"]
