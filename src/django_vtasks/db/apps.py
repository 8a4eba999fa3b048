"""The app's configuration."""

from django.apps import AppConfig


class DatabaseStoreConfig(AppConfig):
    """`django_vtasks.db`; the label is part of every table's name, so it stays `db`."""

    name = "django_vtasks.db"
    label = "db"
    verbose_name = "Task queue"
    default_auto_field = "django.db.models.BigAutoField"
