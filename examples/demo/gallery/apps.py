"""The app of the demo."""

from django.apps import AppConfig


class GalleryConfig(AppConfig):
    """Pictures and a heartbeat."""

    name = "gallery"
    default_auto_field = "django.db.models.BigAutoField"
