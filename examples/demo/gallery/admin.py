"""Pictures in the admin, beside the pages of the task queue."""

from django.contrib import admin

from .models import Picture


@admin.register(Picture)
class PictureAdmin(admin.ModelAdmin):
    """The uploaded pictures."""

    list_display = ["title", "uploaded_at", "job_id"]
    search_fields = ["title", "job_id"]
